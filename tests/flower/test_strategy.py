"""Rounds over a grid in one process: they end on time, whatever nodes do."""

import json
import time as wall
import tracemalloc

import pytest
import torch

pytest.importorskip("flwr")

from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp.strategy import DifferentialPrivacyServerSideFixedClipping
from tests.flower.grid import InProcessGrid, Time, adding, answer, failing, silent

from fedcore.errors import BadOption, FedCoreError
from fedcore.flower import FedCore
from fedcore.flower.post import AT_ONCE
from fedcore.records import RunKey
from fedcore.report.records import read_runs
from fedcore.types import Way

START = {"w": torch.tensor([[0.0, 1.0]]), "b": torch.tensor([0.5])}


def run(nodes, rounds=2, *, grid=None, start=None, **options):
    grid = grid or InProcessGrid(Time(), nodes)
    began = {"train_config", "evaluate_config", "evaluate_fn", "timeout"} & options.keys()
    called = {name: options.pop(name) for name in began}
    fixed = {"deadline": 20.0, "grace": 3.0, "local_epochs": 3, "fraction_evaluate": 0.0}
    fixed["strategy"] = "fedcore"  # whose merge is a plain mean
    strategy = FedCore(**fixed | options)
    strategy.monotonic, strategy.sleep = grid.time.monotonic, grid.time.sleep
    return strategy.start(grid, ArrayRecord(start or START), rounds, **called), grid


def weights(result):
    return torch.from_numpy(result.arrays["w"].numpy())


def by_round(nodes):
    """A node that does another thing every round."""
    return lambda order, arrays, message: nodes[order.assignment.base_version](
        order, arrays, message
    )


def test_a_round_is_the_plain_mean_of_all_answers():
    result, _ = run({7: adding(1.0), 8: adding(3.0, samples=90)}, 2)
    assert torch.equal(weights(result), START["w"] + 4.0)
    assert list(result.arrays) == ["w", "b"]


def test_a_key_of_the_users_weighs():
    nodes = {7: adding(1.0, samples=10), 8: adding(3.0, samples=30)}
    result, _ = run(nodes, 1, weighted_by_key="num-examples")
    assert torch.allclose(weights(result), START["w"] + (10 * 1 + 30 * 3) / 40)
    nodes = {7: adding(1.0, metrics={"trust": 3.0}), 8: adding(5.0, metrics={"trust": 1.0})}
    result, _ = run(nodes, 1, weighted_by_key="trust")
    assert torch.allclose(weights(result), START["w"] + 2.0)


def test_ours_is_the_default_and_its_weights_and_the_users_multiply():
    """V = Σ p_i Δ_i / √a_i / Σ p_i / √a_i, where p_i is 1 / K, or by the user's key."""
    assert FedCore(deadline=20.0).options.strategy == "tempo"
    # Three epochs of 10 and 30 samples: a = 30 and 90, far below what the deadline allows.
    nodes = {7: adding(1.0, samples=10), 8: adding(3.0, samples=30)}
    found = {}
    for key in (None, "num-examples"):
        own = {} if key is None else {"weighted_by_key": key}
        result, _ = run(nodes, 1, strategy="tempo", **own)
        found[key] = weights(result) - START["w"]
    plain = (3**0.5 * 1 + 1 * 3) / (3**0.5 + 1)  # a third of the samples: √3 times the weight
    keyed = (3**0.5 * 1 + 3 * 3) / (3**0.5 + 3)
    assert found[None] == pytest.approx(torch.full((1, 2), plain))
    assert found["num-examples"] == pytest.approx(torch.full((1, 2), keyed))


def test_under_ours_who_is_slow_does_what_fits_and_makes_up_for_it():
    slow = adding(1.0, samples=100, seconds=20.0, trip=22.0)
    _, grid = run({7: adding(1.0), 8: slow}, 2, strategy="tempo")
    plans = {(n, order.assignment.base_version): order.assignment.plan for n, order, _ in grid.sent}
    # Nobody knows it yet: everything, until its time is up. Then 279 samples, as above: two epochs
    # of 100, and a draw of the rest.
    assert [(phase.epochs, phase.coreset) for phase in plans[8, 0].phases] == [(3, None)]
    whole, drawn = plans[8, 1].phases
    assert (whole.epochs, drawn.coreset.selector) == (2, "uniform-plain")
    assert 75 <= drawn.coreset.budget <= 79


@pytest.mark.parametrize("trust", [0.0, -1.0, float("nan"), float("inf"), [1.0]])
def test_a_weight_that_cannot_be_is_refused(trust):
    nodes = {7: adding(1.0, metrics={"trust": 3.0}), 8: adding(5.0, metrics={"trust": trust})}
    result, _ = run(nodes, 1, weighted_by_key="trust")
    assert torch.equal(weights(result), START["w"] + 1.0)


