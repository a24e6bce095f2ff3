"""The comparison with simulators of stragglers, without them: what is written, counted and told."""

import argparse
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks.lab_peers import __main__ as module  # noqa: E402
from benchmarks.lab_peers import ours_run  # noqa: E402
from benchmarks.lab_peers.work import Answer, Clients, Laps  # noqa: E402
from benchmarks.peers.environments import PeerUnavailable  # noqa: E402

from benchmarks import performance_tables  # noqa: E402

SIZES = [9, 16, 30]


@pytest.fixture
def clients():
    draw = np.random.default_rng(0)
    total = sum(SIZES)
    return Clients(
        x=draw.normal(size=(total, 60)).astype(np.float32),
        y=draw.integers(10, size=total),
        sizes=np.array(SIZES),
        seconds=np.array([4.0, 7.0, 5.5]),
        test_x=draw.normal(size=(20, 60)).astype(np.float32),
        test_y=draw.integers(10, size=20),
        weight=draw.normal(size=(10, 60)).astype(np.float32),
        bias=np.zeros(10, np.float32),
        at_once=3,
        merges=4,
        epochs=2,
        batch_size=8,
        learning_rate=0.1,
    )


def test_clients_survive_their_file_and_are_cut_where_they_were_joined(clients, tmp_path):
    clients.write(tmp_path / "clients.npz")
    again = Clients.read(tmp_path / "clients.npz")
    for name, value in vars(clients).items():
        assert np.array_equal(getattr(again, name), value), name
        assert isinstance(getattr(again, name), type(value)), name
    assert [len(y) for _, y in again.pairs()] == SIZES
    assert torch.equal(again.pairs()[1][0], torch.from_numpy(clients.x[9:25]))
    assert [again.steps(client) for client in range(3)] == [4, 4, 8]


@pytest.mark.parametrize("evaluate", [False, True])
def test_ours_takes_the_steps_and_the_time_that_were_asked_for(clients, evaluate):
    """Everybody takes part: a round lasts as long as the slowest, and all steps are counted."""
    laps = Laps(clients)
    asked = argparse.Namespace(method="fedavg", evaluate=evaluate)
    virtual, layer = ours_run.simulate(clients, asked, laps)
    assert virtual == pytest.approx(4 * 7.0)
    assert [steps for _, steps in laps.marks] == [16, 32, 48, 64]
    assert not np.array_equal(layer.weight.detach().numpy(), clients.weight)


def test_ours_does_not_wait_for_the_slowest_with_a_buffer(clients):
    """Whoever answers starts again at once, and the third answer makes a merge."""
    laps = Laps(clients)
    asked = argparse.Namespace(method="fedbuff", evaluate=False)
    virtual, _ = ours_run.simulate(clients, asked, laps)
    # Client 0 answers every 4 seconds, 1 every 7, 2 every 5.5: 5 + 3 + 4 = 12 times up to 22 s.
    assert virtual == pytest.approx(22.0)
    assert len(laps.marks) == 4


def answer(steps=(10, 110), seconds=(1.0, 2.0), weights=(0.5, 0.25)):
    return Answer(list(zip(seconds, steps, strict=True)), 8.0, list(weights))


def test_the_best_turn_counts_from_the_first_merge_on():
    score = module.Score([answer(seconds=(5.0, 8.0)), answer(seconds=(1.0, 3.0))], answer())
    told = module.row("ours", "fedavg", score)
    assert told["CPU seconds a merge"] == 2.0
    assert told["CPU microseconds a step"] == 20_000.0
    assert told["every turn"] == [30_000.0, 20_000.0]
    assert (told["merges"], told["steps"]) == (1, 100)
    assert told["weights changed by evaluation"] == 0


def test_a_weight_that_evaluation_changes_is_counted():
    score = module.Score([answer()], answer(weights=(0.5, 0.375)))
    told = module.row("flgo", "fedavg", score)
    assert told["weights changed by evaluation"] == 1
    assert told["largest change by evaluation"] == 0.12
    shown = performance_tables.lab_row(told, ours=5_000.0)
    assert shown[:5] == ["1", "100", "1e+04", "1e+04-1e+04", "2"]
    assert shown[6] == "1, by up to 0.12"


def test_who_does_not_repeat_itself_is_not_blamed_on_evaluation():
    score = module.Score([answer(), answer(weights=(0.5, 0.3))], answer(weights=(0.1, 0.1)))
    shown = performance_tables.lab_row(module.row("flsim", "fedbuff", score), ours=1.0)
    assert shown[6] == "unknown: two runs differ anyway"


def test_who_is_away_or_fails_is_told_and_the_rest_goes_on(clients, monkeypatch):
    def run(who, method, path, *, evaluate=False):
        if who.peer == "flsim":
            raise PeerUnavailable("failed: out of ink")
        return answer()

    monkeypatch.setattr(module, "run", run)
    monkeypatch.setattr(module, "say", lambda text: None)
    rows = module.measure(clients, module.CONTESTANTS, {"appfl": "cannot be installed: x"}, 2)
    reasons = {row["name"]: row.get("not measured") for row in rows}
    assert reasons["flsim"] == "failed: out of ink"
    assert reasons["appfl"] == reasons["appfl, keeping garbage"] == "cannot be installed: x"
    assert reasons["ours"] is reasons["flgo"] is None
    assert performance_tables.lab_row(rows[-1], 1.0)[0] == "not measured: cannot be installed: x"


def test_rows_of_a_part_replace_those_of_the_same_and_leave_the_others():
    old = [
        {"method": method, "name": name, "turn": 1}
        for method in ("fedbuff", "fedavg")
        for name in ("flgo", "ours")
    ]
    new = [{"method": "fedavg", "name": "flgo", "turn": 2}]
    known = {"peers": {"flsim": {"numpy": "1"}}, "rows": old, "turns": 1}
    report = module.merged(known, {"peers": {"flgo": {"numpy": "2"}}, "rows": new, "turns": 3})
    assert [(row["method"], row["name"], row["turn"]) for row in report["rows"]] == [
        ("fedavg", "ours", 1), ("fedavg", "flgo", 2), ("fedbuff", "ours", 1), ("fedbuff", "flgo", 1)
    ]  # fmt: skip
    assert set(report["peers"]) == {"flgo", "flsim"}
    assert report["turns"] == 3


def test_a_command_that_fails_is_a_reason_and_no_crash(tmp_path):
    with pytest.raises(PeerUnavailable, match="failed: "):
        module.run(module.CONTESTANTS[0], "fedavg", tmp_path / "nothing.npz")
