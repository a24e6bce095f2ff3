"""The README's Python runs as printed."""

import re
from pathlib import Path

import torch

README = (Path(__file__).parents[1] / "README.md").read_text()


def test_the_ten_lines_run(capsys):
    blocks = re.findall(r"```python\n(.*?)```", README, flags=re.S)
    assert len(blocks) == 3
    compile(blocks[2], "README.md", "exec")  # two lines of a Flower app: examples/flower_app runs
    exec(compile(blocks[0], "README.md", "exec"), {})
    accuracy, longest = capsys.readouterr().out.split()[:2]
    assert 0.25 < float(accuracy) <= 1
    assert float(longest) <= 1.0


def test_the_coreset_example_runs(capsys):
    exec(
        compile(re.findall(r"```python\n(.*?)```", README, flags=re.S)[1], "README.md", "exec"), {}
    )
    first, second = capsys.readouterr().out.splitlines()
    assert "5000.0" in first
    assert second.startswith("300 ")


def test_every_linked_file_exists():
    root = Path(__file__).parents[1]
    for target in re.findall(r"\]\(((?!http)[^)]+)\)", README):
        assert (root / target).exists(), target


def test_the_page_on_own_data_runs(capsys, tmp_path, monkeypatch):
    page = (Path(__file__).parents[1] / "docs" / "own-data.md").read_text()
    first, file, last = re.findall(r"```python\n(.*?)```", page, flags=re.S)
    exec(compile(first, "own-data.md", "exec"), {})
    accuracy, time = capsys.readouterr().out.split()
    assert float(accuracy) > 0.8
    assert 0 < float(time) <= 20
    monkeypatch.chdir(tmp_path)
    Path("own.py").write_text(file)
    from fedcore.cli.grid import run_grid
    from fedcore.config import resolve

    options = {"how": "shards", "clients": 50, "classes": 3}
    given = {"benchmark": "own.py", "data": options, "rounds": 2, "epochs": 1}
    given |= {"strategies": ("tempo",), "stragglers": (30.0,)}
    run_grid(resolve(given, lambda name, preset: {}), Path("runs/own"))
    exec(compile(last, "own-data.md", "exec"), {})
    assert capsys.readouterr().out.startswith("tempo 0 ")


def test_the_page_on_own_models_runs(capsys):
    page = (Path(__file__).parents[1] / "docs" / "own-model.md").read_text()
    losses, inputs, norms = re.findall(r"```python\n(.*?)```", page, flags=re.S)
    torch.manual_seed(0)
    exec(compile(losses, "own-model.md", "exec"), {})
    first, second = capsys.readouterr().out.splitlines()
    assert re.match(r"None \{'r2': [\d.-]+, 'mae': [\d.]+\}", first)
    assert second == "30 300.0"
    exec(compile(inputs, "own-model.md", "exec"), {})
    assert 0 <= float(capsys.readouterr().out) <= 1
    exec(compile(norms, "own-model.md", "exec"), {})
