"""How many files of ours one call of ``select_coreset`` passes: readers must find the way."""

import sys
from pathlib import Path

import numpy as np
import pytest

import fedcore
from fedcore import select_coreset

HERE = str(Path(fedcore.__file__).parent)
MOST = 12


@pytest.mark.parametrize(
    ("count", "width", "budget"),
    [(150, 4, 30), (600, 60, 60), (2000, 10, 400), (1500, 200, 300), (5000, 10, 50)],
)
def test_a_call_passes_at_most_twelve_modules(count, width, budget):
    points = np.random.default_rng(0).normal(size=(count, width)).astype(np.float32)
    select_coreset(points, budget)  # what is imported or compiled once is no part of the way
    passed = set()

    def note(frame, event, _argument):
        name = frame.f_code.co_filename
        if event == "call" and name.startswith(HERE):
            passed.add(name.removeprefix(HERE))

    sys.setprofile(note)
    try:
        select_coreset(points, budget, seed=1)
    finally:
        sys.setprofile(None)
    assert len(passed) <= MOST, sorted(passed)