def test_what_is_late_is_thrown_away_and_its_node_asked_again_when_it_has_answered():
    late = adding(100.0, trip=26.0, seconds=24.0)
    result, grid = run({7: adding(1.0), 8: late}, 4)
    assert torch.equal(weights(result), START["w"] + 4.0)
    # Round 1 ends at 23 s. Its late answer comes at 26 s, in round 3; so round 4 asks again.
    assert [grid.asked(n) for n in (1, 2, 3, 4)] == [[7, 8], [7], [7], [7, 8]]
    assert grid.time.now == pytest.approx(1000 + 23 + 2 + 2 + 23, abs=1.0)


def test_an_answer_within_the_grace_counts():
    result, grid = run({7: adding(1.0), 8: adding(3.0, trip=22.0, seconds=20.0)}, 1)
    assert torch.equal(weights(result), START["w"] + 2.0)
    assert 1022 <= grid.time.now <= 1022.3


def test_a_round_ends_at_once_when_everybody_answered():
    _, grid = run({7: adding(1.0), 8: adding(1.0, trip=5.0)}, 1)
    assert 1005 <= grid.time.now <= 1005.3


def test_who_is_slow_is_told_less_the_next_time():
    slow = adding(1.0, samples=100, seconds=20.0, trip=22.0)
    _, grid = run({7: adding(1.0), 8: slow}, 2)
    plans = {(n, order.assignment.base_version): order.assignment.plan for n, order, _ in grid.sent}
    # Nobody knows it yet: it is to see after one epoch what it can do, and if that is everything.
    assert [phase.epochs for phase in plans[8, 0].phases] == [1, 2]
    assert plans[8, 0].work(10**9) == 3 * 10**9
    assert plans[8, 1].path is Way.CORESET
    # c = 300 / 20 s = 15 a second; of a first trip's 2 s of way half are believed, and so
    # (20 - 1) * 0.98 = 18.62 s are left: 279 samples.
    assert 275 <= plans[8, 1].work(100) <= 279


@pytest.mark.parametrize("code", [2, 3, 5])
def test_errors_belong_to_the_node_that_was_asked_and_the_run_goes_on(code):
    result, grid = run({7: adding(1.0), 8: failing(code)}, 5)
    assert torch.equal(weights(result), START["w"] + 5.0)
    assert grid.asked(5) == [7, 8]
    assert grid.time.now == pytest.approx(1000 + 5 * 2, abs=1.5)


def test_a_dead_node_is_asked_again_when_its_message_has_expired():
    node = by_round([silent] + [adding(1.0)] * 5)
    _, grid = run({7: adding(1.0, trip=15.0), 8: node}, 6)
    # Messages live three deadlines, 60 s: until then round 2, 3 and 4, at 23, 38 and 53 s, are 7's.
    assert [grid.asked(n) for n in range(1, 6)] == [[7, 8], [7], [7], [7], [7, 8]]


@pytest.mark.parametrize(("samples", "why"), [(10, "no time to train"), (0, "no samples")])
def test_nothing_trained_is_not_averaged(samples, why, caplog):
    idle = adding(9.0, work=0, steps=0, seconds=0.0, samples=samples)
    result, _ = run({7: adding(1.0), 8: idle}, 2)
    assert torch.equal(weights(result), START["w"] + 2.0)
    assert f"order 1: it had {why}" in caplog.text


def test_bytes_that_are_no_message_harm_nobody_else():
    garbage = lambda order, arrays, message: (2.0, b"garbage")  # noqa: E731
    result, _ = run({7: adding(1.0), 8: garbage, 9: adding(3.0)}, 2)
    assert torch.equal(weights(result), START["w"] + 4.0)


def test_who_lies_three_times_in_a_row_is_left_out_for_five_rounds_then_ten(caplog):
    liar = adding(float("nan"))
    with caplog.at_level("WARNING", logger="flwr"):
        _, grid = run({7: adding(1.0), 8: liar}, 24)
    assert "node 1 is left out of 10 rounds: it sent 6 bad answers in all" in caplog.text
    asked = [n for n in range(1, 25) if 8 in grid.asked(n)]
    # Rounds 1 to 3, out of 4 to 8, then 9 to 11, out of 12 to 21.
    assert asked == [1, 2, 3, 9, 10, 11, 22, 23, 24]


def test_the_usual_way_of_the_users_config_and_shapes():
    config = ConfigRecord({"lr": 0.1})
    _, grid = run({7: adding(1.0), 8: adding(1.0)}, 2, train_config=config)
    sent = [message.content["config"] for _, _, message in grid.sent]
    assert [c["lr"] for c in sent] == [0.1] * 4
    assert [c["server-round"] for c in sent] == [1, 1, 2, 2]
    assert list(config) == ["lr"]
    assert {message.metadata.ttl for _, _, message in grid.sent} == {60.0}
    tickets = [order.ticket for _, order, _ in grid.sent]
    assert len(set(tickets)) == 4


