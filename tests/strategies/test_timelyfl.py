"""TimelyFL's interval, epochs and shares by hand; layers merged over those who trained them."""

import math
import pathlib

import numpy as np
import pytest
import torch
from torch import nn

import fedcore
from fedcore.config import Experiment
from fedcore.errors import BadOption
from fedcore.records import RunKey
from fedcore.server.state import ServerState, to_snapshot
from fedcore.sim.federation import federate
from fedcore.sim.world import build_strategy, build_world, simulate_rounds
from fedcore.strategies import timelyfl
from fedcore.types import ClientProfile, FederatedDataset, LocalUpdate, Phase, Way

STATE = ServerState({"w": torch.zeros(1)})


def plans_of(cohort, **options):
    plans = timelyfl.build(**options).by_cohort(STATE, dict(enumerate(cohort)))
    return [plans[n](client, 123.0, 10) for n, client in enumerate(cohort)]


def test_it_fits_on_its_pages():
    assert len(pathlib.Path(timelyfl.__file__).read_text().splitlines()) <= 150


def test_epochs_and_shares_follow_from_the_kth_time():
    """100 samples each at 10, 4, 1 and 0.5 a second: 10, 25, 100 and 200 s. k = 2: T = 25.

    E = floor(25 / 10) = 2 and 1; α = 25 / 100 and 25 / 200, in whole samples 25 and 12.
    """
    cohort = [ClientProfile(100, speed) for speed in (10.0, 4.0, 1.0, 0.5)]
    found = plans_of(cohort)
    assert [plan.phases for plan in found] == [(Phase(2),), (Phase(1),), (Phase(1),), (Phase(1),)]
    shares = [plan.trained_share for plan in found]
    assert shares == pytest.approx([1, 1, 0.25, 0.12])
    assert [plan.work(100) for plan in found] == [200, 100, 25, 12]
    for client, plan in zip(cohort, found, strict=True):
        assert client.seconds(plan.work(100)) <= 25


@pytest.mark.parametrize(("on_time", "epochs"), [(0.25, 1), (0.5, 2), (0.75, 10), (1.0, 20)])
def test_k_is_a_share_of_those_drawn(on_time, epochs):
    cohort = [ClientProfile(100, speed) for speed in (10.0, 4.0, 1.0, 0.5)]
    assert plans_of(cohort, on_time=on_time)[0].phases == (Phase(epochs),)


@pytest.mark.parametrize("seed", range(40))
def test_whoever_sets_the_time_trains_the_whole_model(seed):
    """m / c + d + u, less d and u again, may be less than m / c by a rounding error."""
    draws = np.random.default_rng(seed)
    pairs = zip(draws.integers(1, 500, 5).tolist(), draws.uniform(0.1, 3, (5, 3)), strict=True)
    cohort = [ClientProfile(m, float(c), 1e6 * d, 1e6 * u) for m, (c, d, u) in pairs]
    times = [one.seconds(one.num_samples, 123_457) for one in cohort]
    plan = plans_of(cohort, model_bytes=123_457)[times.index(sorted(times)[2])]
    assert (plan.trained_share, plan.phases) == (1.0, (Phase(1),))


def test_sending_counts():
    """1,000 bytes; the link takes 10 s down and 10 s up. t = 10, so T of the first is 30.

    The second: t = 40, α = (30 - 10) / (40 + 10) = 0.4, done at 10 + 16 + 4 = 30. The third can
    only just fetch the model in that time.
    """
    cohort = [
        ClientProfile(100, 10.0, 100.0, 100.0),
        ClientProfile(100, 2.5, 100.0, 100.0),
        ClientProfile(100, 10.0, 1000 / 30, 100.0),
    ]
    first, second, third = plans_of(cohort, on_time=0.01, model_bytes=1000)
    assert first.phases == (Phase(1),)
    assert second.trained_share == pytest.approx(0.4)
    assert cohort[1].seconds(second.work(100), 1000, 400) == pytest.approx(30)
    assert third.path is Way.SAT_OUT


def test_a_layer_is_averaged_over_those_who_trained_it():
    """Only one answer has the first layer, and nobody the frozen one."""
    before = {"a": torch.tensor([1.0]), "b": torch.tensor([1.0]), "c": torch.tensor([1.0])}
    merging = timelyfl.build().merge(ServerState(before))
    merging.add(LocalUpdate(0, {"b": torch.tensor([3.0]), "c": torch.tensor([5.0])}, 9), before)
    merging.add(LocalUpdate(1, {"c": torch.tensor([9.0])}, 9), before)
    after = {name: value.item() for name, value in merging.finish().params.items()}
    assert after == {"a": 1.0, "b": 3.0, "c": 7.0}


@pytest.fixture
def federation(build_client):
    torch.manual_seed(0)
    clients = {i: build_client(20 + 15 * i, seed=i) for i in range(6)}
    model = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 2))
    return federate(FederatedDataset(clients, build_client(50), 2), model)


def run(federation, start=None, **options):
    experiment = Experiment(rounds=6, epochs=3, clients_per_round=4, learning_rate=0.1, **options)
    strategy = build_strategy("timelyfl", experiment, federation.proxy)
    world = build_world(federation, experiment, RunKey("test", "own", 30.0, 0), strategy)
    return list(simulate_rounds(world, start)), world


def test_a_round_lasts_as_long_as_the_kth_client_needs(federation):
    rounds, world = run(federation, selection="uniform")
    profiles = world.server.profiles
    for record, _ in rounds:
        drawn = [profiles[one.client_id] for one in record.clients]
        times = sorted(one.seconds(one.num_samples) for one in drawn)
        interval = times[math.ceil(len(times) / 2) - 1]
        assert record.seconds <= interval * (1 + 1e-12)
        assert record.seconds > 0.8 * interval
        assert all(one.path is not Way.SAT_OUT for one in record.clients)


def test_it_goes_on_from_a_snapshot_as_if_it_had_never_stopped(federation):
    whole, _ = run(federation)
    rest, _ = run(federation, to_snapshot(whole[2][1]))
    for name, value in whole[-1][1].params.items():
        assert torch.equal(rest[-1][1].params[name], value)


class Backwards(nn.Module):
    """The layer of the output is registered first."""

    def __init__(self):
        super().__init__()
        self.last, self.first = nn.Linear(5, 2), nn.Linear(3, 5)

    def forward(self, x):
        return self.last(self.first(x))


@pytest.mark.parametrize(
    ("model", "head", "told"),
    [(nn.Linear(3, 2), None, "one layer"), (Backwards(), "last", "have no order")],
)
def test_a_model_without_an_order_is_one_sentence_before_anything_starts(
    model, head, told, build_client
):
    clients = [(data.x, data.y) for data in (build_client(20), build_client(30))]
    began = []
    with pytest.raises(BadOption, match=told):
        fedcore.simulate(
            clients, model, strategy="timelyfl", head=head, rounds=1, on_round=began.append
        )
    assert not began


def test_the_command_refuses_it_before_it_writes_anything(tmp_path):
    from fedcore.cli.grid import run_grid

    experiment = Experiment(strategies=("fedavg", "timelyfl"), rounds=1)  # a logistic model
    with pytest.raises(BadOption, match="one layer"):
        run_grid(experiment, tmp_path / "out")
    assert not (tmp_path / "out").exists()
