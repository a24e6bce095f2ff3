"""Which controller an option means, and what it is told; tests/deadlines has the rest."""

import json
import math

import pytest

pytest.importorskip("flwr")

from tests.flower.grid import InProcessGrid, Time, adding
from tests.flower.test_strategy import run

from fedcore.errors import FedCoreError
from fedcore.flower.fleet import Fleet, Node
from fedcore.flower.strategy import Options

# 30 samples in 1, 2, 3, 4 s and 1 s of way: three epochs take 4, 7, 10, 13 s.
NODES = {n: (30, 30.0 / n, 1.0) for n in (1, 2, 3, 4)}


def fleet(rounds=()):
    known = Fleet(8)
    known.names = [str(n) for n in NODES]
    known.nodes = [Node(m, c, [s, s]) for m, c, s in NODES.values()]
    known.online, known.rounds = {place: 100 + place for place in range(4)}, list(rounds)
    return known


def decide(rounds=(), *, known=None, **options):
    seen = (fleet(rounds) if known is None else known).seen(3, 3600.0)
    return Options(**options).build_controller().decide(seen)


@pytest.mark.parametrize("given", [20, 20.0])
def test_seconds(given):
    assert decide(deadline=given) == (20.0, "fixed")


@pytest.mark.parametrize("wrong", [0, -1, math.nan, math.inf, "soon", [1]])
def test_what_is_no_deadline(wrong):
    with pytest.raises(FedCoreError, match="deadline"):
        Options(deadline=wrong)


@pytest.mark.parametrize("name", ["auto", "percentile", "mean", "ddl-e", "kth-arrival"])
def test_before_anybody_was_measured_a_round_lasts_as_long_as_it_may(name):
    assert decide(deadline=name, known=Fleet(8)) == (3600.0, "nobody has answered yet")


def test_the_percentile_of_those_online_who_were_measured():
    first = [[3600.0, 0.0, 0.0]]
    assert decide(first, deadline="percentile")[0] == pytest.approx(4 + 0.7 * 9)
    assert decide(first, deadline="percentile", stragglers=10.0)[0] == pytest.approx(4 + 0.9 * 9)
    away = fleet(first)
    del away.online[3]
    assert decide(known=away, deadline="percentile")[0] == pytest.approx(4 + 0.7 * 6)
    new = fleet(first)
    new.nodes[3] = Node(30)
    assert decide(known=new, deadline="percentile")[0] == pytest.approx(4 + 0.7 * 6)


def test_options_of_their_own_and_those_that_nobody_takes():
    assert decide(deadline="kth-arrival", method={"share": 0.5})[0] == pytest.approx(7.0)
    with pytest.raises(FedCoreError, match="no method option named 'times'"):
        Options(deadline="kth-arrival", method={"times": 2})


def test_auto_is_ours_and_shorter_than_the_percentile_where_the_way_is_short():
    nodes = {n: adding(1.0, seconds=float(n), trip=n + 0.01) for n in (1, 2, 3, 4)}
    told = {}
    # Nodes with 30 samples to do: here half of what a round can bring is a step's.
    for name, own in (("auto", {"steps": 1}), ("percentile", {})):
        _, grid = run(nodes, 4, grid=InProcessGrid(Time(), nodes), deadline=name, **own)
        told[name] = {o.assignment.base_version: o.deadline for _, o, _ in grid.sent}
    assert told["auto"][0] == told["percentile"][0] == 3600.0
    assert told["auto"][3] < told["percentile"][3] / 2


def test_records_tell_of_each_deadline_and_why_in_seconds(tmp_path, caplog):
    """10 and 20 s of work on ways of 2 s, in seconds, since deadlines are of several lengths."""
    nodes = {n: adding(1.0, seconds=10.0 * n, trip=10.0 * n + 2) for n in (1, 2)}
    with caplog.at_level("INFO", logger="flwr"):
        _, grid = run(nodes, 3, grid=InProcessGrid(Time(), nodes), deadline="mean", out=tmp_path)
    rows = [json.loads(line) for line in (tmp_path / "rounds.jsonl").read_text().splitlines()]
    told = {order.assignment.base_version: order.deadline for _, order, _ in grid.sent}
    assert [row["deadline"] for row in rows] == pytest.approx([told[n] for n in range(3)])
    assert len({row["deadline"] for row in rows}) > 1
    assert rows[0]["reason"] == "nobody has answered yet"
    assert rows[1]["reason"].startswith("1 times the mean of 2")
    assert 22 <= rows[0]["round_time"] <= 23  # a look every fifth of a second
    times = [one["time"] for one in rows[0]["clients"]]
    assert sorted(times) == pytest.approx([12, 22], abs=0.5)
    assert f"of {told[1]:.1f} s (1 times the mean of 2" in caplog.text
