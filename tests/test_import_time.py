"""``import fedcore`` costs little beside torch, whatever is asked of it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import fedcore

SOURCE = Path(__file__).parents[1] / "src"
LIMIT = 0.3  # seconds beyond torch and NumPy, for every public name
ROW = re.compile(r"import time:\s+(\d+) \|\s+\d+ \|\s+(\S+)")


def imported_beyond_torch(names):
    """Seconds of its own of every module that is imported after torch and NumPy."""
    # By statements: what importlib.import_module imports is not timed.
    homes = {fedcore._HOMES[name] for name in names}
    asked = "".join(f"import fedcore.{home};" for home in sorted(homes))
    code = f"import torch, numpy, sys; print('HERE', file=sys.stderr); import fedcore; {asked}"
    told = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", code],
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
    ).stderr
    rows = ROW.findall(told.partition("HERE")[2])
    return {name: int(microseconds) / 1e6 for microseconds, name in rows}


def test_all_public_names_take_under_a_third_of_a_second():
    # Wall clock: the best of three, for others work on this machine too.
    seen = [imported_beyond_torch(fedcore.__all__) for _ in range(3)]
    assert all("fedcore.sim.simulate" in modules for modules in seen)
    assert min(sum(modules.values()) for modules in seen) < LIMIT


def test_nothing_but_torch_and_numpy_is_needed_for_them():
    packages = {name.partition(".")[0] for name in imported_beyond_torch(fedcore.__all__)}
    assert packages - sys.stdlib_module_names == {"fedcore", "numpy"}  # numpy.random comes late


def test_the_package_itself_imports_next_to_nothing():
    assert set(imported_beyond_torch([])) == {"fedcore"}
