"""docs/output.md names all that is written, its example is valid, other pages name what exists."""

import json
import re
from dataclasses import fields
from pathlib import Path

from fedcore.config import Experiment, read_toml, resolve
from fedcore.records import ClientRecord, Ending, RoundRecord, RunKey, Waste, event
from fedcore.report import output
from fedcore.report.records import to_lines, to_row
from fedcore.report.summary import summary
from fedcore.sources.benchmark import find
from fedcore.types import Assignment, LocalPlan, Phase, Way

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "output.md").read_text()
NAMED = set(re.findall(r"`([^`\n]+)`", PAGE))


def test_every_field_is_described():
    run = RunKey("b", "fedcore", 30.0, 0, learning_rate=0.1)
    rare = {"fell_back": True, "wasted": Waste.CANCELLED, "staleness": 1, "ended": 2.0}
    client = ClientRecord(3, Way.CORESET, 2, 46, 92.0, 4, **rare)
    last = {"ending": Ending(100.0, 40, 30, 9, 0.5, 0.25, 0.75), "cut": True}
    record = RoundRecord(1, 92.0, 100.0, (client,), 0, 0.5, 0.8, 0.6, 0.7, 0.01, **last)
    row = json.loads(to_lines([to_row(run, record)])[0])
    content = summary({run: [record]}, {})
    written = {*row, *row["clients"][0], *content, *content["results"][0]}
    written |= {*row["ending"], *content["step_sizes"][0]}
    written |= {*content["results"][0]["time_to_accuracy"][0]}
    written |= {*map(str, Way), *map(str, Waste)}
    assert written <= NAMED


def test_every_file_is_described():
    files = {output.ROUNDS, output.EVENTS, output.SUMMARY, output.EXPERIMENT, output.CHECKPOINT}
    files |= {"model-STRATEGY-STRAGGLERS-seed-N.safetensors", "provenance.jsonl"}
    assert {*files, *(Path(name).stem for name in output.PICTURES)} <= NAMED


def test_every_event_and_its_fields_are_described():
    """All that can happen to a job, and every field that anything writes of it."""
    page = (ROOT / "docs" / "fleets.md").read_text()
    named = set(re.findall(r"`([^`\n]+)`", page))
    source = [(ROOT / "src/fedcore/server" / name).read_text() for name in ("clock.py", "loop.py")]
    kinds = set(re.findall(r'event\(\s*"(\w+)"', "".join(source))) | {"done", "late"}
    assert kinds == {"sent", "started", "done", "late", "lost", "cancelled", "merged"}
    told = Assignment(3, LocalPlan((Phase(1),), Way.FULL), 0, 0)
    assert {*kinds, *event("sent", 0.0, told)} <= named
    options = set(re.findall(r"`--([a-z-]+)", page))
    assert options <= {field.name.replace("_", "-") for field in fields(Experiment)} | {"resume"}


def test_the_example_is_valid(tmp_path):
    (example,) = re.findall(r"```toml\n(.*?)```", PAGE, flags=re.S)
    (tmp_path / "job.toml").write_text(example)
    given = read_toml(tmp_path / "job.toml")
    experiment = resolve(given, lambda benchmark, preset: find(benchmark).hyperparameters(preset))
    assert experiment.clients_per_round == 10
    assert experiment.data == {"clients": 50}
    own = next(name for name in experiment.strategies if name.endswith(".py"))
    assert (ROOT / own).exists()


def test_rows_of_deviations_without_an_option_are_as_many_as_told():
    table = (ROOT / "docs" / "deviations.md").read_text().split("## Defects")[0]
    assert len(re.findall(r"\| - \|$", table, flags=re.M)) == 5
    assert 'The five rows with "-"' in table


def test_every_option_that_deviations_name_exists():
    named = re.findall(r"`--([a-z-]+)", (ROOT / "docs" / "deviations.md").read_text())
    known = {field.name.replace("_", "-") for field in fields(Experiment)}
    assert set(named) <= known


def test_what_the_map_of_the_paper_names_exists():
    page = (ROOT / "docs" / "paper-map.md").read_text()
    folders = (ROOT / "src" / "fedcore", ROOT)
    assert all(
        any((folder / path).is_dir() for folder in folders)
        for path in re.findall(r"`([\w/]+/)`", page)
    )
    for path, names in re.findall(r"`([\w/]+\.py)`((?:: (?:`\w+`(?:, )?)+)?)", page):
        (file,) = [folder / path for folder in folders if (folder / path).is_file()] or [path]
        assert file != path, f"{path} is gone"
        for name in re.findall(r"`(\w+)`", names):
            assert re.search(rf"\b(def|class) {name}\b", file.read_text()), f"{path}: {name}"
