"""Charts' numbers by hand: two slow clients, a fast one, deadlines of 4 seconds."""

import math

import numpy as np
import pytest

from fedcore.records import ClientRecord, RoundRecord
from fedcore.report.page.data import MOST_CLIENTS, MOST_POINTS, curve, steps, timeline, violin, ways
from fedcore.types import Way


def client(number, seconds, path=Way.FULL, work=10, size=None, error=None):
    return ClientRecord(number, path, 1, work, seconds, size, size, error)


def a_round(number, seconds, *clients, accuracy=0.5, loss=1.0):
    return RoundRecord(number, seconds, 4.0, clients, 0, loss, None, None, accuracy, 0.0)


def test_a_curve_is_over_rounds_and_over_time_and_what_is_not_known_is_none():
    rounds = [
        a_round(1, 2.0, client(0, 2.0, error=0.25), client(1, 1.0, error=0.75), accuracy=None),
        a_round(2, 6.0, client(0, 6.0), accuracy=0.123456789, loss=math.inf),
    ]
    assert curve(rounds) == {
        "round": [1, 2],
        "time": [0.5, 2.0],
        "train_loss": [1.0, None],
        "test_accuracy": [None, 0.12346],
        "epsilon": [0.5, None],
    }


def test_a_long_curve_is_thinned_and_keeps_its_ends():
    rounds = [a_round(n, 1.0) for n in range(1, 10 * MOST_POINTS + 6)]
    found = curve(rounds)["round"]
    assert len(found) <= MOST_POINTS + 1
    assert (found[0], found[-1]) == (1, len(rounds))


def test_a_long_curve_keeps_rounds_that_were_measured():
    """Every tenth of 1,000: thinned to every third round alone, two of three would be lost."""
    looks = [n % 10 == 0 for n in range(1, 1001)]
    values = {True: {"accuracy": 0.5, "loss": 1.0}, False: {"accuracy": None, "loss": None}}
    found = curve([a_round(n, 1.0, **values[look]) for n, look in enumerate(looks, 1)])
    assert [n for n in found["round"] if n % 10 == 0] == [*range(10, 1001, 10)]
    assert sum(loss is not None for loss in found["train_loss"]) == 100


def test_a_violin_is_the_density_of_logarithms():
    """Of two equal heaps at 0.1 and 10 deadlines the density has two equal tops, there."""
    draw = np.random.default_rng(0).normal(scale=0.05, size=2000)
    times = [4 * 10.0 ** (x + side) for x in (*draw, *-draw) for side in (-1, 1)]
    found = violin([[a_round(1, 1.0, *(client(n, t) for n, t in enumerate(times)))]])
    at, density = np.array(found["shape"]).T
    assert at[np.argmax(np.where(at < 1, density, 0))] == pytest.approx(0.1, rel=0.2)
    assert at[np.argmax(np.where(at > 1, density, 0))] == pytest.approx(10, rel=0.2)
    assert density.max() == 1
    assert density[np.argmin(abs(np.log10(at)))] < 0.01
    assert found["most"] == pytest.approx(max(times) / 4, rel=1e-4)


def test_who_sits_out_takes_no_time_and_equal_times_are_a_line():
    assert violin([[a_round(1, 0.0, client(0, 0.0, Way.SAT_OUT, 0))]]) == {}
    found = violin([[a_round(1, 4.0, client(0, 4.0), client(1, 4.0))]])
    assert {time for time, _ in found["shape"]} == {1.0}


def test_gradient_steps_of_slow_clients_are_counted():
    """Client 0 has m = 20: FedAvg 5 epochs; FedProx 2; FedCore one on all and 4 on 5 samples.

    Batches of 8: 3 steps an epoch on everything, 1 on the coreset. Client 1 has m = 100, no pass
    of which fits: FedCore has 5 epochs on 9 samples, of two steps each. Client 2 is fast.
    """
    core = [
        client(0, 4.0, Way.CORESET, 20 + 4 * 5, 5),
        client(1, 4.0, Way.STATIC_CORESET, 45, 9),
        client(2, 1.0, Way.FULL, 50),
    ]
    prox = [client(0, 4.0, Way.PARTIAL, 40), client(1, 0.0, Way.SAT_OUT, 0), client(2, 1.0)]
    average = [client(0, 10.0, work=100), client(1, 50.0, work=500), client(2, 1.0, work=50)]
    firsts = {
        name: [a_round(1, 4.0, *own)]
        for name, own in (("fedavg", average), ("fedprox", prox), ("fedcore", core))
    }
    options = {"epochs": 5, "batch_size": 8}
    assert steps(firsts, options) == {"fedprox": [(2, 6), (0, 0)], "fedcore": [(2, 7), (0, 10)]}
    del firsts["fedavg"]
    assert steps(firsts, options) == {"fedprox": [], "fedcore": []}


def test_ways_are_runs_of_what_clients_did_mostly_from_slow_to_fast():
    average = [a_round(1, 1.0, *(client(n, seconds) for n, seconds in enumerate((8, 1, 6, 2))))]
    core = [
        a_round(1, 4.0, client(0, 4.0, Way.CORESET), client(1, 1.0)),
        a_round(2, 4.0, client(0, 4.0, Way.CORESET), client(2, 4.0, Way.CORESET)),
        a_round(3, 4.0, client(0, 4.0, Way.FULL)),
    ]
    assert ways({"fedavg": average, "fedcore": core}) == {
        "FedAvg": [("full", 0, 4)],
        "FedCore": [("coreset", 0, 2), ("not drawn", 2, 3), ("full", 3, 4)],
    }


def test_a_timeline_has_the_first_clients_of_the_first_deadlines():
    rounds = [
        a_round(n, 8.0, client(2 * n, 8.0), client(2 * n + 1, 4.0), client(99, 0.0, work=0))
        for n in range(9)
    ]
    found = timeline(rounds)
    assert found["client 0"] == [("works", 0.0, 2.0), ("waits for a merge", 2.0, 2.0)]
    assert found["client 1"] == [("works", 0.0, 1.0), ("waits for a merge", 1.0, 2.0)]
    assert list(found) == [f"client {n}" for n in range(6)]
    assert max(start for own in found.values() for _, start, _ in own) <= 6
    many = [a_round(1, 4.0, *(client(n, 4.0) for n in range(100)))]
    assert len(timeline(many)) == MOST_CLIENTS