def test_what_the_way_back_takes_is_told_with_the_error_of_the_nodes_clock_in_it():
    # A clock 60 s behind: ages are 60 s too small. 2 s of trip, 1 s of handler, 0.4 s there.
    nodes = {7: adding(1.0, age=0.4 - 60, trip=2.0), 8: adding(1.0, age=0.4 + 4, trip=2.0)}
    _, grid = run(nodes, 3)
    backs = {n: order.back for n, order, _ in grid.sent if order.assignment.base_version == 2}
    assert backs[7] == pytest.approx(0.6 + 60, abs=0.3)
    assert backs[8] == pytest.approx(0.6 - 4, abs=0.3)


def test_too_few_nodes_are_an_error_that_names_clocks():
    with pytest.raises(FedCoreError, match=r"1 nodes are online.*clocks.*terminated gracefully"):
        run({7: adding(1.0)}, 1, wait_for_nodes=30)


def test_nodes_that_come_later_are_waited_for():
    grid = InProcessGrid(Time(), {7: adding(1.0), 8: adding(1.0)})
    grid.offline = {8}
    sleep = grid.time.sleep

    def later(seconds):
        sleep(seconds)
        grid.offline = set() if grid.time.now > 1050 else {8}

    grid.time.sleep = later
    _, grid = run(None, 1, grid=grid)
    assert grid.asked(1) == [7, 8]


def test_where_everybody_lies_the_error_says_so():
    with pytest.raises(FedCoreError, match="left out for bad answers"):
        run({7: adding(float("nan")), 8: adding(float("inf"))}, 5)


def test_a_deadline_below_the_overhead_is_an_error_with_the_numbers():
    far = adding(1.0, trip=6.3, seconds=0.1)
    with pytest.raises(
        BadOption, match=r"deadline is 5.0 s.*take 6.[234] to 6.[234] s.*set it to 13"
    ):
        run({7: far, 8: far}, 3, deadline=5.0)


def test_a_run_that_is_done_is_not_refused_for_a_round_that_will_not_be():
    far = adding(1.0, trip=6.3, seconds=0.1)
    result, _ = run({7: far, 8: far}, 2, deadline=5.0, grace=2.0)
    assert torch.equal(weights(result), START["w"] + 2.0)


def test_one_node_with_too_long_a_way_sits_out_and_is_tried_again_later():
    far = by_round([adding(1.0, trip=22.0, seconds=0.5)] * 2 + [adding(1.0)] * 9)
    _, grid = run({7: adding(1.0), 8: far}, 8)
    asked = [n for n in range(1, 9) if 8 in grid.asked(n)]
    # Way 21.5 s twice; the first time only half of it is believed, then it fades to 17.2 s.
    assert asked == [1, 2, 4, 5, 6, 7, 8]


def test_a_first_trip_that_is_longer_than_the_deadline_ends_nothing():
    cold = by_round([adding(1.0, trip=21.0, seconds=0.5)] + [adding(1.0)] * 2)
    result, grid = run({7: cold, 8: cold}, 3)
    assert torch.equal(weights(result), START["w"] + 3.0)
    assert grid.asked(2) == [7, 8]


def test_a_run_in_which_nobody_could_be_merged_is_an_error():
    with pytest.raises(FedCoreError, match="no answer could be merged"):
        run({7: failing(2), 8: failing(2)}, 2)


def test_over_selection_waits_for_as_many_as_are_wanted():
    nodes = {n: adding(float(n), trip=float(n)) for n in (1, 2, 3, 4)}
    result, grid = run(nodes, 1, fraction_train=0.5, over_selection=2.0)
    assert grid.asked(1) == [1, 2, 3, 4]
    assert torch.equal(weights(result), START["w"] + 1.5)


def test_a_fraction_of_the_nodes_takes_part():
    nodes = {n: adding(1.0) for n in range(10)}
    _, grid = run(nodes, 3, fraction_train=0.3, min_train_nodes=1)
    assert [len(grid.asked(n)) for n in (1, 2, 3)] == [3, 3, 3]


def test_below_the_quorum_the_model_stays_as_it_was():
    nodes = {7: adding(1.0), 8: by_round([failing(2), adding(1.0), failing(2)])}
    result, _ = run(nodes, 3, quorum=2)
    assert torch.equal(weights(result), START["w"] + 1.0)


def test_wrappers_of_flower_are_refused_by_name():
    wrapped = DifferentialPrivacyServerSideFixedClipping(FedCore(deadline=20.0), 1.0, 1.0, 2)
    grid = InProcessGrid(Time(), {7: adding(1.0), 8: adding(1.0)})
    with pytest.raises(FedCoreError, match="DifferentialPrivacyServerSideFixedClipping"):
        wrapped.start(grid, ArrayRecord(START), 1)
    with pytest.raises(FedCoreError, match="start"):
        FedCore(deadline=20.0).aggregate_train(1, [])


def test_fedavg_waits_for_everybody():
    result, grid = run({7: adding(1.0), 8: adding(3.0, trip=90.0)}, 1, strategy="fedavg")
    assert torch.equal(weights(result), START["w"] + 2.0)
    assert {order.deadline for _, order, _ in grid.sent} == {3600.0}


def test_nobody_waits_longer_than_the_timeout():
    result, grid = run({7: adding(1.0), 8: silent}, 1, strategy="fedavg", timeout=100.0)
    assert torch.equal(weights(result), START["w"] + 1.0)
    assert 1102.7 <= grid.time.now <= 1103.0


