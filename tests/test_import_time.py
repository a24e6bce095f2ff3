"""``import fedcore`` costs little beside torch, whatever is asked of it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import fedcore

SOURCE = Path(__file__).parents[1] / "src"
LIMIT = 0.3  # of what torch and NumPy take: 0.3 s where they take one, busy machine or not
TRIES = 5
LOOK = """
import json, sys, time
began = time.process_time()
import numpy, torch
unit = time.process_time() - began
before, began = set(sys.modules), time.process_time()
import fedcore
for name in NAMES:
    getattr(fedcore, name)
share = (time.process_time() - began) / unit
print(json.dumps([share, sorted(set(sys.modules) - before)]))
"""


def imported_beyond_torch(names):
    """Processor time as a share of torch's and NumPy's, and which modules came."""
    done = subprocess.run(
        [sys.executable, "-c", LOOK.replace("NAMES", repr(names))],
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
    )
    return json.loads(done.stdout)


def test_all_public_names_take_under_a_third_of_what_torch_takes():
    seen = []
    while len(seen) < TRIES and min(seen, default=LIMIT) >= LIMIT:
        share, modules = imported_beyond_torch(fedcore.__all__)
        assert "fedcore.sim.simulate" in modules
        seen.append(share)
    assert min(seen) < LIMIT


def test_nothing_but_torch_and_numpy_is_needed_for_them():
    _, modules = imported_beyond_torch(fedcore.__all__)
    # NumPy's compiled modules bring the names of their compiler along.
    packages = {name.partition(".")[0] for name in modules if "cython" not in name}
    assert packages - sys.stdlib_module_names <= {"fedcore", "numpy", "torch"}


def test_the_package_itself_imports_next_to_nothing():
    _, modules = imported_beyond_torch([])
    assert modules == ["fedcore"]
