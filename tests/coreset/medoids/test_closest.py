import numpy as np
import pytest

from fedcore.coreset.medoids.search import furthest_bits, thin, write


def keys_of(squared, names):
    bits = np.asarray(squared, np.float32).view(np.uint32).astype(np.uint64)
    return ((bits << np.uint64(32)) | np.asarray(names, np.uint64))[None].copy()


@pytest.mark.parametrize(("wanted", "slack"), [(1, 0), (5, 0), (5, 3), (40, 0)])
def test_thinning_keeps_the_smallest(wanted, slack):
    rng = np.random.default_rng(wanted)
    keys = keys_of(rng.exponential(size=40), rng.permutation(40))
    sorted_keys = np.sort(keys[0])
    left = thin(keys, 0, 40, wanted, slack)
    assert wanted <= left <= wanted + slack
    assert sorted(keys[0, :left]) == sorted_keys[:left].tolist()
    assert furthest_bits(keys, 0, left) == sorted_keys[left - 1] >> np.uint64(32)


def test_neighbours_are_written_in_order_ties_by_name_and_without_oneself():
    keys = keys_of([4.0, 0.0, 1.0, 4.0], [7, 3, 9, 2])
    points, distances = np.empty((1, 4), np.int32), np.empty((1, 4), np.float32)
    write(keys, 0, 4, 3, points, distances)
    assert points.tolist() == [[9, 2, 7, -1]]
    assert distances[0, :3].tolist() == [1.0, 2.0, 2.0]
