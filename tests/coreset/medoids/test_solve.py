"""The solver's contract, on any path: what a caller may rely on."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from plain_medoids import exhaustive
from fedcore.coreset.medoids.solve import solve
from fedcore.coreset.metric import Euclidean, OuterProduct

PATHS = ["exact", "sparse", "torch"]
RNG = np.random.default_rng(0)


def distances_of(points):
    wide = np.asarray(points, np.float64)
    return np.linalg.norm(wide[:, None] - wide[None], axis=2)


def check(points, k, answer):
    count = len(points)
    distances = distances_of(points)[:, answer.indices]
    assert answer.indices.tolist() == sorted(set(answer.indices.tolist()))
    assert len(answer.indices) == min(k, count)
    assert answer.assignment.shape == (count,)
    assert (answer.weights > 0).all()
    assert answer.weights.sum() == count
    assert np.array_equal(answer.assignment[answer.indices], np.arange(len(answer.indices)))
    served = distances[np.arange(count), answer.assignment]
    scale = distances.max() + 1e-30
    np.testing.assert_allclose(served / scale, distances.min(axis=1) / scale, atol=2e-6)
    assert answer.objective == pytest.approx(served.sum(), rel=1e-5, abs=1e-6 * scale)
    distinct = len(np.unique(points, axis=0))
    chosen = len(np.unique(points[answer.indices], axis=0))
    assert chosen == min(distinct, k, count)


@pytest.mark.parametrize("path", PATHS)
@settings(max_examples=60, deadline=None, derandomize=True)
@given(data=st.data())
def test_the_contract_holds_for_any_points(path, data):
    count = data.draw(st.integers(1, 25))
    elements = st.integers(-3, 3).map(float) | st.floats(-100, 100, width=32)
    points = data.draw(arrays(np.float32, (count, data.draw(st.integers(1, 3))), elements=elements))
    k = data.draw(st.integers(1, count + 1))
    check(points + np.float32(0), k, solve(points, k, path=path))


@pytest.mark.parametrize("path", PATHS)
@settings(max_examples=40, deadline=None, derandomize=True)
@given(data=st.data())
def test_permuting_the_points_permutes_the_answer(path, data):
    count = data.draw(st.integers(2, 25))
    points = data.draw(arrays(np.float32, (count, 2), elements=st.integers(-4, 4).map(float)))
    order = np.array(data.draw(st.permutations(range(count))))
    k = data.draw(st.integers(1, count - 1))
    one, other = solve(points, k, path=path), solve(points[order], k, path=path)
    assert other.objective == pytest.approx(one.objective, rel=1e-12)

    def summary(values, answer):
        chosen = values[answer.indices]
        merged, inverse = np.unique(chosen, axis=0, return_inverse=True)
        return merged.tolist(), np.bincount(inverse.reshape(-1), answer.weights).tolist()

    assert summary(points, one) == summary(points[order], other)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("k", [1, 2, 4, 7])
def test_tiny_problems_are_solved_within_a_swap_of_the_best(path, k):
    points = np.random.default_rng(k).normal(size=(8, 2))
    best = exhaustive(distances_of(points), k)[1]
    found = min(solve(points, k, seed=seed, path=path).objective for seed in range(10))
    assert found == pytest.approx(best, rel=1e-5)


@pytest.mark.parametrize("path", PATHS)
def test_a_seed_gives_one_answer_whatever_the_threads(path):
    points = RNG.normal(size=(300, 5))
    one, two = solve(points, 60, seed=3, path=path), solve(points, 60, seed=3, path=path, threads=2)
    assert one.indices.tolist() == two.indices.tolist()
    assert one.objective == two.objective


@pytest.mark.parametrize("path", PATHS)
def test_equal_points_cost_nothing(path):
    answer = solve(np.ones((30, 4)), 3, path=path)
    assert answer.objective == 0.0
    assert answer.weights.sum() == 30


@pytest.mark.parametrize("path", PATHS)
def test_labels_are_kept_apart_under_one_budget(path):
    points, labels = RNG.normal(size=(200, 3)), RNG.integers(0, 4, size=200)
    answer = solve(points, 20, labels=labels, path=path)
    assert np.array_equal(labels[answer.indices][answer.assignment], labels)
    assert answer.objective >= solve(points, 20, path=path).objective * 0.999


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("path", PATHS)
def test_a_warm_start_at_the_answer_needs_no_swap(path, seed):
    points = np.random.default_rng(seed).normal(size=(300, 4))
    first = solve(points, 50, path=path)
    again = solve(points, 50, start=first.indices, path=path)
    assert again.swaps == 0
    assert again.indices.tolist() == first.indices.tolist()


@pytest.mark.parametrize("path", PATHS)
def test_a_warm_start_may_be_too_long_or_too_short(path):
    points = RNG.normal(size=(60, 2))
    for start in (np.arange(30), np.array([5, 5, 6]), np.array([], np.int64)):
        check(points.astype(np.float32), 10, solve(points, 10, start=start, path=path))


@pytest.mark.parametrize("path", PATHS)
def test_outer_products_are_solved_like_the_written_out_gradients(path):
    residuals, inputs = RNG.normal(size=(90, 3)), RNG.normal(size=(90, 5))
    ends = np.ones((90, 1))
    long = np.einsum("ic,id->icd", residuals, np.hstack((inputs, ends))).reshape(90, -1)
    answer = solve(OuterProduct(residuals, inputs), 20, path=path)
    written = distances_of(long)[:, answer.indices].min(axis=1).sum()
    assert answer.objective == pytest.approx(written, rel=1e-5)
    assert answer.objective <= solve(long, 20, path="exact").objective * 1.02


def test_tensors_and_arrays_give_the_same_answer():
    points = RNG.normal(size=(50, 3)).astype(np.float32)
    one, other = solve(points, 10), solve(torch.from_numpy(points), 10)
    assert one.indices.tolist() == other.indices.tolist()
    assert solve(Euclidean(points), 10).indices.tolist() == one.indices.tolist()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"space": np.zeros((0, 3)), "k": 1}, "at least one point"),
        ({"space": np.zeros((4, 3)), "k": 0}, "k must be at least 1, got 0"),
        ({"space": np.zeros(4), "k": 1}, "matrix"),
        ({"space": np.full((4, 3), np.inf), "k": 1}, "finite"),
        ({"space": np.eye(4), "k": 2, "labels": np.zeros(3, int)}, "one integer a point"),
        ({"space": np.eye(4), "k": 2, "labels": np.zeros(4)}, "must be integers"),
        ({"space": np.eye(4), "k": 2, "labels": np.arange(4)}, "number of labels"),
        ({"space": np.eye(4), "k": 2, "start": np.array([9])}, "between 0 and 3"),
    ],
)
def test_bad_input_gets_one_clear_sentence(arguments, message):
    with pytest.raises(ValueError, match=message):
        solve(**arguments)


@pytest.mark.parametrize(("size", "k"), [(60, 12), (300, 60), (1000, 200)])
def test_rounding_errors_choose_no_other_medoids(size, k):
    """Gradients differ in their last bits from executor to executor."""
    for seed in range(10):
        draw = torch.Generator().manual_seed(seed)
        mixtures = torch.softmax(2 * torch.randn(size, 5, generator=draw), dim=1)
        points = mixtures @ torch.randn(5, 10, generator=draw)
        nearly = points * (1 + 1e-7 * torch.randn(size, 10, generator=draw))
        assert not torch.equal(points, nearly)
        one, other = (solve(values, k, seed=0).indices.tolist() for values in (points, nearly))
        assert one == other
