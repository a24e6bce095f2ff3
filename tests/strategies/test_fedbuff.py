"""FedBuff against its formula, and against FedAvg where the two are one."""

import pytest
import torch

from fedcore.errors import BadOption
from fedcore.server.clock import VirtualClock
from fedcore.server.loop import Server
from fedcore.server.method import Sampler
from fedcore.server.state import ServerState
from fedcore.sources.clients import ClientSizes
from fedcore.strategies.fedbuff import build
from fedcore.types import ClientProfile, LocalUpdate, Way


def test_it_weighs_what_an_answer_brings_by_its_age(merged, state_of):
    """w = 2; Δ = 6 - 2 = 4 of age 0, Δ = 7 - 1 = 6 of age 3, halved: w + (4 + 6 / √4) / 2 = 5.5.

    Not FedScale's mean of models (4.3), not Plato's delta against the current model without weights
    (w + (4 + 5) / 2 = 6.5), not AFL-Lib's second division by B (3.75).
    """
    answers = (0, 6.0, 2.0, {}), (1, 7.0, 1.0, {"base_version": 0})
    assert merged(build(), state_of(2.0, version=3), *answers).params["w"].item() == 5.5


def test_the_servers_step_scales_the_mean(merged, state_of):
    assert merged(build(global_rate=0.5), state_of(2.0), (0, 6.0, 2.0, {})).params["w"].item() == 4


def test_who_was_drawn_twice_counts_twice(merged, state_of):
    """(2 · 3 + 1 · 6) / 3 = 4."""
    answers = (0, 3.0, 0.0, {"copies": 2}), (1, 6.0, 0.0, {})
    assert merged(build(), state_of(0.0), *answers).params["w"].item() == 4.0


@pytest.mark.parametrize("selection", ["uniform", "proportional"])
def test_refilled_on_merging_it_is_fedavg(simulated, selection):
    """Buffer = concurrency = K, server step 1: the same cohorts and times, models to 1e-6."""
    mine = simulated(build(buffer=3, refill_at_once=False), selection=selection)
    expected = simulated("fedavg", selection=selection)
    for (one, state), (other, theirs) in zip(mine, expected, strict=True):
        assert (one.seconds, one.clients) == (other.seconds, other.clients)
        for name, value in theirs.params.items():
            assert torch.allclose(state.params[name], value, atol=1e-6)


def test_it_does_not_wait_for_the_slow(simulated):
    """Refilled at once, with a buffer below the number of jobs: merges come faster than rounds."""
    buffered, waiting = simulated(build(buffer=1)), simulated("fedavg")
    assert sum(r.seconds for r, _ in buffered) < sum(r.seconds for r, _ in waiting)
    assert max(len(state.jobs) for _, state in buffered) == 2


def test_two_speeds_age_as_they_should():
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
    settings = {"epochs": 10, "clients_per_round": 2, "seed": 0, "merges": 4}
    sizes = ClientSizes.of({0: 10, 1: 10})
    clock = VirtualClock(Adding(), 100.0)
    server = Server(build(buffer=1), idle, clock, profiles, sizes, **settings)
    merges = list(server.run(ServerState({"w": torch.zeros(1)})))
    assert [merge.seconds for merge in merges] == [100.0, 100.0, 0.0, 100.0]
    found = [merge.state.params["w"].item() for merge in merges]
    root = 2**0.5
    assert found == pytest.approx([1, 1 + 10 / root, 1 + 11 / root, 2 + 11 / root])
    ages = [[(c.client_id, c.staleness) for c in merge.clients] for merge in merges]
    assert ages == [[(0, 0)], [(1, 1)], [(0, 1)], [(0, 0)]]


def test_clients_may_work_as_under_another_strategy():
    slow = ClientProfile(100, 1.0)
    assert build().plan(slow, 190.0, 10).path is Way.FULL
    assert build("partial").plan(slow, 190.0, 10).work(100) == 100
    assert build(local="fedprox").plan(slow, 190.0, 10).prox_mu == 0.1


@pytest.mark.parametrize("buffer", [0, 1.5, "x"])
def test_a_buffer_of_no_answers_is_refused(buffer):
    with pytest.raises(BadOption, match="buffer must be"):
        build(buffer=buffer)
