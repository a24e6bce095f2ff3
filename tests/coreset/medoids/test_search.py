import numpy as np
import pytest
from plain_medoids import distance_matrix, rows_of

from fedcore.coreset.medoids.kernels import spatial_order
from fedcore.coreset.medoids.layout import index_of, nearest, take_rows
from fedcore.coreset.medoids.problem import TimeUp
from fedcore.coreset.metric import Euclidean


def spatial_rows(metric):
    rows = rows_of(metric)
    return take_rows(rows, spatial_order(rows.left))


def brute_force(rows, members, keep_own):
    distances = distance_matrix(rows)
    hidden = np.full_like(distances, np.inf)
    hidden[:, members] = distances[:, members]
    if not keep_own:
        np.fill_diagonal(hidden, np.inf)
    return hidden


@pytest.mark.parametrize("k", [1, 5, 40])
@pytest.mark.parametrize("keep_own", [True, False])
def test_neighbours_are_those_of_brute_force(family, k, keep_own):
    rows = spatial_rows(family(400))
    count = len(rows.left)
    for members in (np.arange(count), np.arange(0, count, 3)):
        index = index_of(rows, members)
        points, distances = nearest(rows, np.arange(count), index, k, keep_own=keep_own)
        hidden = brute_force(rows, members, keep_own)
        # Pairs of long vectors are summed up in another order than rows of the matrix.
        close = {"rtol": 1e-5, "atol": 1e-5 * float(distances.max())}
        close = {"rtol": 0.0} if len(rows.norms) == 0 else close
        np.testing.assert_allclose(distances, np.sort(hidden, axis=1)[:, :k], **close)
        np.testing.assert_allclose(distances, np.take_along_axis(hidden, points, axis=1), **close)
        assert all(len(set(row)) == k for row in points.tolist())


def test_too_few_points_leave_places_empty():
    rows = spatial_rows(Euclidean(np.array([[0.0], [1.0], [3.0]])))
    points, _ = nearest(rows, np.arange(3), index_of(rows, np.arange(3)), 4)
    assert (points[:, 2:] == -1).all()
    assert (points[:, :2] >= 0).all()


def test_no_time_no_answer(late):
    rows = spatial_rows(late(200))
    index = index_of(rows, np.arange(200))
    with pytest.raises(TimeUp):
        nearest(rows, np.arange(200), index, 3, over=lambda: True)
