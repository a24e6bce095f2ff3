import json
from dataclasses import replace

import pytest

from fedcore.cli.folders import evaluate
from fedcore.cli.grid import run_grid
from fedcore.config import Experiment
from fedcore.errors import BadOption, BadRecord
from fedcore.report.output import load_model, save_model

SMALL = Experiment(
    rounds=2,
    epochs=1,
    clients_per_round=2,
    strategies=("fedavg", "fedcore"),
    stragglers=(10.0, 30.0),
    data={"clients": 4},
    device="cpu",
)


def test_a_model_that_is_loaded_is_the_one_that_was_measured(tmp_path, monkeypatch, capsys):
    pytest.importorskip("typer")
    from fedcore.cli.main import main

    content, _ = run_grid(SMALL, tmp_path / "job")
    found = list(evaluate(tmp_path, None))
    for (run, score), result in zip(found, content["results"], strict=True):
        assert (run.strategy, run.stragglers) == (result["strategy"], result["stragglers"])
        assert score.accuracy == result["final_test_accuracy"]
    monkeypatch.setattr("sys.argv", ["fedcore", "evaluate", str(tmp_path)])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 0
    lines = capsys.readouterr().out.splitlines()
    accuracy = f"{100 * content['results'][0]['final_test_accuracy']:.2f}"
    assert lines[0] == f"synthetic-1-1, fedavg, 10 % stragglers, seed 0: accuracy {accuracy} %"
    assert len(lines) == 4
    next((tmp_path / "job").glob("model-fedavg-30*")).unlink()
    with pytest.raises(BadRecord, match="cannot be read"):
        list(evaluate(tmp_path, None))


def test_of_several_step_sizes_each_model_is_told_apart(tmp_path, monkeypatch, capsys):
    pytest.importorskip("typer")
    from fedcore.cli.main import main

    rates = {"learning_rate": 0.1, "learning_rates": (0.1, 0.01), "strategies": ("fedavg",)}
    run_grid(replace(SMALL, **rates, stragglers=(30.0,)), tmp_path)
    monkeypatch.setattr("sys.argv", ["fedcore", "evaluate", str(tmp_path)])
    with pytest.raises(SystemExit):
        main()
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(": ")[0].split("seed 0")[1] for line in lines] == [
        ", step size 0.1",
        ", step size 0.01",
    ]


def test_a_model_that_was_trained_on_a_gpu_or_a_cluster_is_measured_where_there_is_none(
    tmp_path, monkeypatch
):
    run_grid(SMALL, tmp_path)
    expected = list(evaluate(tmp_path, None))
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    path = tmp_path / "experiment.json"
    known = json.loads(path.read_text())
    for own in ({"device": "cuda"}, {"device": "cuda", "executor": "vectorised"}):
        path.write_text(json.dumps(known | own))
        assert list(evaluate(tmp_path, None)) == expected


def test_a_model_of_before_its_file_changed_is_refused_in_a_sentence(tmp_path):
    run_grid(SMALL, tmp_path)
    (path, *_) = sorted(tmp_path.glob("model-fedavg-10*"))
    known = load_model(path)
    (bias,) = (name for name, value in known.items() if value.ndim == 1)
    for other in ({}, {bias: known[bias][1:]}):  # another name, another shape
        save_model(path, {name: own for name, own in known.items() if name != bias} | other, {})
        with pytest.raises(BadOption, match=rf"has no '{bias}' of shape \(10,\); evaluate it"):
            list(evaluate(tmp_path, None))