@pytest.mark.parametrize(
    ("strategy", "path"), [("fedprox", Way.PARTIAL), ("fedavg-ds", Way.SAT_OUT)]
)
def test_other_strategies_of_the_house(strategy, path, tmp_path):
    slow = adding(1.0, samples=100, seconds=20.0, trip=22.0)
    run({7: adding(1.0), 8: slow}, 2, strategy=strategy, out=tmp_path / "out")
    runs = read_runs(tmp_path / "out" / "rounds.jsonl", [RunKey("flower", strategy, 30.0, 0)], 2)
    second = next(iter(runs.values()))[1]
    assert {c.client_id: c.path for c in second.clients} == {0: Way.FULL, 1: path}


def test_a_deadline_by_the_fleet_is_the_percentile_of_what_it_takes():
    # 30 samples in 1, 2, 3, 4 s and 1 s of way: the 70th percentile of 2, 3, 4, 5 is 4.1.
    nodes = {n: adding(1.0, seconds=float(n), trip=n + 1.0) for n in (1, 2, 3, 4)}
    _, grid = run(nodes, 3, deadline="percentile")
    told = {o.assignment.base_version: o.deadline for _, o, _ in grid.sent}
    assert told[0] == 3600.0
    assert told[1] == pytest.approx(4.1, abs=0.2)
    assert told[2] == pytest.approx(told[1], rel=0.2)


def test_a_controller_of_ones_own():
    seen = []

    def mine(known):
        seen.append(known)
        return 10.0 + len(seen), "because"

    _, grid = run({7: adding(1.0), 8: adding(1.0)}, 2, deadline=mine)
    assert [o.deadline for _, o, _ in grid.sent] == [11.0, 11.0, 12.0, 12.0]
    assert [s.rounds[:, 0].tolist() for s in seen] == [[], [11.0]]
    assert [len(s.samples) for s in seen] == [0, 2]


def test_metrics_and_evaluation_are_those_of_flower():
    calls = []

    def evaluate(number, arrays):
        calls.append((number, float(arrays["b"].numpy()[0])))
        return MetricRecord({"accuracy": 0.25, "loss": 2.0}) if number else None

    nodes = {7: adding(1.0, metrics={"own": 1.0}), 8: adding(1.0, metrics={"own": 3.0})}
    result, _ = run(nodes, 2, fraction_evaluate=1.0, evaluate_fn=evaluate)
    assert calls == [(0, 0.5), (1, 1.5), (2, 2.5)]
    assert result.train_metrics_clientapp[2]["own"] == 2.0
    assert result.evaluate_metrics_clientapp[1]["acc"] == 0.5
    assert result.evaluate_metrics_serverapp.keys() == {1, 2}


def test_evaluation_has_its_own_time_and_who_owes_one_gets_no_work():
    def node(order, arrays, message):
        return None if order is None else adding(1.0)(order, arrays, message)

    nodes = {7: adding(1.0), 8: node, 9: adding(1.0)}
    result, grid = run(nodes, 2, fraction_evaluate=1.0)
    assert result.evaluate_metrics_clientapp[1]["acc"] == 0.5
    trained = [n for n, order, _ in grid.sent if order and order.assignment.base_version == 1]
    assert sorted(trained) == [7, 9]
    # Three deadlines are waited; round 2 is evaluated by two nodes, who both answer after 2 s.
    assert grid.time.now == pytest.approx(1000 + (2 + 60) + (2 + 2), abs=1.0)


def test_metrics_that_do_not_fit_together_end_nothing():
    def odd(order, arrays, message):
        if order is None:
            return 1.0, RecordDict({"m": MetricRecord({"loss": 1.0})})  # no num-examples
        return adding(1.0, metrics={"own": [1.0, 2.0]})(order, arrays, message)

    nodes = {7: adding(1.0, metrics={"own": 1.0}), 8: odd}
    result, _ = run(nodes, 2, fraction_evaluate=1.0)
    assert torch.equal(weights(result), START["w"] + 2.0)
    assert not result.train_metrics_clientapp
    assert result.evaluate_metrics_clientapp[2]["acc"] == 0.5


def test_a_node_that_leaves_out_a_metric_lowers_nobody_elses(caplog):
    """An accuracy of 0.5 was 0.25 when one of two nodes said nothing of it."""

    def terse(order, arrays, message):
        if order is None:
            return 1.0, RecordDict({"m": MetricRecord({"num-examples": 10})})
        return adding(1.0)(order, arrays, message)

    result, _ = run({7: terse, 8: adding(1.0), 9: terse, 10: adding(1.0)}, fraction_evaluate=1.0)
    assert result.evaluate_metrics_clientapp[1]["acc"] == 0.5
    assert "metrics of 2 answers are left out" in caplog.text


