import numpy as np
import pytest

from fedcore.coreset.medoids import plain
from fedcore.coreset.medoids import solve as module
from fedcore.coreset.medoids.kernels import add_keys
from fedcore.coreset.metric import Euclidean


def distinct(space, seed, labels=None):
    return module.distinct([space.single().factors[0].numpy()], seed, labels)


POINTS = np.array([[1.0, 2.0], [0.0, 0.0], [1.0, 2.0], [3.0, 1.0], [-0.0, 0.0], [1.0, 2.0]])


def test_equal_points_become_one_with_a_count():
    points = distinct(Euclidean(POINTS), seed=0)
    assert sorted(points.counts.tolist()) == [1, 2, 3]
    assert sorted(points.first.tolist()) == [0, 1, 3]
    rebuilt = POINTS[points.first][points.group]
    np.testing.assert_array_equal(rebuilt, POINTS)


def test_the_order_of_points_does_not_depend_on_the_order_of_the_input():
    values = np.random.default_rng(0).normal(size=(100, 3))
    shuffled = np.random.default_rng(1).permutation(values)
    one, other = distinct(Euclidean(values), seed=4), distinct(Euclidean(shuffled), seed=4)
    np.testing.assert_array_equal(values[one.first], shuffled[other.first])


def test_another_seed_gives_another_order():
    metric = Euclidean(np.random.default_rng(0).normal(size=(100, 3)))
    assert distinct(metric, 0).first.tolist() != distinct(metric, 1).first.tolist()


def test_equal_points_with_different_labels_stay_apart():
    points = distinct(Euclidean(POINTS), seed=0, labels=np.array([0, 0, 1, 0, 0, 1]))
    assert sorted(points.counts.tolist()) == [1, 1, 2, 2]


def test_round_numbers_do_not_collide():
    grid = np.stack(np.meshgrid(np.arange(64), np.arange(64)), axis=-1).reshape(-1, 2)
    points = distinct(Euclidean(grid), seed=0)
    assert len(points.first) == 64 * 64


def test_rounding_errors_leave_the_order_as_it_is():
    generator = np.random.default_rng(0)
    for offset in (0.0, 100.0):  # also where the numbers lie far from zero
        values = (generator.normal(size=(300, 10)) + offset).astype(np.float32)
        nearly = np.nextafter(values, np.float32(1e9))
        one, other = distinct(Euclidean(values), seed=0), distinct(Euclidean(nearly), seed=0)
        assert one.first.tolist() == other.first.tolist()


def test_so_do_errors_of_what_should_be_zero():
    generator = np.random.default_rng(0)
    values = generator.normal(size=(300, 10))
    values[:, ::2] = 0.0
    order = []
    for _ in range(2):
        noise = 1e-9 * generator.normal(size=values.shape)
        order.append(distinct(Euclidean(values + noise), seed=0).first.tolist())
    assert order[0] == order[1]


def test_points_that_round_to_the_same_are_ordered_by_what_they_are():
    values = np.random.default_rng(0).permutation(500)[:, None] * 1e-9
    values[0] = 1.0
    one, other = distinct(Euclidean(values), seed=0), distinct(Euclidean(values[::-1]), seed=0)
    assert len(one.first) == 500
    np.testing.assert_array_equal(values[one.first], values[::-1][other.first])


def test_a_collision_of_keys_keeps_points_apart(monkeypatch):
    monkeypatch.setattr(module, "LOW_24", 0)  # rounded numbers alone: everything collides
    values = np.repeat(np.arange(50), 2)[:, None] * 1e-9
    values[-2:] = 1.0
    points = distinct(Euclidean(values), seed=0)
    assert points.counts.tolist() == [2] * 50


def test_numbers_of_any_size_have_an_order():
    for scale in (1e-44, 1e-38, 1e38):
        values = np.random.default_rng(0).normal(size=(50, 2)).astype(np.float32)
        values *= np.float32(scale)
        known = len(np.unique(values + np.float32(0), axis=0))
        assert len(distinct(Euclidean(values), seed=0).first) == known


@pytest.mark.parametrize("width", [0, 1, 7, 200])
@pytest.mark.parametrize("rounded", [False, True])
def test_the_compiled_hash_is_the_plain_one(rounded, width):
    draw = np.random.default_rng(width)
    values = (draw.normal(size=(300, width)) * 10.0 ** draw.uniform(-6, 3)).astype(np.float32)
    factors = draw.integers(-(1 << 62), 1 << 62, size=width)
    keys = np.zeros((2, 3 if rounded else 1, 300), np.int64)
    plain.add_keys(keys[0], values, factors)
    add_keys(keys[1], values, factors)
    np.testing.assert_array_equal(keys[0], keys[1])


@pytest.mark.parametrize("copies", [0, 1, 40])
@pytest.mark.parametrize(("count", "width"), [(1, 3), (2, 1), (90, 4), (300, 70)])
def test_groups_are_the_same_without_compiled_loops(monkeypatch, count, width, copies):
    values = np.random.default_rng(count).normal(size=(count, width)).astype(np.float32)
    values = np.concatenate([values, np.repeat(values[:1], copies, axis=0), values[: count // 3]])
    found = module.distinct([values], seed=5)
    monkeypatch.setattr(module, "NUMBA", False)
    plainly = module.distinct([values], seed=5)
    for name in ("first", "group", "counts"):
        np.testing.assert_array_equal(getattr(found, name), getattr(plainly, name))
    assert found.counts.sum() == len(values)


def test_equal_keys_of_different_points_are_not_trusted():
    values = np.array([[1.0], [1.0], [2.0]], np.float32)
    order, fresh, certain = module._sorted(np.array([7, 7, 9]), [values])
    assert certain
    assert (order.tolist(), fresh.tolist()) == ([0, 1, 2], [True, False, True])
    _, fresh, certain = module._sorted(np.zeros(3, np.int64), [values])
    assert not certain
    assert fresh.tolist() == [True, False, True]
