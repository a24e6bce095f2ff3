import csv
import json
import sys

import pytest

from fedcore.cli.grid import run_grid
from fedcore.config import Experiment
from fedcore.errors import BadOption
from fedcore.report.export import check_tools, export
from fedcore.report.output import ROUNDS

SMALL = Experiment(
    rounds=2,
    epochs=1,
    clients_per_round=2,
    strategies=("fedavg", "fedcore"),
    stragglers=(30.0,),
    data={"clients": 4},
    device="cpu",
)


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    out = tmp_path_factory.mktemp("job") / "out"
    run_grid(SMALL, out)
    return out


def rows(job):
    return [json.loads(line) for line in (job / ROUNDS).read_text().splitlines()]


def test_a_table_has_a_row_for_every_round(job):
    export(job, ["csv"])
    with (job / "rounds.csv").open(newline="") as file:
        found = list(csv.DictReader(file))
    assert len(found) == len(rows(job)) == 4
    for one, row in zip(found, rows(job), strict=True):
        assert one["strategy"] == row["strategy"]
        assert int(one["round"]) == row["round"]
        assert float(one["round_time"]) == row["round_time"]
        assert float(one["test_accuracy"]) == row["test_accuracy"]


@pytest.mark.filterwarnings("ignore")
def test_tensorboard_reads_what_its_own_writer_wrote(job):
    pytest.importorskip("tensorboard", reason="TensorBoard is not installed")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    export(job, ["tensorboard"])
    places = sorted((job / "tensorboard").iterdir())
    assert [place.name for place in places] == ["fedavg-30-seed-0", "fedcore-30-seed-0"]
    read = EventAccumulator(str(places[1])).Reload()
    steps = [(event.step, event.value) for event in read.Scalars("test_accuracy")]
    own = [row for row in rows(job) if row["strategy"] == "fedcore"]
    assert steps == [(row["round"], pytest.approx(row["test_accuracy"])) for row in own]


def test_mlflow_gets_options_and_metrics_of_every_run(job, monkeypatch):
    """By what is called: MLflow itself is a large package."""
    called = []

    class Run:
        def __enter__(self):
            return self

        def __exit__(self, *_):
            called.append("end")

    class Stand:
        set_experiment = staticmethod(called.append)
        start_run = staticmethod(lambda run_name: called.append(run_name) or Run())
        log_params = staticmethod(lambda known: called.append(known["rounds"]))
        log_metrics = staticmethod(lambda known, step: called.append((step, set(known))))

    monkeypatch.setitem(sys.modules, "mlflow", Stand)
    export(job, ["mlflow"])
    names = {"round_time", "train_loss", "train_accuracy", "test_loss", "test_accuracy"}
    steps = [(1, names), (2, names), "end"]
    assert called == [
        *("fedcore synthetic-1-1", "fedavg-30-seed-0", 2, *steps),
        *("fedcore synthetic-1-1", "fedcore-30-seed-0", 2, *steps),
    ]


def test_what_is_missing_is_refused_before_anything_is_trained(tmp_path, monkeypatch):
    with pytest.raises(BadOption, match="csv needs the folder of a job; name it with --out"):
        check_tools(["csv"], None)
    monkeypatch.setattr("fedcore.report.export.find_spec", lambda name: None)
    with pytest.raises(BadOption, match="mlflow is missing; install FedCore"):
        check_tools(["mlflow"], tmp_path)
    check_tools([], None)