def test_who_is_fast_among_slow_nodes_is_not_taken_for_a_liar():
    """Sixty times the work, and thirty times as far: it was refused, and left out in the end."""
    slow = adding(0.1, samples=100, work=5, seconds=19.0, trip=20.0, cut_short=1)
    nodes = {7: slow, 8: slow, 9: adding(3.0, samples=100)}
    result, _ = run(nodes, 3)
    assert torch.allclose(weights(result), START["w"] + 3 * (0.1 + 0.1 + 3.0) / 3)


def test_who_fails_to_evaluate_is_told_of(caplog):
    fails = failing(2)
    nodes = {
        7: adding(1.0),
        8: lambda order, *rest: adding(1.0)(order, *rest) if order else fails(order, *rest),
    }
    result, _ = run(nodes, 1, fraction_evaluate=1.0)
    assert result.evaluate_metrics_clientapp[1]["acc"] == 0.5
    assert "node 1, evaluation: code 2: 'as told'" in caplog.text


def test_records_are_those_of_the_simulator(tmp_path):
    nodes = {
        7: adding(1.0),
        8: adding(1.0, trip=40.0, seconds=30.0),
        9: adding(float("inf")),
        10: adding(1.0, cut_short=1, work=12),
    }
    run(nodes, 1, out=tmp_path)
    runs = read_runs(tmp_path / "rounds.jsonl", [RunKey("flower", "fedcore", 30.0, 0)], 1)
    record = next(iter(runs.values()))[0]
    assert record.time == pytest.approx(23 / 20, abs=0.02)
    assert (record.rejected, record.test_accuracy, record.train_loss) == (1, None, None)
    did = {c.client_id: (c.path, c.work) for c in record.clients}
    # Numbers are given in the order of their names: "node 10", "node 7", "node 8", "node 9".
    assert did == {1: (Way.FULL, 30), 2: (Way.CORESET, 0), 0: (Way.PARTIAL, 12)}
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["results"][0]["mean_participants"] == 2


def test_a_line_a_round_says_who_was_on_time_and_why_the_deadline(caplog):
    with caplog.at_level("INFO", logger="flwr"):
        run({7: adding(1.0), 8: adding(float("nan"))}, 1)
    lines = [r.getMessage() for r in caplog.records if r.getMessage().startswith("round 1:")]
    assert len(lines) == 1
    assert "s of 20.0 s (fixed), 1 of 2 on time: 0 full 30 in 2" in lines[0]
    assert "1 refused: array 'w' has NaN" in lines[0]


def test_asynchronous_keeps_nodes_busy_and_merges_every_k_answers():
    trips = {1: 1.0, 2: 3.0, 3: 10.0}
    nodes = {n: adding(1.0, trip=trip, seconds=trip / 2) for n, trip in trips.items()}
    _, grid = run(nodes, 6, strategy="fedbuff", buffer=2)
    sent = [n for n, _, _ in grid.sent]
    # The slow one holds nobody up: 12 answers take about as long as 1 and 2 need for them.
    assert sent.count(3) <= 2
    assert sent.count(1) > sent.count(2) > sent.count(3)
    assert grid.time.now < 1012
    versions = {order.assignment.base_version for n, order, _ in grid.sent if n == 1}
    assert len(versions) >= 4


def test_asynchronous_with_nodes_that_fail():
    nodes = {1: failing(2, 1.0), 2: adding(1.0), 3: adding(1.0, trip=5.0)}
    result, _ = run(nodes, 4, strategy="fedbuff", buffer=2)
    assert weights(result)[0, 0] > 0


def test_asynchronous_where_everybody_fails_ends():
    with pytest.raises(FedCoreError, match="too few answers"):
        run({1: failing(2), 2: failing(2)}, 4, strategy="fedbuff", buffer=2, timeout=50.0)


@pytest.mark.parametrize("deadline", [20.0, "auto"])
def test_a_merge_may_last_many_deadlines_while_answers_come(deadline):
    """Ten answers of two nodes: the fifth turn ends after 90 s, of deadlines of 20 s at most."""
    nodes = {n: adding(1.0, trip=18.0, seconds=16.0) for n in (1, 2)}
    result, grid = run(nodes, 2, strategy="fedcore-buff", buffer=10, deadline=deadline)
    assert grid.time.now == pytest.approx(1000 + 2 * 5 * 18, abs=3.0)
    assert weights(result)[0, 0] > 0


def test_a_virtual_clock_counts_each_nodes_own_seconds(tmp_path):
    # Three of them wait for one process: the last answer is there after 300 s, of 12 s of work.
    trips = {1: (1.0, 5.0, 4.0), 2: (2.0, 100.0, 8.0), 3: (3.0, 300.0, 12.0)}
    nodes = {n: adding(s, trip=t, seconds=own) for n, (s, t, own) in trips.items()}
    result, grid = run(nodes, 2, clock="virtual", out=tmp_path)
    assert torch.equal(weights(result), START["w"] + 4.0)
    assert grid.time.now == pytest.approx(1600, abs=1.0)
    assert {(o.virtual, o.deadline, o.back) for _, o, _ in grid.sent} == {(1, 20.0, 0.0)}
    assert {m.metadata.ttl for _, _, m in grid.sent} == {3 * 3600.0}
    runs = read_runs(tmp_path / "rounds.jsonl", [RunKey("flower", "fedcore", 30.0, 0)], 2)
    for record in next(iter(runs.values())):
        assert record.time == pytest.approx(12 / 20)
        assert {c.client_id: c.seconds for c in record.clients} == {
            n - 1: pytest.approx(own / 20) for n, (_, _, own) in trips.items()
        }


