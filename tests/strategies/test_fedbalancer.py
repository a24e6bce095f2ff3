"""FedBalancer's rules, by hand; what clients remember stays with them, and outlives a kill."""

import dataclasses
import pathlib

import numpy as np
import pytest
import torch

from fedcore.client.schedule import above_threshold
from fedcore.config import Experiment
from fedcore.coreset.proxies import REMEMBERED
from fedcore.errors import BadOption
from fedcore.records import RunKey
from fedcore.server.state import ServerState, to_snapshot
from fedcore.sim.federation import federation_from_model
from fedcore.sim.world import build_strategy, build_world, simulate_rounds
from fedcore.strategies import fedbalancer
from fedcore.types import ClientProfile, CoresetSpec, FederatedDataset, LocalUpdate, Phase, Way

LOSSES = np.array([0.1, 0.9, 0.3, 0.7, 0.5, 0.2, 0.8, 0.4, 0.6, 0.0])


def chosen(budget, threshold, epochs=4, easy=0.0, losses=LOSSES, seed=0):
    options = (("threshold", threshold), ("easy", easy))
    phase = Phase(epochs, CoresetSpec(budget, "uniform-plain", REMEMBERED, options=options))
    return above_threshold(losses, phase, np.random.default_rng(seed))


def test_it_fits_on_its_pages():
    assert len(pathlib.Path(fedbalancer.__file__).read_text().splitlines()) <= 150


def test_rule_a_everything_where_all_fits():
    found = chosen(10, 0.65)
    assert found.indices.tolist() == list(range(10))
    assert found.epochs in (None, 4)


@pytest.mark.parametrize("budget", [3, 4, 9])
def test_rule_b_all_hard_samples_where_they_fit_all_epochs(budget):
    """H = {1, 3, 6}, all of it and nothing else while q = 0; each weighs 10 / 3."""
    found = chosen(budget, 0.65)
    assert found.indices.tolist() == [1, 3, 6]
    assert found.epochs == 4
    assert found.weights.tolist() == pytest.approx([10 / 3] * 3)


def test_rule_b_with_a_share_of_easy_samples():
    """n = 6, q = 1/3: int(6 / 3) = 2 easy ones, and 4 of the hard, of which there are 3."""
    found = chosen(6, 0.65, easy=1 / 3)
    hard = {1, 3, 6}
    assert hard < set(found.indices.tolist())
    assert len(found.indices) == 5


def test_rule_c_fewer_epochs_on_all_hard_samples():
    """w = 2 · 4 = 8 and |H| = 3: floor(8 / 3) = 2 epochs."""
    found = chosen(2, 0.65)
    assert found.indices.tolist() == [1, 3, 6]
    assert found.epochs == 2


def test_rule_c_as_many_as_fit_once_where_not_one_epoch_does():
    """w = 1 · 4 and |H| = 6: four of them, once, and not the same in every draw."""
    draws = {tuple(chosen(1, 0.35, seed=seed).indices) for seed in range(20)}
    assert len(draws) > 1
    for draw in draws:
        assert len(draw) == 4
        assert set(draw) <= {1, 3, 4, 6, 7, 8}
    assert chosen(1, 0.35).epochs == 1


@pytest.mark.parametrize("budget", [2, 5])
def test_where_no_loss_reaches_the_threshold_all_are_hard(budget):
    """Not one sample, as in their simulator. w = 8 or 20: eight once, all ten twice."""
    found = chosen(budget, 2.0)
    assert (len(found.indices), found.epochs) == {2: (8, 1), 5: (10, 2)}[budget]


@pytest.mark.parametrize("budget", range(1, 10))
@pytest.mark.parametrize("threshold", [0.0, 0.35, 0.65, 2.0])
@pytest.mark.parametrize("easy", [0.0, 0.3, 1.0])
def test_the_work_is_never_more_than_the_server_allotted(budget, threshold, easy):
    found = chosen(budget, threshold, easy=easy)
    assert 1 <= len(found.indices) * found.epochs <= budget * 4
    assert len(set(found.indices.tolist())) == len(found.indices)


def answer(client, least, percentile, loss=1.0, params=0.0, size=10):
    return LocalUpdate(
        client,
        {"w": torch.tensor([params])},
        100,
        loss_sum=4 * loss,
        loss_count=4,
        coreset_size=size,
        payload={"least": torch.tensor(least), "percentile": torch.tensor(percentile)},
    )


def merged(state, *answers, **options):
    merging = fedbalancer.build(**options).merge(state)
    for one in answers:
        merging.add(one, state.params)
    return merging.finish()


def test_the_threshold_lies_between_the_least_and_the_mean_percentile():
    """LL = 0.25, LH = (1 + 2) / 2 = 1.5, r = 0.5: 0.875; of this round's answers, not of all."""
    state = ServerState({"w": torch.zeros(1)}, tensors={"ratio": torch.tensor(0.5)})
    after = merged(state, answer(3, 0.5, 1.0), answer(7, 0.25, 2.0))
    assert after.tensors["threshold"].item() == 0.875
    assert after.tensors["met"].tolist() == [3, 7]
    again = merged(after, answer(1, 1.0, 3.0))
    assert again.tensors["threshold"].item() == 2.0
    assert again.tensors["met"].tolist() == [1, 3, 7]


