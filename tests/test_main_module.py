import importlib
import subprocess
import sys

import pytest

pytest.importorskip("typer")
pytest.importorskip("rich")


def test_python_dash_m_is_the_command():
    result = subprocess.run(
        [sys.executable, "-m", "fedcore", "--version"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("fedcore 0.")


def test_importing_it_runs_nothing():
    importlib.import_module("fedcore.__main__")
