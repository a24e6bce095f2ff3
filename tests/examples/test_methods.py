"""The doors are open: methods with state, an own pace and an own draw, each one file.

What they compute is held against formulas that are worked out here, or against FedAvg.
"""

import dataclasses
import pathlib

import pytest
import torch

from fedcore import plugins
from fedcore.config import Experiment
from fedcore.records import RunKey
from fedcore.server.clock import VirtualClock
from fedcore.server.loop import LoopSettings, Server
from fedcore.server.method import Sampler, Strategy
from fedcore.server.state import ServerState, to_snapshot
from fedcore.sim.federation import federation_from_model
from fedcore.sim.world import build_strategy, build_world, simulate_rounds
from fedcore.sources.clients import ClientSizes
from fedcore.types import ClientProfile, FederatedDataset, LocalUpdate

EXAMPLES = pathlib.Path(__file__).parents[2] / "examples"
FEDBUFF, SCAFFOLD = (
    str(EXAMPLES / name) for name in ("fedbuff_strategy.py", "scaffold_strategy.py")
)
SMALL = Experiment(rounds=6, epochs=3, clients_per_round=3, learning_rate=0.1, selection="uniform")


@pytest.fixture
def federation(build_client):
    clients = {i: build_client(20 + 15 * i, seed=i) for i in range(6)}
    return federation_from_model(FederatedDataset(clients, build_client(50), 2), "logistic", 0)


def run(federation, strategy, experiment=SMALL, start=None):
    world = build_world(federation, experiment, RunKey("test", "own", 30.0, 0), strategy)
    return list(simulate_rounds(world, start))


def by_hand(name, **options):
    return plugins.build("strategy", name, Strategy, method=options)


def untimed(result):
    return [dataclasses.replace(record, wall_seconds=0.0) for record, _ in result]


@pytest.mark.parametrize("path", [FEDBUFF, SCAFFOLD])
def test_a_method_fits_on_a_page(path):
    assert len(pathlib.Path(path).read_text().splitlines()) <= 60


def test_fedbuff_that_refills_on_merging_is_fedavg(federation):
    """Buffer = concurrency = K, server step 1: the same cohorts and times, models to 1e-6."""
    buffered = by_hand(FEDBUFF, buffer=3, refill_at_once=False)
    mine = run(federation, buffered)
    expected = run(federation, build_strategy("fedavg", SMALL, federation.proxy))
    for (one, state), (other, theirs) in zip(mine, expected, strict=True):
        assert (one.seconds, one.clients) == (other.seconds, other.clients)
        for name, value in theirs.params.items():
            assert torch.allclose(state.params[name], value, atol=1e-6)


def test_fedbuff_weighs_what_an_answer_brings_by_its_age():
    """w = 2; Δ = 4 of age 0 and Δ = 6 of age 3, halved: w + (4 + 6 / √4) / 2 = 5.5."""
    merging = by_hand(FEDBUFF, buffer=2).merge(ServerState({"w": torch.tensor([2.0])}, version=3))
    fresh = LocalUpdate(0, {"w": torch.tensor([6.0])}, 1, base_version=3)
    merging.add(fresh, {"w": torch.tensor([2.0])})
    stale = LocalUpdate(1, {"w": torch.tensor([7.0])}, 1, base_version=0)
    merging.add(stale, {"w": torch.tensor([1.0])})
    assert merging.finish().params["w"].item() == 5.5


def test_fedbuff_does_not_wait_for_the_slow(federation):
    """Refilled at once, with a buffer below the number of jobs: merges come faster than rounds."""
    buffered = run(federation, by_hand(FEDBUFF, buffer=1))
    waiting = run(federation, build_strategy("fedavg", SMALL, federation.proxy))
    assert sum(r.seconds for r, _ in buffered) < sum(r.seconds for r, _ in waiting)
    assert max(len(state.jobs) for _, state in buffered) == 2


