"""What a server keeps of answers, and how far a controller is trusted."""

import math

import numpy as np
import pytest
import torch

from fedcore.errors import BadOption
from fedcore.server.controller import PROBE, ROOM, Controller, Seen, begin, learn, recall
from fedcore.server.state import Job
from fedcore.sources.clients import ClientSizes
from fedcore.types import Assignment, ClientProfile, LocalPlan, LocalUpdate, Phase, Way

SIZES = ClientSizes.of({100: 10, 7: 20, 55: 5})  # ids that are not places
BASE = {"w": torch.zeros(25)}  # 100 bytes


def seen(*rows, rounds=(), most=math.inf):
    table = np.array(rows, dtype=float).reshape(-1, 3)
    before = np.array(rounds, dtype=float).reshape(-1, 3)
    return Seen(1, *table.T, np.ones(len(table), bool), len(table), before, most)


def answer(memory, client, seconds, losses=(0.0, 0), work=None, samples=10):
    profile = ClientProfile(samples, 99.0, download=100.0, upload=50.0)  # 1 s and 2 s
    told = Assignment(client, LocalPlan((Phase(3),), Way.FULL), 0, 0)
    update = LocalUpdate(
        *(client, {}, samples), seconds=seconds, work=work, loss_sum=losses[0], loss_count=losses[1]
    )
    return learn(memory, SIZES, Job(told, profile, 1, BASE, 0), update)


def test_speed_is_work_by_the_time_that_is_no_transfer_and_not_the_profiles():
    memory = answer(begin({}, 9.0), 7, seconds=18.0)
    found = recall(memory, SIZES, [55, 7], 4)
    assert [found.samples.item(), found.speeds.item(), found.transfers.item()] == [10, 30 / 15, 3]
    assert found.drawn.tolist() == [True]
    assert (found.clients, found.epochs) == (3, 4)
    assert found.seconds(2).item() == pytest.approx(2 * 10 / 2 + 3)


def test_who_never_answered_is_not_seen():
    found = recall(answer(begin({}, 9.0), 55, 18.0), SIZES, [100, 7], 1)
    assert len(found.samples) == 1
    assert not found.drawn.any()
    assert len(recall({}, SIZES, [100, 7], 1).samples) == 0


def test_later_answers_count_half_and_what_was_done_counts_not_what_was_asked():
    memory = answer(begin({}, 9.0), 7, seconds=18.0)  # 2 a second
    memory = answer(memory, 7, seconds=5.0, work=12)  # 6 a second
    assert recall(memory, SIZES, [], 1).speeds.item() == pytest.approx(4.0)


def test_rounds_have_their_deadline_and_the_losses_that_came_in_them():
    memory = answer(begin({}, 9.0), 7, 18.0, losses=(6.0, 3))
    memory = answer(memory, 100, 18.0, losses=(4.0, 2))
    memory = answer(begin(memory, 8.0), 7, 18.0, losses=(1.0, 1))
    assert recall(memory, SIZES, [], 1).rounds.tolist() == [[9.0, 10.0, 5.0], [8.0, 1.0, 1.0]]


def test_memories_are_not_changed_in_place():
    first = begin({}, 9.0)
    second = answer(first, 7, 18.0, losses=(6.0, 3))
    assert first["rounds"].tolist() == [[9.0, 0.0, 0.0]]
    answer(second, 7, 5.0)
    assert recall(second, SIZES, [], 1).speeds.item() == 2.0


def always(seconds, **more):
    return Controller(lambda known: (seconds, "so"), **more).decide


def test_before_the_first_answer_there_is_a_probe_or_all_the_time_there_is():
    assert always(5.0)(seen()) == (PROBE, "nobody has answered yet")
    before = [(PROBE, 0, 0)] * 3
    assert always(5.0)(seen(rounds=before))[0] == 8 * PROBE  # or a cancelled one would never end
    assert always(5.0)(seen(most=3600.0)) == (3600.0, "nobody has answered yet")
    assert always(5.0, bounded=False)(seen()) == (5.0, "so")


def test_a_deadline_is_bounded_by_transfers_and_by_the_longest_job():
    rows = (10, 1.0, 4.0), (20, 1.0, 5.0), (30, 1.0, 6.0)
    assert always(17.0)(seen(*rows)) == (17.0, "so")
    assert always(99.0)(seen(*rows)) == (36.0, "so; at most 36 s")
    assert always(99.0)(seen(*rows, most=20.0)) == (20.0, "so; at most 20 s")
    assert always(1.0)(seen(*rows)) == (ROOM * 5.0, "so; at least 5.5 s")
    assert always(99.0, bounded=False)(seen(*rows)) == (99.0, "so")


@pytest.mark.parametrize("wrong", [0.0, -1.0, math.nan, math.inf])
def test_what_is_no_deadline_is_refused(wrong):
    with pytest.raises(BadOption, match="deadline must be above 0"):
        always(wrong)(seen((1, 1.0, 0.0)))


@pytest.mark.parametrize("kind", [np.float64, np.float32, int])
def test_seconds_may_be_of_numpy_and_are_of_python_from_there_on(kind):
    one = seen((10, 1.0, 0.0), (20, 1.0, 0.0))
    for bounded in (True, False):
        found = Controller(lambda _: (kind(12), "own"), bounded).decide(one)
        assert found == (12.0, "own")
        assert type(found[0]) is float
    assert Controller(lambda _: (np.float64(99), "own")).decide(one) == (20.0, "own; at most 20 s")


@pytest.mark.parametrize("told", [12.0, (12.0,), None, [12.0, "own"]])
def test_a_controller_that_gives_no_reason_is_refused_in_a_sentence(told):
    with pytest.raises(BadOption, match=r"aim of a Controller must give \(seconds, reason\), got"):
        Controller(lambda _: told).decide(seen((10, 1.0, 0.0)))


def test_half_of_the_way_in_logarithms_but_from_the_probe_at_once():
    probe, last = (0.001, 0.0, 0.0), (25.0, 0.0, 0.0)
    assert seen().towards(100.0) == 100.0
    assert seen(rounds=[probe]).towards(100.0) == 100.0
    assert seen(rounds=[probe, last]).towards(100.0) == pytest.approx(50.0)


def test_a_deadline_that_is_near_stays():
    rounds = [(0.001, 0.0, 0.0), (25.0, 0.0, 0.0)]
    assert seen(rounds=rounds).towards(25.0 * 1.04) == 25.0
    assert seen(rounds=rounds).towards(25.0 / 1.04) == 25.0
    assert seen(rounds=rounds).towards(25.0 * 1.21) == pytest.approx(25.0 * 1.1)
