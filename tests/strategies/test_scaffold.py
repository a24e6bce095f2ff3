"""SCAFFOLD against its formulas, against FedAvg, and with steps that differ."""

import pytest
import torch

import fedcore
from fedcore.errors import BadOption
from fedcore.sim.federation import federation_from_model
from fedcore.strategies.scaffold import build
from fedcore.types import ClientProfile, FederatedDataset, Phase


def scaffold(**options):
    return build(step_size=lambda version: 0.1, options={"num_clients": 4}, **options)


def test_it_follows_its_formulas(merged, state_of):
    """x = 1, η = 0.1, N = 4; y = 0 after 5 steps with c = 0.5, c_0 = 0.2, and a client without.

    c_0+ = 0.2 - 0.5 + (1 - 0) / (5 · 0.1) = 1.7;  c_1+ = 0 - 0.5 + (1 - 3) / (10 · 0.1) = -2.5
    x+ = 1 + 7.5 · mean(-1 / 5, 2 / 10) = 1;  c+ = 0.5 + (1.5 - 2.5) / 4 = 0.25
    """
    state = state_of(1.0, tensors={"w": 0.5}, clients={0: 0.2})
    strategy = scaffold()
    assert strategy.shift(state, 0)["w"].item() == pytest.approx(0.3)
    assert strategy.shift(state, 1)["w"].item() == pytest.approx(0.5)
    after = merged(strategy, state, (0, 0.0, 1.0, {"steps": 5}), (1, 3.0, 1.0, {"steps": 10}))
    assert after.clients[0]["w"].item() == pytest.approx(1.7)
    assert after.clients[1]["w"].item() == pytest.approx(-2.5)
    assert after.params["w"].item() == pytest.approx(1.0)
    assert after.tensors["w"].item() == pytest.approx(0.25)


def test_everything_starts_at_zero(state_of):
    assert scaffold().shift(state_of(1.0), 0) is None


def test_with_equal_steps_it_is_the_original_mean(merged, state_of):
    """x + η_g mean (y - x) = 1 + 0.5 · (3 + 1) / 2 = 2."""
    answers = (0, 4.0, 1.0, {"steps": 5}), (1, 2.0, 1.0, {"steps": 5})
    after = merged(scaffold(global_rate=0.5), state_of(1.0), *answers)
    assert after.params["w"].item() == pytest.approx(2.0)


@pytest.mark.parametrize("local", ["fedavg", "partial"])
def test_with_one_client_it_is_fedavg(simulated, build_client, local):
    """Then c = c_i after every round, and the correction is zero."""
    alone = federation_from_model(FederatedDataset({0: build_client(40)}, None, 2), "logistic", 0)
    options = {"within": alone, "method": {"local": local}}
    mine = simulated("scaffold", **options)[-1][1].params
    for name, value in simulated(local, within=alone)[-1][1].params.items():
        assert torch.allclose(mine[name], value, atol=1e-6)


def quadratic_rounds(count=None):
    """|x - optimum| over rounds of two clients with f = (x ∓ 1)² / 2: 2 steps and 40, η = 0.05."""
    from fedcore.server.state import ServerState
    from fedcore.types import LocalUpdate

    strategy = build(step_size=lambda version: 0.05, options={"num_clients": 2})
    state, found = ServerState({"w": torch.tensor([5.0])}), []
    for _ in range(300):
        merging = strategy.merge(state)
        for client, (centre, steps) in enumerate([(1.0, 2), (-1.0, 40)]):
            y, added = state.params["w"].clone(), strategy.shift(state, client)
            for _ in range(steps):
                y = y - 0.05 * (y - centre + (added["w"] if added else 0.0))
            told = steps if count is None else count
            merging.add(LocalUpdate(client, {"w": y}, 1, steps=told), state.params)
        state = merging.finish()
        found.append(abs(state.params["w"].item()))
    return found


def test_unequal_steps_go_to_the_common_optimum_which_a_common_count_does_not():
    """Both gradients at 0 cancel, with c_i = ∓1: the fixed point of SCAFFOLD for any steps."""
    assert quadratic_rounds()[-1] < 1e-3
    assert not quadratic_rounds(count=2)[-1] < 1e6  # as if all had taken the steps of the first


@pytest.mark.parametrize(
    "told", [{"optimiser": "adam"}, {"momentum": 0.9}, {"clip_norm": 1.0}], ids=str
)
def test_other_local_training_is_refused(told):
    (name,) = told
    with pytest.raises(BadOption, match=f"scaffold has no rule for {name}, got .*; leave it out"):
        build(options=told)
    build(options={"optimiser": "sgd", "momentum": 0.0, "clip_norm": 0.0})


def test_more_memory_than_there_is_is_refused():
    """100,000 clients of 10 million numbers, 4 bytes each: 4,000 GB."""
    told = (
        r"scaffold keeps .* 40.0 MB, for each of 100,000 clients, 4,000 GB, and the most is 16 GB"
    )
    with pytest.raises(BadOption, match=told):
        build(options={"num_clients": 100_000, "model_bytes": 40_000_000})
    build(options={"num_clients": 100_000, "model_bytes": 160_000})  # 16 GB


def test_a_fleet_too_large_to_remember_is_refused_before_anybody_trains():
    loaded = []

    def load(client):
        loaded.append(client)
        return fedcore.ClientData(torch.zeros(1, 1000), torch.zeros(1, dtype=torch.int64))

    fleet = fedcore.LazyClients([1] * 100_000, load)
    with pytest.raises(BadOption, match=r"scaffold keeps .* for each of 100,000 clients"):
        fedcore.simulate(fleet, torch.nn.Linear(1000, 1000), strategy="scaffold", rounds=1)
    assert set(loaded) <= {0}  # whose samples show what the model is given


def test_where_steps_have_no_size_everything_stays(merged, state_of):
    """(x - y) / (K η) is 0 / 0 then, and tells of no gradient: c and c_i are those of before."""
    state = state_of(1.0, tensors={"w": 0.5}, clients={0: 0.2})
    strategy = build(step_size=lambda version: 0.0, options={"num_clients": 4})
    after = merged(strategy, state, (0, 1.0, 1.0, {"steps": 5}), (1, 1.0, 1.0, {"steps": 10}))
    assert after.params["w"].item() == 1.0
    assert after.tensors["w"].item() == 0.5
    assert {client: kept["w"].item() for client, kept in after.clients.items()} == pytest.approx(
        {0: 0.2}
    )


def test_steps_that_make_up_for_their_number_are_not_made_up_for_twice():
    plan = build("fedprox", options={"catch_up": 4.0}).plan(ClientProfile(100, 1.0), 250.0, 10)
    assert (plan.phases, plan.step_scale) == ((Phase(2),), 1.0)
