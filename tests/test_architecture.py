"""The shape of the tree: who imports whom, a test twin per file, no file too long to read."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "fedcore"
FILES = sorted(SOURCE.rglob("*.py"))

# A package imports lower layers and itself, never a neighbour or a higher one.
LAYERS = {
    **dict.fromkeys(("types", "errors", "version", "bundle"), 0),
    **dict.fromkeys(
        ("seeding", "plugins", "compiled", "task", "deadline", "stacked", "records"), 1
    ),
    **dict.fromkeys(("arrays", "threads", "rates"), 1),
    "values": 0.5,
    "losses": 1.5,
    **dict.fromkeys(("history", "compression"), 2),
    **dict.fromkeys(("coreset", "sources"), 2),
    **dict.fromkeys(("server", "datasets", "models"), 3),
    **dict.fromkeys(("config", "strategies", "client", "deadlines"), 4),
    **dict.fromkeys(("sim", "report", "theory"), 5),
    **dict.fromkeys(("cli", "flower"), 6),
    **dict.fromkeys(("__main__", "reproduce"), 7),
}
# What tests may find absent.
EXTRAS = {"flwr", "hypothesis", "kmedoids", "matplotlib", "pandas", "ray", "rich", "safetensors"}
EXTRAS |= {"scipy", "sklearn", "threadpoolctl", "typer"}
WITHOUT_TWIN = {"__init__", "main", "types", "version", "errors"}


def part_of(path):
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imports(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            yield node.module, [alias.name for alias in node.names]
        elif isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, []


def own_parts(path):
    """Which parts of the package a file imports."""
    for module, names in imports(path):
        if module == "fedcore":
            yield from (name for name in names if name != "__version__")
        elif module.startswith("fedcore."):
            yield module.split(".")[1]


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_imports_point_downwards(path):
    part = part_of(path)
    if part == "__init__":
        return
    for other in own_parts(path):
        assert other == part or LAYERS[other] < LAYERS[part], f"{part} must not import {other}"


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_only_the_deployment_knows_flower(path):
    if part_of(path) != "flower":
        assert not any(module.split(".")[0] == "flwr" for module, _ in imports(path))


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*_strategy.py")), ids=str)
def test_an_example_imports_what_it_may_as_a_part_of_the_package(path):
    most = LAYERS["strategies"]
    assert all(other == "strategies" or LAYERS[other] < most for other in own_parts(path))


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_a_file_can_be_read_in_one_sitting(path):
    assert len(path.read_text().splitlines()) <= 300


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_a_file_says_what_it_is_for(path):
    assert ast.get_docstring(ast.parse(path.read_text()))


@pytest.mark.parametrize(
    "path",
    [path for path in FILES if path.stem not in WITHOUT_TWIN],
    ids=lambda p: str(p.relative_to(SOURCE)),
)
def test_every_file_has_a_test_twin(path):
    """tests/<package>/test_<module>.py, or a test that names the module."""
    folder = ROOT / "tests" / path.relative_to(SOURCE).parent
    twin = folder / f"test_{path.stem.lstrip('_')}.py"
    module = ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts)
    parent, _, name = module.rpartition(".")
    named = rf"{re.escape(module)}\b|from {re.escape(parent)} import .*\b{name}\b"
    tests = (ROOT / "tests").rglob("test_*.py")
    assert twin.exists() or any(re.search(named, test.read_text()) for test in tests)


def test_optional_and_heavy_packages_are_imported_where_they_are_used():
    """``import fedcore`` works with torch and NumPy alone."""
    for path in FILES:
        tree = ast.parse(path.read_text())
        for node in tree.body:
            if isinstance(node, ast.Import):
                found = {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                found = {node.module.split(".")[0]}
            else:
                continue
            if part_of(path) == "flower":  # which is imported by those who have Flower
                found -= {"flwr"}
            if path.name == "estimator.py":  # and this by those who have scikit-learn
                found -= {"sklearn"}
            absent = {"numba", "matplotlib", "flwr", "kmedoids", "sklearn", "ray", "safetensors"}
            assert not found & absent, path
            # ... and a grid can be run and written down with them alone.
            bare = {"grid", "table2", "pieces", "reproduce"}
            if path.parent.name != "cli" or path.stem in bare:
                assert not found & {"typer", "rich"} or path.stem in ("tables",), path


@pytest.mark.parametrize(
    "path",
    [path for path in sorted((ROOT / "tests").rglob("*.py")) if path.name.startswith("test_")],
    ids=lambda p: str(p.relative_to(ROOT / "tests")),
)
def test_a_test_of_what_not_everybody_has_skips_itself(path):
    """Accelerator machines have torch, NumPy, numba and pytest alone; the suite runs there too."""
    skipped = set()
    for node in ast.parse(path.read_text()).body:
        call, needed = getattr(node, "value", None), []
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "pytest.importorskip":
            skipped.add(call.args[0].value)
        elif isinstance(node, ast.Import):
            needed = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            needed = ["typer" if node.module == "fedcore.cli.main" else node.module]
        assert not {name.split(".")[0] for name in needed} & EXTRAS - skipped


def test_no_gpl_package_is_imported():
    for path in FILES:
        assert all(module.split(".")[0] != "kmedoids" for module, _ in imports(path))