def test_answers_count_by_how_many_samples_were_chosen():
    state = ServerState({"w": torch.zeros(1)})
    after = merged(state, answer(0, 0.0, 1.0, params=1.0, size=30), answer(1, 0.0, 1.0, size=10))
    assert after.params["w"].item() == 0.75


def test_the_ratio_follows_the_losses_window_by_window():
    """W = 2, s = 0.25. Means 3, 2, 2, 1, 4: up, down (no less), up, down."""
    losses = [4, 2, 2, 2, 2, 2, 1, 1, 4, 4]
    ratios, state = [], ServerState({"w": torch.zeros(1)})
    for loss in losses:
        one = answer(0, 0.0, 1.0, loss)
        state = merged(state, one, ratio_step=0.25, window=2)
        ratios.append(state.tensors["ratio"].item())
    assert ratios == [0, 0, 0, 0.25, 0.25, 0, 0, 0.25, 0.25, 0]


def test_the_ratio_stays_between_zero_and_one():
    rising, falling = ServerState({"w": torch.zeros(1)}), ServerState({"w": torch.zeros(1)})
    for n in range(6):
        options = {"ratio_step": 0.6, "window": 1}
        rising = merged(rising, answer(0, 0.0, 1.0, 1.0 + n), **options)
        falling = merged(falling, answer(0, 0.0, 1.0, 9.0 - n), **options)
    assert rising.tensors["ratio"].item() == 0
    assert falling.tensors["ratio"].item() == 1


def test_the_first_job_pays_for_a_forward_pass():
    """100 samples, 455 seconds: floor((455 - 34) / 10) = 42 samples, and 45 when it is known."""
    client = ClientProfile(100, 1.0)
    known = {"met": torch.tensor([5]), "threshold": torch.tensor(0.5)}
    state = ServerState({"w": torch.zeros(1)}, tensors=known)
    plans = fedbalancer.build().by_cohort(state, {4: client, 5: client})
    first, later = (plans[number](client, 455.0, 10) for number in (4, 5))
    options = (("threshold", 0.5), ("easy", 0.0))
    spec = CoresetSpec(45, "uniform-plain", REMEMBERED, options=options)
    assert later.phases == (Phase(10, spec),)
    assert first.phases == (Phase(10, dataclasses.replace(spec, budget=42, price=1 / 3)),)
    assert first.work(100) == 420 + 34
    assert (later.path, plans[5](client, 1000.0, 10).path) == (Way.PARTIAL, Way.FULL)
    assert plans[4](client, 20.0, 10).path is Way.SAT_OUT


@pytest.fixture
def federation(build_client):
    clients = {i: build_client(20 + 15 * i, seed=i) for i in range(6)}
    return federation_from_model(FederatedDataset(clients, build_client(50), 2), "logistic", 0)


EXPERIMENT = Experiment(
    rounds=10,
    epochs=3,
    clients_per_round=3,
    learning_rate=0.3,
    method={"window": 1, "ratio_step": 0.4},
)


def run(federation, start=None, **options):
    experiment = dataclasses.replace(EXPERIMENT, **options)
    strategy = build_strategy("fedbalancer", experiment, federation.proxy)
    world = build_world(federation, experiment, RunKey("test", "own", 30.0, 0), strategy)
    return list(simulate_rounds(world, start))


def test_a_run_goes_on_bit_for_bit_with_what_clients_remember(federation):
    whole = run(federation)
    stopped = to_snapshot(whole[4][1])
    rest = run(federation, stopped)
    for (one, _), (other, _) in zip(rest, whole[5:], strict=True):
        assert dataclasses.replace(one, wall_seconds=0) == dataclasses.replace(
            other, wall_seconds=0
        )
    last, expected = rest[-1][1], whole[-1][1]
    assert all(torch.equal(last.params[name], value) for name, value in expected.params.items())
    assert {c: v.tolist() for c, v in last.on_clients.items()} == {
        c: v.tolist() for c, v in expected.on_clients.items()
    }
    # Without it the run would be another: clients would look at everything again, unpaid.
    forgotten = {n: v for n, v in stopped.tensors.items() if not n.startswith("memory/")}
    other = run(federation, dataclasses.replace(stopped, tensors=forgotten))[-1][1]
    assert not all(torch.equal(other.params[n], v) for n, v in expected.params.items())


def test_losses_of_samples_leave_no_client(federation):
    rounds = run(federation)
    state = rounds[-1][1]
    sizes = {client: len(losses) for client, losses in state.on_clients.items()}
    assert sizes == {client: len(federation.dataset.clients[client]) for client in sizes}
    assert set(state.tensors) == {"losses", "ratio", "threshold", "met"}
    assert len(state.tensors["losses"]) == len(rounds)  # a number a round
    assert state.clients == {}
    assert max(record.time for record, _ in rounds) <= 1
    assert float(state.tensors["threshold"]) > 0


def test_executors_agree(federation):
    plain, compiled = (run(federation, executor=name, rounds=4) for name in ("sequential", "auto"))
    for name, value in plain[-1][1].params.items():
        assert torch.allclose(compiled[-1][1].params[name], value, atol=1e-5)


@pytest.mark.parametrize(("name", "wrong"), [("window", 0), ("window", -1), ("ratio_step", -0.1)])
def test_windows_and_steps_of_the_ratio_are_checked(name, wrong):
    with pytest.raises(BadOption, match=f"{name} must be at least"):
        fedbalancer.build(**{name: wrong})
