import numpy as np
import pytest
from plain_medoids import distance_matrix, rows_of

from fedcore.coreset.medoids.geometry import LEAF
from fedcore.coreset.medoids.layout import LINE, LONG, leaves_of, take_rows
from fedcore.coreset.metric import Euclidean, OuterProduct

RNG = np.random.default_rng(0)


def matrix(metric):
    return distance_matrix(rows_of(metric))


def direct(values):
    wide = np.asarray(values, np.float64)
    return np.linalg.norm(wide[:, None] - wide[None], axis=2)


@pytest.mark.parametrize(("count", "width"), [(1, 1), (63, 3), (64, 4), (65, 5), (200, 33)])
def test_distances_agree_with_numpy_up_to_one_power_of_two(count, width):
    points = RNG.normal(size=(count, width)).astype(np.float32)
    got, want = matrix(Euclidean(points)).astype(np.float64), direct(points)
    scale = got.sum() / want.sum() if count > 1 else 1.0
    assert np.log2(scale) == pytest.approx(round(np.log2(scale)), abs=1e-5)
    np.testing.assert_allclose(got / scale, want, rtol=1e-5, atol=1e-6)


def test_leaves_begin_where_a_register_reads_them_in_one_go():
    for count in (1, 70, 300):
        assert (
            leaves_of(rows_of(Euclidean(RNG.normal(size=(count, 7))))).left.ctypes.data % LINE == 0
        )


def test_only_long_vectors_and_outer_products_are_searched_by_products():
    short, long = (rows_of(Euclidean(RNG.normal(size=(3, LONG + more)))) for more in (0, 1))
    assert (len(short.norms), len(long.norms)) == (0, 3)
    assert len(rows_of(OuterProduct(RNG.normal(size=(3, 2)), RNG.normal(size=(3, 2)))).norms) == 3


@pytest.mark.parametrize("bias", [True, False])
def test_outer_products_agree_with_the_written_out_gradients(bias):
    residuals, inputs = RNG.normal(size=(70, 4)), RNG.normal(size=(70, 6))
    ends = np.full((70, 1), float(bias))
    long = np.einsum("ic,id->icd", residuals, np.hstack((inputs, ends))).reshape(70, -1)
    got = matrix(OuterProduct(residuals, inputs, bias)).astype(np.float64)
    want = direct(long)
    np.testing.assert_allclose(got * (want.sum() / got.sum()), want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("size", [1e-30, 1e-12, 1e12, 1e30])
def test_very_small_and_very_large_points_keep_their_proportions(size):
    got = matrix(Euclidean(np.array([[0.0], [1.0], [3.0]]) * size))
    assert got[0, 2] / got[0, 1] == pytest.approx(3.0, rel=1e-5)


def test_distances_are_symmetric_to_the_last_bit():
    for metric in (
        Euclidean(RNG.normal(size=(150, 10))),
        OuterProduct(RNG.normal(size=(150, 3)), RNG.normal(size=(150, 7))),
    ):
        distances = matrix(metric)
        assert np.array_equal(distances, distances.T)


def test_taking_rows_takes_points_in_order():
    points = RNG.normal(size=(LEAF + 3, 8))
    rows = rows_of(Euclidean(points))
    assert np.array_equal(take_rows(rows, np.array([5, 2])).left, rows.left[[5, 2]])
