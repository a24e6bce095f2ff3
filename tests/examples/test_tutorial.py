"""The tutorial: its cells run, and print what is printed in it."""

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TUTORIAL = ROOT / "examples" / "tutorial.ipynb"
NOTEBOOK = runpy.run_path(str(ROOT / "docs" / "site" / "notebook.py"))
NUMBER = re.compile(r"\d+\.\d+")


def text_of(outputs):
    return "".join(line for output in outputs for line in output.get("text", ()))


@pytest.mark.slow
def test_its_cells_print_what_it_says(monkeypatch):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    monkeypatch.chdir(ROOT / "examples")
    book = NOTEBOOK["load"](TUTORIAL)
    cells = [cell for cell in book["cells"] if cell["cell_type"] == "code"]
    found = NOTEBOOK["run"](book)
    assert len(found) == len(cells) > 5
    for cell, outputs in zip(cells, found, strict=True):
        kept = cell["outputs"]
        assert [one["output_type"] for one in kept] == [one["output_type"] for one in outputs]
        here, there = text_of(outputs), text_of(kept)
        # Fractions are accuracies and times: another processor may round a step differently.
        assert NUMBER.sub("#", here) == NUMBER.sub("#", there), "make tutorial"
        close = [
            pytest.approx(float(number), rel=0.1, abs=0.03) for number in NUMBER.findall(there)
        ]
        assert [float(number) for number in NUMBER.findall(here)] == close, "make tutorial"
    assert any("image/png" in one.get("data", {}) for outputs in found for one in outputs)


def test_it_says_what_the_method_is_for():
    """The numbers that the text rests on: as accurate as FedAvg, on time, and sooner there."""
    book = NOTEBOOK["load"](TUTORIAL)
    told = next(
        text
        for cell in book["cells"]
        if "fedavg: accuracy" in (text := text_of(cell.get("outputs", ())))
    )
    (average, longest, late), (core, ours, sooner) = (
        map(float, NUMBER.findall(line)) for line in told.splitlines()
    )
    assert core > average - 0.03
    assert ours <= 1.0 < longest
    assert sooner < late


def test_it_is_small_and_holds_nothing_of_a_machine():
    text = TUTORIAL.read_text()
    assert len(text) < 60_000
    assert not re.search(r"/(home|root|work|tmp)/", text)


@pytest.mark.parametrize(
    ("source", "said"), [("1 + 1", "ends with a value, 2"), ("print(1)\n'text'", "ends with a")]
)
def test_a_value_that_only_jupyter_would_show_is_refused(source, said):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    book = {"cells": [{"cell_type": "code", "source": source}]}
    with pytest.raises(ValueError, match=said):
        NOTEBOOK["run"](book)
