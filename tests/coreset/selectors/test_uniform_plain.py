import numpy as np
import pytest

from fedcore.coreset.candidates import Candidates
from fedcore.coreset.metric import Euclidean
from fedcore.coreset.selectors import uniform_plain


def test_uniform_plain_weighs_n_over_b(run, line):
    assert run(uniform_plain, line, 2).weights.tolist() == [2.5, 2.5]


def test_uniform_plain_is_unbiased_over_draws(line):
    candidates = Candidates(Euclidean(line))
    totals = []
    for seed in range(3000):
        found = uniform_plain.select(candidates, 2, np.random.default_rng(seed))
        totals.append(float((found.weights[:, None] * line[found.indices].double()).sum()))
    assert np.mean(totals) == pytest.approx(24, abs=0.6)
