"""What the pages name is there: commands, options, modules, targets of make, files."""

import importlib.util
import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
THEIRS = {"--help", "--logdir", "--strict"}  # options of other programs
OF_OTHERS = {"deployment.md", "performance.md", "reproduce.md"}  # pages on such options


def named(page):
    return page.relative_to(ROOT).as_posix()


@pytest.fixture(scope="module")
def command():
    typer = pytest.importorskip("typer")
    pytest.importorskip("rich")
    from fedcore.cli.main import app

    return typer.main.get_command(app)


def options_of(command):
    own = {name for one in command.params for name in (*one.opts, *one.secondary_opts)}
    return own.union(*map(options_of, getattr(command, "commands", {}).values()))


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_commands_and_options_exist(page, command):
    text = page.read_text()
    said = re.findall(r"^(?:\$ )?fedcore ([a-z]+)", text, flags=re.M)
    said += re.findall(r"`fedcore ([a-z]+)", text)
    assert set(said) <= set(command.commands)
    if page.name not in OF_OTHERS:
        found = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", text))
        assert found <= options_of(command) | THEIRS


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_modules_and_targets_exist(page):
    text = page.read_text()
    for module in set(re.findall(r"python -m ([\w.]+)", text)):
        assert importlib.util.find_spec(module.rstrip(".")), module
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), flags=re.M))
    assert set(re.findall(r"`make ([a-z0-9-]+)", text)) <= targets


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_files_in_code_exist(page):
    """``client/step.py`` is below src/fedcore, ``tests/test_hops.py`` below the root."""
    for name in set(re.findall(r"`((?:[\w-]+/)+[\w-]+\.(?:py|js|csv))`", page.read_text())):
        if "NAME" not in name:
            assert (ROOT / "src" / "fedcore" / name).exists() or (ROOT / name).exists(), name


def test_the_layers_of_the_page_are_those_of_the_test():
    layers = runpy.run_path(str(ROOT / "tests" / "test_architecture.py"))["LAYERS"]
    text = (ROOT / "docs" / "architecture.md").read_text()
    rows = re.findall(r"^ (\d(?:\.5)?) +([a-z_ ]+)$", text, flags=re.M)
    assert {name: float(level) for level, names in rows for name in names.split()} == layers