def test_fedbuff_refills_at_once_and_two_speeds_age_as_they_should():
    """Jobs of 100 and 200 seconds that add 1 and 10 to the model; a merge for every answer.

    At 100 client 0 brings 1 of age 0: w = 1. At 200 client 1, which began at version 0, brings
    10 / √2; then client 0, which began at version 1, 1 / √2. At 300 client 0 brings 1 of age 0.
    """

    class Adding:
        def run(self, params, assignments):
            steps = {0: 1.0, 1: 10.0}
            return [
                LocalUpdate(a.client_id, {"w": params["w"] + steps[a.client_id]}, 10)
                for a in assignments
            ]

    profiles = {0: ClientProfile(10, 1.0), 1: ClientProfile(10, 0.5)}
    idle = Sampler(lambda asked: {c: 1 for c in asked.sizes if c not in asked.busy})
    sizes = ClientSizes.of({0: 10, 1: 10})
    server = Server(
        by_hand(FEDBUFF, buffer=1),
        idle,
        VirtualClock(Adding(), 100.0),
        profiles,
        sizes,
        LoopSettings(epochs=10, clients_per_round=2, seed=0, merges=4),
    )
    merges = list(server.run(ServerState({"w": torch.zeros(1)})))
    assert [merged.seconds for merged in merges] == [100.0, 100.0, 0.0, 100.0]
    found = [merged.state.params["w"].item() for merged in merges]
    root = 2**0.5
    assert found == pytest.approx([1, 1 + 10 / root, 1 + 11 / root, 2 + 11 / root])


@pytest.mark.parametrize("stopped", [1, 3, 5])
def test_fedbuff_goes_on_from_a_snapshot_as_if_it_had_never_stopped(federation, stopped):
    whole = run(federation, by_hand(FEDBUFF, buffer=2))
    rest = run(federation, by_hand(FEDBUFF, buffer=2), start=to_snapshot(whole[stopped - 1][1]))
    assert untimed(rest) == untimed(whole)[stopped:]
    assert torch.equal(*(r[-1][1].params["linear.weight"] for r in (rest, whole)))


def test_scaffold_with_one_client_is_fedavg(build_client):
    """Then c = c_i after every round, and the correction is zero."""
    dataset = FederatedDataset({0: build_client(40)}, None, 2)
    federation = federation_from_model(dataset, "logistic", 0)
    options = {"learning_rate": 0.1, "num_clients": 1}
    mine = run(federation, by_hand(SCAFFOLD, **options))[-1][1].params
    theirs = run(federation, build_strategy("fedavg", SMALL, "input"))[-1][1].params
    for name, value in theirs.items():
        assert torch.allclose(mine[name], value, atol=1e-6)


def test_scaffold_follows_its_formulas():
    """x = 1, η = 0.1, N = 4; y = 0 after 5 steps with c = 0.5, c_0 = 0.2, and a client without.

    c_0+ = 0.2 - 0.5 + (1 - 0) / (5 · 0.1) = 1.7;  c_1+ = 0 - 0.5 + (1 - 3) / (10 · 0.1) = -2.5
    x+ = 1 + 7.5 · mean(-1 / 5, 2 / 10) = 1;  c+ = 0.5 + (1.5 - 2.5) / 4 = 0.25
    """
    strategy = by_hand(SCAFFOLD, learning_rate=0.1, num_clients=4)
    state = ServerState(
        {"w": torch.tensor([1.0])},
        tensors={"w": torch.tensor([0.5])},
        clients={0: {"w": torch.tensor([0.2])}},
    )
    assert strategy.shift(state, 0)["w"].item() == pytest.approx(0.3)
    merging = strategy.merge(state)
    merging.add(LocalUpdate(0, {"w": torch.tensor([0.0])}, 10, steps=5), state.params)
    merging.add(LocalUpdate(1, {"w": torch.tensor([3.0])}, 10, steps=10), state.params)
    after = merging.finish()
    assert after.clients[0]["w"].item() == pytest.approx(1.7)
    assert after.clients[1]["w"].item() == pytest.approx(-2.5)
    assert after.params["w"].item() == pytest.approx(1.0)
    assert after.tensors["w"].item() == pytest.approx(0.25)


def test_scaffold_goes_on_from_a_snapshot_as_if_it_had_never_stopped(federation):
    options = {"learning_rate": 0.1, "num_clients": 6}
    whole = run(federation, by_hand(SCAFFOLD, **options))
    rest = run(federation, by_hand(SCAFFOLD, **options), start=to_snapshot(whole[2][1]))
    assert untimed(rest) == untimed(whole)[3:]
