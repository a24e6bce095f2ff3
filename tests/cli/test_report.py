"""``fedcore report`` and the page that ``fedcore compare`` writes at its end."""

import csv
import dataclasses
import json
import shutil
import sys

import pytest

pytest.importorskip("typer")
pytest.importorskip("rich")

from typer.testing import CliRunner

from fedcore.cli.grid import run_grid
from fedcore.cli.job import run_job
from fedcore.cli.main import app
from fedcore.config import Experiment
from fedcore.errors import BadOption
from fedcore.report import page

SMALL = Experiment(
    rounds=2,
    learning_rate=0.001,
    stragglers=(30.0,),
    strategies=("fedavg", "fedcore"),
    data={"clients": 5, "dimension": 3},
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("jobs") / "one"
    run_grid(SMALL, made)
    return made


def ask(*arguments):
    found = CliRunner().invoke(app, ["report", *map(str, arguments)])
    if found.exception and not isinstance(found.exception, SystemExit):
        raise found.exception
    return found.output


def test_pictures_have_the_colours_of_the_page(folder, tmp_path, monkeypatch):
    shutil.copytree(folder, tmp_path / "in" / "one")
    options = {"strategies": ("tempo", "fedcore"), "rounds": 1, "epochs": 2}
    run_grid(dataclasses.replace(SMALL, **options), tmp_path / "in" / "two")
    told = []
    monkeypatch.setattr(page, "draw_all", lambda *given: told.append(given[3]))
    page.write_report([tmp_path / "in"], tmp_path / "out", plots=True)
    assert len(told) == 2  # of two sets of options
    assert all([*dict.fromkeys(one)] == ["fedavg", "fedcore", "tempo"] for one in told)


def test_a_report_is_a_page_with_tables_and_figures_beside_it(folder, tmp_path):
    pytest.importorskip("matplotlib")
    assert "report.html and tables and figures" in ask(folder, "--out", tmp_path / "out")
    written = {path.name for path in (tmp_path / "out").iterdir()}
    assert written == {"report.html", "tables", "figures"}
    names = {path.stem for path in (tmp_path / "out" / "tables").iterdir()}
    assert {"table-1", "table-2", "runs", "results-synthetic-1-1-30-preset-paper-1"} <= names
    for name in names:
        files = [tmp_path / "out" / "tables" / f"{name}.{end}" for end in ("csv", "md", "tex")]
        assert all(file.stat().st_size for file in files)
    (figures,) = (tmp_path / "out" / "figures").iterdir()
    found = sorted(path.name for path in figures.iterdir())
    assert {"loss.pdf", "loss.png", "client_times.pdf", "timeline.png"} <= set(found)
    assert (figures / "loss.pdf").read_bytes().startswith(b"%PDF")
    assert len(found) == 12


def test_numbers_of_a_file_are_those_of_the_summary(folder, tmp_path):
    ask(folder, "--out", tmp_path, "--no-plots")
    results = json.loads((folder / "summary.json").read_text())["results"]
    with (tmp_path / "tables" / "runs.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    accuracies = [f"{100 * result['final_test_accuracy']:.1f} %" for result in results]
    assert [row["Final accuracy"] for row in rows] == accuracies
    assert not (tmp_path / "figures").exists()


def test_the_sizes_of_clients_are_in_the_summary(folder):
    data = json.loads((folder / "summary.json").read_text())["data"]
    assert data["counted"] == "training samples"
    assert data["clients"] == 5 == sum(count for _, _, count in data["bins"])
    assert data["mean"] == pytest.approx(data["samples"] / 5)
    assert all(low <= data["least"] or high >= data["least"] for low, high, _ in data["bins"])


def test_who_trained_a_piece_is_on_the_page(folder, tmp_path):
    """As 'fedcore reproduce' writes it."""
    shutil.copytree(folder, tmp_path / "piece")
    (tmp_path / "piece" / "provenance.jsonl").write_text('{"from_round": 1, "host": "somebody"}\n')
    ask(tmp_path / "piece", "--out", tmp_path / "out", "--no-plots")
    written = json.loads((folder / "summary.json").read_text())["data"]
    text = (tmp_path / "out" / "tables" / "table-1.csv").read_text()
    assert f"{written['samples']:,}" in text
    assert "somebody" in (tmp_path / "out" / "report.html").read_text()


def test_of_a_dataset_that_is_gone_there_is_no_table_of_sizes(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "own")
    for name in ("summary.json", "experiment.json"):
        content = json.loads((folder / name).read_text())
        content.pop("data" if name == "summary.json" else "nothing", None)
        content.get("experiment", content)["benchmark"] = "no/longer/here.py"
        (tmp_path / "own" / name).write_text(json.dumps(content))
    ask(tmp_path / "own", "--out", tmp_path / "out", "--no-plots")
    assert not (tmp_path / "out" / "tables" / "table-1.csv").exists()


def test_what_is_no_job_and_what_cannot_be_written_is_one_sentence(folder, tmp_path):
    with pytest.raises(BadOption, match="holds no job"):
        ask(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(BadOption, match="cannot be written"):
        ask(folder, "--out", tmp_path / "file")


def test_without_matplotlib_there_is_a_page_and_a_sentence(folder, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(BadOption, match=r"plots need matplotlib; install it, or add --no-plots"):
        ask(folder, "--out", tmp_path)
    assert (tmp_path / "report.html").exists()


def test_compare_writes_the_page_at_its_end_and_overwrite_replaces_it(tmp_path, capsys):
    run_job(SMALL, tmp_path / "job", plots=False)
    assert "report.html" in capsys.readouterr().out
    page = (tmp_path / "job" / "report.html").read_text()
    assert "Synthetic (1, 1)" in page
    assert len(page) < 5e6
    assert "http://" not in page.replace("http://www.w3.org", "").split("<script>")[0]
    run_job(SMALL, tmp_path / "job", plots=False, overwrite=True)
