"""Every example runs as its first lines say."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", ["quickstart.py", "naive_fedcore.py"])
def test_scripts(name):
    result = subprocess.run(
        [sys.executable, ROOT / "examples" / name],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert "accuracy" in result.stdout


def test_the_own_strategy_is_a_strategy():
    from fedcore import plugins
    from fedcore.types import ClientProfile

    path = str(ROOT / "examples" / "own_strategy.py")
    strategy = plugins.load("strategy", path).build()
    plan = strategy.plan(ClientProfile(100, 1.0), 99.0, 10)
    assert plan.work(100) == 90


def test_who_has_no_time_for_a_sample_sits_out():
    from fedcore import plugins
    from fedcore.types import SIT_OUT, ClientProfile

    strategy = plugins.load("strategy", str(ROOT / "examples" / "own_strategy.py")).build()
    assert strategy.plan(ClientProfile(100, 1.0), 0.5, 10) == SIT_OUT
    assert strategy.plan(ClientProfile(100, 1.0), 7.0, 10).work(100) == 7
