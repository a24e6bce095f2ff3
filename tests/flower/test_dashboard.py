"""What a round leaves behind, by a round that was made up."""

import pytest
import torch

pytest.importorskip("flwr")

from flwr.app import MetricRecord

from fedcore.errors import BadOption
from fedcore.flower.clock import Notes
from fedcore.flower.dashboard import Dashboard, line, who_did_what
from fedcore.flower.options import Options
from fedcore.flower.wire import Report
from fedcore.records import ClientRecord, RoundRecord, RunKey
from fedcore.report.records import read_runs
from fedcore.server.loop import Merged
from fedcore.server.state import ServerState
from fedcore.types import Path

RUN = RunKey("flower", "fedcore", 30.0, 0)


def told(client, path=Path.FULL):
    return ClientRecord(client, path, 1, 999, 5.0, None)


def report(work, **said):
    return Report(1, 0, 4, work, 3.0, 0.1, 3.0, **said)


def merged(number, *clients):
    state = ServerState({"w": torch.zeros(1)}, number)
    return Merged(state=state, seconds=12.0, clients=clients, rejected=0, training_seconds=11.0)


def test_work_and_way_are_those_of_the_report():
    notes = Notes()
    notes.answered[0] += [report(80)]
    notes.answered[1] += [report(60, coreset_size=7, cut_short=1)]
    notes.answered[2] += [report(20, cut_short=1), report(30)]
    clients = (told(0), told(1), told(2), told(2), told(3, Path.SAT_OUT))
    found = [(c.path, c.work) for c in who_did_what(merged(1, *clients), notes)]
    assert found == [
        (Path.FULL, 80),
        (Path.CORESET, 60),
        (Path.PARTIAL, 20),
        (Path.FULL, 30),
        (Path.SAT_OUT, 999),
    ]


def test_a_line_names_everybody():
    clients = (told(0), ClientRecord(1, Path.CORESET, 1, 60, 21.0, None))
    record = RoundRecord(4, 21.0, 20.0, clients, 0, None, None, None, None, 21.0)
    notes = Notes(failed=[(2, "code 2: 'it raised'")])
    assert line(record, notes, "fixed") == (
        "round 4: 21.0 s of 20.0 s (fixed), 1 of 3 on time: "
        "0 full 999 in 5.0 s; 1 coreset 60 in 21.0 s; 2 code 2: 'it raised'"
    )


def add(dashboard, number, metrics=None):
    notes = Notes()
    notes.answered[0] += [report(80)]
    dashboard.add(merged(number, told(0)), notes, 20.0, "fixed", metrics, 1.5)


def test_what_was_measured_is_in_the_records_and_nothing_else(tmp_path):
    dashboard = Dashboard(Options(out=tmp_path), RUN, 3, 0)
    add(dashboard, 1)
    add(dashboard, 2, MetricRecord({"eval_loss": 2.5, "eval_acc": 0.75}))
    add(dashboard, 3, MetricRecord({"accuracy": 75.0}))  # a percentage is none of ours
    dashboard.finish()
    rounds = read_runs(tmp_path / "rounds.jsonl", [RUN], 3)[RUN]
    assert [r.test_accuracy for r in rounds] == [None, 0.75, None]
    assert [r.test_loss for r in rounds] == [None, 2.5, None]
    assert [r.train_loss for r in rounds] == [None, None, None]
    assert (tmp_path / "summary.json").exists()


def test_rounds_beyond_the_checkpoint_are_forgotten(tmp_path):
    dashboard = Dashboard(Options(out=tmp_path), RUN, 5, 0)
    for number in (1, 2, 3):
        add(dashboard, number)
    add(Dashboard(Options(out=tmp_path), RUN, 5, 2), 3)
    assert len(read_runs(tmp_path / "rounds.jsonl", [RUN], 5)[RUN]) == 3
    add(Dashboard(Options(out=tmp_path), RUN, 5, 0), 1)
    assert len(read_runs(tmp_path / "rounds.jsonl", [RUN], 5)[RUN]) == 1


def test_a_folder_of_another_job_is_refused(tmp_path):
    Dashboard(Options(out=tmp_path), RUN, 5, 0)
    with pytest.raises(BadOption, match="epochs"):
        Dashboard(Options(out=tmp_path, local_epochs=3), RUN, 5, 0)