def test_on_a_virtual_clock_too_deadlines_are_kept(tmp_path, caplog):
    nodes = {7: adding(1.0), 8: adding(50.0, trip=99.0, seconds=24.0), 9: silent}
    with caplog.at_level("INFO", logger="flwr"):
        result, grid = run(nodes, 1, clock="virtual", timeout=200.0, out=tmp_path)
    assert torch.equal(weights(result), START["w"] + 1.0)
    assert 1202.7 <= grid.time.now <= 1203.0  # nobody is waited for longer than the timeout
    assert "1 answered 4.0 s late" in caplog.text
    runs = read_runs(tmp_path / "rounds.jsonl", [RunKey("flower", "fedcore", 30.0, 0)], 1)
    assert next(iter(runs.values()))[0].time == pytest.approx(23 / 20)  # deadline and grace


METHODS = ["fedbuff", "fedasync", "fedcore-buff", "fedcore-async", "scaffold", "feddyn", "fedadam"]
METHODS += ["fednova", "fedavg-os", "timelyfl", "importance", "tempo"]


@pytest.mark.parametrize("strategy", METHODS)
def test_methods_of_the_house_run_by_their_names(strategy):
    nodes = {n: adding(1.0 + n / 10, samples=20, trip=2.0 + n) for n in range(4)}
    result, _ = run(nodes, 3, strategy=strategy)
    moved = weights(result) - START["w"]
    assert bool(torch.isfinite(moved).all())
    assert bool((moved > 0).all())


def test_a_method_whose_plans_cannot_travel_is_refused():
    nodes = {n: adding(1.0, samples=20) for n in range(2)}
    with pytest.raises(FedCoreError, match="remembered"):
        run(nodes, 3, strategy="fedbalancer")


@pytest.mark.parametrize("selection", ["oort", "tifl", "power-of-choice", "proportional"])
def test_samplers_of_the_house_draw_by_their_names(selection):
    grid = InProcessGrid(Time(), {n: adding(1.0, loss_sum=3.0, loss_count=2) for n in range(6)})
    grid.offline = {5}

    def node(order, arrays, message):  # the fleet grows in the middle of the run
        grid.offline = set()
        return adding(1.0)(order, arrays, message)

    grid.nodes[0] = grid.nodes[1] = node
    result, grid = run(None, 6, grid=grid, selection=selection, fraction_train=0.5)
    assert torch.equal(weights(result), START["w"] + 6.0)


def test_two_hundred_nodes_cost_less_than_a_second_and_memory_for_a_few_answers():
    start = {"w": torch.zeros(100_000)}
    nodes = {n: adding(1.0) for n in range(200)}
    grid = InProcessGrid(Time(), nodes)
    spent = [0.0]

    def own(node):  # what the nodes do is not the server's
        def timed(order, arrays, message):
            began = wall.process_time()
            # The answer is made when it is pulled, as it is in a SuperLink's store.
            told = node(order, arrays, message)
            spent[0] += wall.process_time() - began
            return told

        return timed

    grid.nodes = {n: own(node) for n, node in nodes.items()}
    began = wall.process_time()
    result, grid = run(None, 2, grid=grid, start=start)
    per_round = (wall.process_time() - began - spent[0]) / 2
    assert torch.equal(weights(result), torch.full((100_000,), 2.0))
    assert grid.most_at_once <= AT_ONCE
    assert per_round < 1.0


def test_memory_follows_the_answers_being_merged():
    size = 250_000  # a megabyte
    made = {"w": torch.zeros(size)}

    class Lazy(InProcessGrid):
        """Answers take memory only when they are pulled."""

        def pull_messages(self, message_ids):
            found = super().pull_messages(message_ids)
            for message in found:
                message.content["arrays"] = ArrayRecord({"w": torch.ones(size)})
            return found

    def node(order, arrays, message):
        return 2.0, answer(order, {"w": torch.zeros(1)})

    peaks = {}
    for count in (16, 64):
        grid = Lazy(Time(), dict.fromkeys(range(count), node))
        tracemalloc.start()
        run(None, 1, grid=grid, start=made)
        peaks[count] = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peaks[64] < 1.3 * peaks[16]


@pytest.mark.parametrize(
    "options",
    [
        {"deadline": 0},
        {"deadline": -1.0},
        {"deadline": float("nan")},
        {"deadline": "soon"},
        {"local_epochs": 0},
        {"grace": -1},
        {"quorum": 0},
        {"over_selection": 0.5},
        {"selector": "./own.py"},
        {"selector": "nothing"},
        {"strategy": "nothing"},
        {"selection": "nothing"},
        {"stragglers": 100.0},
        {"clock": "sundial"},
        {"fraction_train": 0.0},
        {"nonsense": 1},
    ],
    ids=str,
)
def test_bad_options_are_refused_before_anything_starts(options):
    with pytest.raises(FedCoreError):
        FedCore(**{"deadline": 20.0} | options)


