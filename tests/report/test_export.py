import csv
import json
import sys
from dataclasses import replace
from unittest import mock

import pytest

from fedcore.cli.grid import run_grid
from fedcore.config import Experiment
from fedcore.errors import BadData, BadOption
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


def test_metrics_go_to_every_tool_from_rounds_that_were_measured(tmp_path, monkeypatch):
    out = tmp_path / "out"
    run_grid(replace(SMALL, metrics=("f1", "top-3"), evaluate_every=2), out)
    export(out, ["csv"])
    with (out / "rounds.csv").open(newline="") as file:
        found = list(csv.DictReader(file))
    for one, row in zip(found, rows(out), strict=True):
        for name in ("f1", "top-3"):
            known = row["metrics"][name] if row["round"] == 2 else ""
            assert one[f"test_{name}"] == str(known)
    sent = []
    monkeypatch.setitem(sys.modules, "mlflow", mock.MagicMock())
    sys.modules["mlflow"].search_runs.return_value = []
    sys.modules["mlflow"].log_metrics = lambda known, step: sent.append((step, known))
    export(out, ["mlflow"])
    assert [step for step, _ in sent] == [1, 2, 1, 2]
    for (step, known), row in zip(sent, rows(out), strict=True):
        own = {"test_f1", "test_top-3"} & known.keys()
        assert own == ({"test_f1", "test_top-3"} if step == 2 else set())
        assert all(known[name] == row["metrics"][name[5:]] for name in own)


@pytest.mark.filterwarnings("ignore")
def test_tensorboard_reads_what_its_own_writer_wrote(job):
    pytest.importorskip("tensorboard", reason="TensorBoard is not installed")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    for _ in range(2):  # as when a finished job is resumed: no round is there twice
        export(job, ["tensorboard"])
    places = sorted((job / "tensorboard").iterdir())
    assert [place.name for place in places] == ["fedavg-30-seed-0", "fedcore-30-seed-0"]
    read = EventAccumulator(str(places[1])).Reload()
    steps = [(event.step, event.value) for event in read.Scalars("test_accuracy")]
    own = [row for row in rows(job) if row["strategy"] == "fedcore"]
    assert steps == [(row["round"], pytest.approx(row["test_accuracy"])) for row in own]


def test_mlflow_gets_options_and_metrics_of_every_run(job, monkeypatch):
    """By what is called: MLflow itself is a large package; where it is, the next test reads it."""
    called = []

    class Run:
        def __enter__(self):
            return self

        def __exit__(self, *_):
            called.append("end")

    class Stand:
        set_experiment = staticmethod(called.append)
        search_runs = staticmethod(lambda **_: [])
        start_run = staticmethod(lambda run_name, tags: called.append(run_name) or Run())
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


@pytest.fixture
def mlflow(tmp_path, monkeypatch):
    package = pytest.importorskip("mlflow", reason="MLflow is not installed")
    package.set_tracking_uri(f"sqlite:///{tmp_path}/mlflow.db")
    yield package
    package.set_tracking_uri(None)


@pytest.mark.filterwarnings("ignore")
def test_mlflow_reads_what_its_own_client_wrote(job, mlflow):
    for _ in range(2):  # as when a finished job is resumed: no run is there twice
        export(job, ["mlflow"])
    client = mlflow.MlflowClient()
    place = client.get_experiment_by_name("fedcore synthetic-1-1")
    runs = {run.info.run_name: run for run in client.search_runs(place.experiment_id)}
    assert sorted(runs) == ["fedavg-30-seed-0", "fedcore-30-seed-0"]
    assert len(client.search_runs(place.experiment_id)) == 2
    run = runs["fedcore-30-seed-0"]
    assert run.info.status == "FINISHED"
    assert run.data.params["strategy"] == "fedcore"
    assert run.data.params["epochs"] == "1"
    assert float(run.data.params["learning_rate"]) == SMALL.learning_rate
    own = [row for row in rows(job) if row["strategy"] == "fedcore"]
    for name in ("round_time", "train_loss", "test_accuracy"):
        history = client.get_metric_history(run.info.run_id, name)
        assert [(one.step, one.value) for one in history] == [(r["round"], r[name]) for r in own]


@pytest.mark.filterwarnings("ignore")
def test_a_run_that_mlflow_got_in_part_is_sent_again(job, mlflow, monkeypatch):
    def no_more(*_, **__):
        raise OSError("the line is dead")

    with monkeypatch.context() as broken:
        broken.setattr(mlflow, "log_metrics", no_more)
        with pytest.raises(BadData, match=r"the line is dead; all results are in .* --resume"):
            export(job, ["mlflow"])
    export(job, ["mlflow"])
    client = mlflow.MlflowClient()
    place = client.get_experiment_by_name("fedcore synthetic-1-1")
    states = sorted(run.info.status for run in client.search_runs(place.experiment_id))
    assert states == ["FAILED", "FINISHED", "FINISHED"]


def test_a_tool_that_fails_is_one_sentence(job, monkeypatch):
    class Dead:
        def set_experiment(self, name):
            raise ConnectionError("nobody answers\n  at port 9")

    monkeypatch.setitem(sys.modules, "mlflow", Dead())
    with pytest.raises(BadData) as refusal:
        export(job, ["mlflow"])
    assert str(refusal.value) == (
        "handing rounds to mlflow failed with ConnectionError: nobody answers at port 9; all "
        f"results are in {str(job)!r}, and --resume hands them over again"
    )


def test_what_is_missing_is_refused_before_anything_is_trained(tmp_path, monkeypatch):
    with pytest.raises(BadOption, match="csv needs the folder of a job; name it with --out"):
        check_tools(["csv"], None)
    monkeypatch.setattr("fedcore.report.export.find_spec", lambda name: None)
    with pytest.raises(BadOption, match="mlflow is missing; install FedCore"):
        check_tools(["mlflow"], tmp_path)
    check_tools([], None)
