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