@pytest.mark.parametrize("name", ["configure_train", "aggregate_train", "aggregate_evaluate"])
def test_a_method_of_a_subclass_that_would_never_be_called_is_refused(name):
    with pytest.raises(FedCoreError, match=f"Mine.{name} would never be called; leave it out"):
        type("Mine", (FedCore,), {name: lambda self, *args: None})


def test_who_is_chosen_to_evaluate_and_is_not_there_is_not_asked():
    """One node always evaluates: in a round in which it is late, or gone, nobody does."""

    class Mine(FedCore):
        def configure_evaluate(self, number, arrays, config, grid):
            messages = super().configure_evaluate(number, arrays, config, grid)
            return [Message(m.content, 99, m.metadata.message_type) for m in messages][:1]

    grid = InProcessGrid(Time(), {7: adding(1.0), 8: adding(1.0)})
    strategy = Mine(deadline=20.0)
    strategy.monotonic, strategy.sleep = grid.time.monotonic, grid.time.sleep
    result = strategy.start(grid, ArrayRecord(START), 1)
    assert not result.evaluate_metrics_clientapp
    assert torch.equal(weights(result), START["w"] + 1.0)


def test_a_subclass_may_choose_who_evaluates_and_say_more():
    class Mine(FedCore):
        def configure_evaluate(self, *args):
            return list(super().configure_evaluate(*args))[:1]

        def summary(self):
            pass

    grid = InProcessGrid(Time(), {7: adding(1.0), 8: adding(1.0)})
    strategy = Mine(deadline=20.0)
    strategy.monotonic, strategy.sleep = grid.time.monotonic, grid.time.sleep
    result = strategy.start(grid, ArrayRecord(START), 1)
    assert result.evaluate_metrics_clientapp[1]["acc"] == 0.5
    assert len(grid.sent) == 3


@pytest.mark.parametrize(
    ("deadline", "seconds"), [(5.0, 60), (15.0, 60), (50.0, 150), (100.0, 180), ("auto", 180)]
)
def test_how_long_an_evaluation_is_waited_for_is_what_the_page_says(deadline, seconds):
    """Three times the two seconds of the round, as a minute, or the deadline; at least a minute."""
    trains = adding(1.0)
    nodes = dict.fromkeys((7, 8), lambda order, *rest: trains(order, *rest) if order else None)
    _, grid = run(nodes, 1, deadline=deadline, fraction_evaluate=1.0)
    assert grid.time.now == pytest.approx(1000 + 2 + seconds, abs=0.5)


def test_arguments_of_fedavg_come_first():
    strategy = FedCore(0.5, 0.25, 3, 4, 5, deadline=7.0)
    assert (strategy.fraction_train, strategy.fraction_evaluate) == (0.5, 0.25)
    assert (strategy.min_train_nodes, strategy.min_available_nodes) == (3, 5)
    assert strategy.options.deadline == 7.0


def test_a_checkpoint_folder_that_cannot_be_made_is_told_of_before_anybody_works(tmp_path):
    (tmp_path / "file").touch()
    grid = InProcessGrid(Time(), {7: adding(1.0), 8: adding(1.0)})
    with pytest.raises(OSError, match="file"):
        run(grid.nodes, grid=grid, checkpoint=tmp_path / "file" / "kept")
    assert not grid.sent


def test_a_start_that_is_no_array_record_is_refused():
    grid = InProcessGrid(Time(), {7: adding(1.0), 8: adding(1.0)})
    with pytest.raises(BadOption, match="must be an ArrayRecord"):
        FedCore(deadline=20.0).start(grid, START, 1)


def test_a_model_that_is_none_is_refused():
    grid = InProcessGrid(Time(), {7: adding(1.0), 8: adding(1.0)})
    with pytest.raises(BadOption, match="initial_arrays"):
        FedCore(deadline=20.0).start(grid, ArrayRecord(), 1)


@pytest.mark.parametrize("deadline", [20.0, "auto"])
@pytest.mark.parametrize("strategy", ["tempo", "fedcore", "fedprox"])
@pytest.mark.parametrize(
    "lie",
    [
        {"training_seconds": 1e-30},
        {"training_seconds": 1e-320},
        {"age": -(2.0**53), "handler_seconds": 0.0, "training_seconds": 0.0},
        {"age": 8e15},
        {"age": 2.0**40, "training_seconds": 0.0},
    ],
    ids=str,
)
def test_no_number_of_a_node_stops_the_server(lie, strategy, deadline):
    nodes = {7: adding(1.0), 8: adding(1.0, **lie), 9: adding(1.0)}
    result, _ = run(nodes, 4, strategy=strategy, deadline=deadline)
    assert torch.isfinite(weights(result)).all()


