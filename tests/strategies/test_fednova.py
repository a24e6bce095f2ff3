"""FedNova against its formulas: a_i for SGD, momentum and prox, each found by taking the steps."""

import pytest
import torch

from fedcore.config import Experiment
from fedcore.errors import BadOption
from fedcore.sim.federation import federation_from_model
from fedcore.sim.world import build_strategy
from fedcore.strategies.fednova import build
from fedcore.types import ClientProfile, FederatedDataset, Phase


def moved_by_ones(steps, rate, momentum=0.0, mu=0.0):
    """How far ``steps`` local steps on a gradient of 1 everywhere go: -η a_i, by definition."""
    w = torch.zeros(1, dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.SGD([w], lr=rate, momentum=momentum)
    for _ in range(steps):
        optimiser.zero_grad()
        (w + mu / 2 * w.square()).sum().backward()
        optimiser.step()
    return w.item()


@pytest.mark.parametrize(
    "how", [{}, {"momentum": 0.9}, {"momentum": 0.5}, {"mu": 0.5}, {"mu": 2.0}], ids=str
)
def test_equal_gradients_are_equal_votes_whatever_the_steps(merged, state_of, how):
    """Gradient 1 on all clients: w moves by -η mean(a), each a_i from steps that were taken."""
    options = {"nova_mu": how["mu"]} if "mu" in how else how
    strategy = build(step_size=lambda version: 0.1, **options)
    ends = [moved_by_ones(steps, 0.1, **how) for steps in (2, 10)]
    answers = [
        (i, w, 0.0, {"steps": s}) for i, (w, s) in enumerate(zip(ends, (2, 10), strict=True))
    ]
    after = merged(strategy, state_of(0.0), *answers)
    assert after.params["w"].item() == pytest.approx(sum(ends) / 2, rel=1e-5)


def test_by_hand(merged, state_of):
    """Moves of 4 in 2 steps and 30 in 10: 2 and 3 a step, mean 2.5, times 6 steps: 15.

    By samples, 30 and 10, p = 3/4 and 1/4: (1.5 + 0.75) a step, times 1.5 + 2.5 steps: 9.
    The plain mean would be 17.
    """
    answers = (0, 5.0, 1.0, {"steps": 2, "num_samples": 30}), (1, 31.0, 1.0, {"steps": 10})
    assert merged(build(), state_of(1.0), *answers).params["w"].item() == pytest.approx(16.0)
    by_samples = build(aggregation="samples")
    assert merged(by_samples, state_of(1.0), *answers).params["w"].item() == pytest.approx(10.0)


def test_shares_add_up_to_one_over_those_who_answer(merged, state_of):
    """One of many answers: its own move, whatever its share of the fleet."""
    strategy = build(aggregation="samples", options={"num_clients": 1000})
    after = merged(strategy, state_of(1.0), (7, 4.0, 1.0, {"steps": 9}))
    assert after.params["w"].item() == pytest.approx(4.0)


def test_steps_without_number_take_no_time(merged, state_of):
    """ρ = 0.9: a = 10 K - 90 for large K; a move of 1 in 10^12 steps is one of 1."""
    answer = 0, 2.0, 1.0, {"steps": 10**12}
    after = merged(build(momentum=0.9), state_of(1.0), answer)
    assert after.params["w"].item() == pytest.approx(2.0)


def test_with_momentum_by_hand(merged, state_of):
    """ρ = 0.5: a = 1 + 1.5 for two steps, 1 for one. Moves 5 and 4: (2 + 4) / 2 · 1.75 = 5.25."""
    answers = (0, 5.0, 0.0, {"steps": 2}), (1, 4.0, 0.0, {"steps": 1})
    after = merged(build(momentum=0.5), state_of(0.0), *answers)
    assert after.params["w"].item() == pytest.approx(5.25)


def test_with_a_prox_by_hand(merged, state_of):
    """ημ = 0.5: a = (1 - 0.25) / 0.5 = 1.5 for two steps, 1 for one; moves 3 and 4: 3 · 1.25."""
    strategy = build(nova_mu=5.0, step_size=lambda version: 0.1)
    answers = (0, 3.0, 0.0, {"steps": 2}), (1, 4.0, 0.0, {"steps": 1})
    assert merged(strategy, state_of(0.0), *answers).params["w"].item() == pytest.approx(3.75)


def test_a_schedule_sets_the_step_of_the_version(merged, state_of):
    """η = 0.1 / (version + 1): at version 1, ημ = 0.5 with μ = 10."""
    strategy = build(nova_mu=10.0, step_size=lambda version: 0.1 / (version + 1))
    answers = (0, 3.0, 0.0, {"steps": 2}), (1, 4.0, 0.0, {"steps": 1})
    after = merged(strategy, state_of(0.0, version=1), *answers)
    assert after.params["w"].item() == pytest.approx(3.75)


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_equal_steps_are_fedavg(simulated, build_client, momentum):
    clients = {i: build_client(40, seed=i) for i in range(6)}
    alike = federation_from_model(FederatedDataset(clients, None, 2), "logistic", 0)
    options = {"within": alike, "momentum": momentum}
    mine = simulated("fednova", method={"local": "fedavg"}, **options)
    theirs = simulated("fedavg", **options)
    for (one, state), (other, expected) in zip(mine, theirs, strict=True):
        assert one.clients == other.clients
        for name, value in expected.params.items():
            assert torch.allclose(state.params[name], value, atol=1e-6)


@pytest.mark.parametrize("told", [{"optimiser": "adam"}, {"clip_norm": 1.0}], ids=str)
def test_adam_and_clipping_are_refused(told):
    (name,) = told
    with pytest.raises(BadOption, match=f"fednova has no rule for {name}"):
        build(options=told)


def test_momentum_with_prox_is_refused():
    with pytest.raises(BadOption, match=r"fednova has no rule for momentum, got 0\.9"):
        build(nova_mu=0.1, momentum=0.9, options={"momentum": 0.9})
    build(momentum=0.9, options={"momentum": 0.9})


@pytest.mark.parametrize(
    "told", [{"optimiser": "adam"}, {"clip_norm": 1.0}, {"momentum": 0.5, "method": {"nova_mu": 1}}]
)
def test_options_of_an_experiment_are_refused_when_the_strategy_is_built(told):
    with pytest.raises(BadOption, match="fednova has no rule for"):
        build_strategy("fednova", Experiment(**told), "input")


def test_steps_that_make_up_for_their_number_are_not_made_up_for_twice():
    plan = build("fedprox", options={"catch_up": 4.0}).plan(ClientProfile(100, 1.0), 250.0, 10)
    assert (plan.phases, plan.step_scale) == ((Phase(2),), 1.0)
