"""What a job left, read again."""

import pytest
import torch
from torch import nn

import fedcore
from fedcore.cli.grid import run_grid
from fedcore.config import resolve
from fedcore.errors import BadOption
from fedcore.history import History
from fedcore.records import RoundRecord


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    given = {"benchmark": "synthetic-0-0", "strategies": ("fedavg", "tempo"), "rounds": 3}
    given |= {"stragglers": (30.0,), "epochs": 1, "clients_per_round": 2, "data": {"clients": 4}}
    out = tmp_path_factory.mktemp("load") / "job"
    _, runs = run_grid(resolve(given, lambda name, preset: {}), out)
    return out, runs


def test_histories_and_models_come_back(job):
    out, runs = job
    found = fedcore.load(out)
    assert found.keys() == runs.keys()
    for run, history in found.items():
        assert [one.test_loss for one in history.rounds] == [one.test_loss for one in runs[run]]
        nn.Linear(60, 10).load_state_dict(
            {name.rpartition(".")[2]: value for name, value in history.params.items()}
        )
        assert all(torch.isfinite(value).all() for value in history.params.values())


def test_a_table_of_rounds(job):
    pytest.importorskip("pandas")
    frame = fedcore.load(str(job[0])).frame()
    assert len(frame) == 6
    assert set(frame["strategy"]) == {"fedavg", "tempo"}
    assert {"round", "round_time", "test_accuracy"} <= set(frame.columns)


def test_the_same_run_twice_and_no_job_are_one_sentence(job, tmp_path):
    import shutil

    for name in ("a", "b"):
        shutil.copytree(job[0], tmp_path / name)
    with pytest.raises(BadOption, match="load one of them at a time"):
        fedcore.load(tmp_path)
    with pytest.raises(BadOption, match="holds no job"):
        fedcore.load(tmp_path / "nothing")


def record(number, seconds, accuracy):
    scores = {"train_loss": None, "train_accuracy": None, "test_loss": None}
    return RoundRecord(
        number, seconds, 2.0, (), rejected=0, test_accuracy=accuracy, wall_seconds=0.0, **scores
    )


def test_time_to_an_accuracy_and_its_picture():
    """Rounds of 0.5, 1 and 1 deadlines; the second was not measured."""
    history = History((record(1, 1.0, 0.3), record(2, 2.0, None), record(3, 2.0, 0.7)))
    assert (history.time_to(0.3), history.time_to(0.5), history.time_to(0.8)) == (0.5, 2.5, None)
    pytest.importorskip("matplotlib").use("Agg")
    from matplotlib.figure import Figure

    axes = Figure().subplots()
    assert history.plot(axes) is axes
    (line,) = axes.lines
    assert [*zip(line.get_xdata(), line.get_ydata(), strict=True)] == [(0.5, 0.3), (2.5, 0.7)]
