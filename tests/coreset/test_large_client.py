"""Shakespeare's largest role: 41,305 samples, 90 classes. A matrix of distances would be 6.8 GB."""

import subprocess
import sys

import pytest

PROGRAM = """
import resource
import numpy as np
from fedcore import select_coreset

draw = np.random.default_rng(0)
size, classes = 41_305, 90
labels = draw.integers(classes, size=size)
scores = 1.5 * draw.normal(size=(size, classes)).astype(np.float32)
scores[np.arange(size), labels] += 2
residuals = np.exp(scores - scores.max(1, keepdims=True))
residuals /= residuals.sum(1, keepdims=True)
residuals[np.arange(size), labels] -= 1
del scores
select_coreset(residuals[:2000], 200)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
found = select_coreset(residuals, 4_130)
assert found.weights.sum() == size
assert len(found.indices) == 4_130
# Nearer than to the one point that would serve all best in the mean: the origin.
assert found.objective < 0.5 * np.linalg.norm(residuals, axis=1).sum()
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_its_coreset_needs_no_matrix():
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=250, check=True
    )
    assert int(result.stdout) < 300  # megabytes
