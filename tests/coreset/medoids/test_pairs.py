import numpy as np
import pytest

from fedcore.compiled import compiled
from fedcore.coreset.medoids.geometry import rows_of
from fedcore.coreset.medoids.pairs import LANES, between, outer_squared
from fedcore.coreset.metric import OuterProduct

RNG = np.random.default_rng(0)


@compiled
def one(values, first, second, sums):
    return between(values, first, second, sums)


@compiled
def outer(rows, first, second, sums):
    left = between(rows.left, first, second, sums)
    right = between(rows.right, first, second, sums)
    return outer_squared(rows, first, second, left, right)


@pytest.mark.parametrize("width", [1, 7, LANES, LANES + 1, 3 * LANES, 100])
def test_a_pair_is_as_far_apart_as_its_difference_is_long(width):
    values = RNG.normal(size=(5, width)).astype(np.float32)
    scratch = np.full(LANES, np.nan, np.float32)
    want = ((values[1].astype(np.float64) - values[3]) ** 2).sum()
    assert one(values, 1, 3, scratch) == pytest.approx(want, rel=1e-5)
    assert one(values, 2, 2, scratch) == 0.0


def test_outer_products_are_as_far_apart_as_written_out():
    residuals, inputs = RNG.normal(size=(6, 3)), RNG.normal(size=(6, 40))
    rows = rows_of(OuterProduct(residuals, inputs, bias=False))
    long = np.einsum("ic,id->icd", rows.left, rows.right).reshape(6, -1).astype(np.float64)
    want = ((long[0] - long[4]) ** 2).sum()
    assert outer(rows, 0, 4, np.empty(LANES, np.float32)) == pytest.approx(want, rel=1e-4)
