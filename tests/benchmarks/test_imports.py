"""Every benchmark can be imported: a function that is gone is missed here, not on the day."""

import importlib
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))
FILES = sorted((ROOT / "benchmarks").rglob("*.py"))
# Of environments of their own, or of the extras that tests and plots need.
OPTIONAL = {
    *("flwr", "pfl", "ray", "kmedoids", "sklearn", "threadpoolctl", "triton"),
    *("matplotlib", "rich", "typer", "appfl", "flgo", "flsim"),
}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_benchmark_can_be_imported(path):
    module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
    try:
        importlib.import_module(module)
    except ModuleNotFoundError as error:
        if str(error.name).split(".")[0] not in OPTIONAL:
            raise
        pytest.skip(f"needs {error.name}")