@pytest.mark.parametrize("options", [{"deadline": "auto"}, {"clock": "virtual"}])
def test_an_evaluation_that_hangs_takes_no_hours(options):
    def node(order, arrays, message):
        return None if order is None else adding(1.0)(order, arrays, message)

    nodes = {7: adding(1.0), 8: adding(1.0), 9: node}
    _, grid = run(nodes, 3, fraction_evaluate=1.0, **options)
    assert grid.time.now - 1000 < 3 * (3 * 60 + 60)


def test_running_statistics_are_sent_whole():
    start = {**START, "norm.running_var": torch.ones(2)}
    with pytest.raises(BadOption, match="compress must be none for running statistics, such as"):
        run({7: adding(1.0), 8: adding(1.0)}, compress="topk:0.01", start=start)


def test_a_rule_that_has_the_step_size_gets_the_nodes_own(monkeypatch):
    from fedcore.strategies import scaffold

    built, build = [], scaffold.build

    def noted(local="fedavg", *, global_rate=1.0, step_size=None, options=None):
        built.append((step_size(0), options["num_clients"]))
        return build(local, global_rate=global_rate, step_size=step_size, options=options)

    monkeypatch.setattr(scaffold, "build", noted)
    nodes = {number: adding(1.0) for number in (7, 8, 9)}
    run(nodes, strategy="scaffold", learning_rate=0.25)
    assert built[-1] == (0.25, 3)  # N is who is there, not who must be


def test_who_is_told_more_epochs_than_others_does_not_lie(caplog):
    def device(samples, speed):
        def node(order, arrays, message):
            seconds = order.assignment.plan.work(samples) / speed
            moved = {name: torch.from_numpy(a.numpy() + 1) for name, a in arrays.items()}
            return seconds + 1, answer(order, moved, samples=samples, seconds=seconds)

        return node

    nodes = {7: device(64, 40.0), 8: device(64, 4.0), 9: device(300, 10.0)}
    options = {"strategy": "timelyfl", "min_available_nodes": 3}
    start = {name: torch.zeros(8, 8) for name in ("a.weight", "b.weight")}
    _, grid = run(nodes, 5, start=start, **options)
    told = [sum(p.epochs for p in order.assignment.plan.phases) for _, order, _ in grid.sent]
    assert max(told) > 3 + 1
    assert "refused" not in caplog.text


@pytest.mark.parametrize("weight", [1e308, 1e-300, float("inf")])
def test_one_weight_cannot_be_all_there_is(weight, caplog):
    nodes = {7: adding(1.0, metrics={"trust": 1.0}), 8: adding(5.0, metrics={"trust": weight})}
    result, _ = run(nodes, 1, weighted_by_key="trust")
    assert torch.equal(weights(result), START["w"] + 1.0)


def test_who_answered_and_was_not_needed_is_in_the_records_and_in_no_metric(tmp_path):
    nodes = {n: adding(1.0, trip=1.0, metrics={"own": float(n)}) for n in (1, 2, 3, 4)}
    out = tmp_path / "out"
    options = {"fraction_train": 0.5, "over_selection": 2.0, "out": out}
    result, _ = run(nodes, 1, **options)
    (rounds,) = read_runs(out / "rounds.jsonl", [RunKey("flower", "fedcore", 30.0, 0)], 1).values()
    clients = rounds[0].clients
    assert len(clients) == 4
    merged = [1 + c.client_id for c in clients if c.wasted is None]
    assert len(merged) == 2
    assert result.train_metrics_clientapp[1]["own"] == pytest.approx(sum(merged) / 2)


def test_the_same_command_with_more_rounds_goes_on(tmp_path):
    kept = {"checkpoint": tmp_path / "kept", "out": tmp_path / "out"}
    nodes = {7: adding(1.0), 8: adding(1.0)}
    run(nodes, 2, **kept)
    result, _ = run(nodes, 3, **kept)
    assert torch.equal(weights(result), START["w"] + 3.0)
    lines = (tmp_path / "out" / "rounds.jsonl").read_text().splitlines()
    assert [json.loads(line)["round"] for line in lines] == [1, 2, 3]


def test_a_folder_of_an_earlier_run_is_not_written_over(tmp_path):
    out = tmp_path / "out"
    nodes = {7: adding(1.0), 8: adding(1.0)}
    run(nodes, 2, out=out)
    before = (out / "rounds.jsonl").read_bytes()
    with pytest.raises(BadOption, match="holds an earlier run; name a new folder, or checkpoint="):
        run(nodes, 2, out=out)
    assert (out / "rounds.jsonl").read_bytes() == before


@pytest.mark.parametrize("timeout", [0, -5, float("inf")])
def test_a_timeout_is_seconds(timeout):
    with pytest.raises(BadOption, match="timeout must be above 0"):
        run({7: adding(1.0), 8: adding(1.0)}, timeout=timeout)


def test_epochs_are_called_as_flower_s_tutorials_call_them():
    with pytest.raises(BadOption, match="epochs are called local_epochs here"):
        FedCore(epochs=3)
