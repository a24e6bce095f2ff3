"""The solver's contract, on any path: what a caller may rely on."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

pytest.importorskip("hypothesis")
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from plain_medoids import exhaustive

import fedcore
from fedcore.coreset.medoids.solve import path_for, solve
from fedcore.coreset.metric import Euclidean, OuterProduct

PATHS = ["exact", "sparse", "sampled", "torch"]
RNG = np.random.default_rng(0)


def weights_of(answer):
    """How many points each medoid serves."""
    return np.bincount(answer.assignment, minlength=len(answer.indices))


def distances_of(points):
    wide = np.asarray(points, np.float64)
    return np.linalg.norm(wide[:, None] - wide[None], axis=2)


def check(points, k, answer):
    count = len(points)
    distances = distances_of(points)[:, answer.indices]
    assert answer.indices.tolist() == sorted(set(answer.indices.tolist()))
    assert len(answer.indices) == min(k, count)
    assert answer.assignment.shape == (count,)
    assert (weights_of(answer) > 0).all()
    assert weights_of(answer).sum() == count
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
        return merged.tolist(), np.bincount(inverse.reshape(-1), weights_of(answer)).tolist()

    assert summary(points, one) == summary(points[order], other)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("k", [1, 2, 4, 7])
def test_tiny_problems_are_solved_within_a_swap_of_the_best(path, k):
    points = np.random.default_rng(k).normal(size=(8, 2))
    best = exhaustive(distances_of(points), k)[1]
    found = min(solve(points, k, seed=seed, path=path).objective for seed in range(10))
    assert found == pytest.approx(best, rel=1e-5)


@pytest.mark.parametrize("path", PATHS)
def test_equal_points_cost_nothing(path):
    answer = solve(np.ones((30, 4)), 3, path=path)
    assert answer.objective == 0.0
    assert weights_of(answer).sum() == 30


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
        ({"space": np.zeros(4), "k": 1}, "matrix"),
        ({"space": np.full((4, 3), np.inf), "k": 1}, "finite"),
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


@pytest.mark.parametrize(
    ("count", "k", "path"),
    [
        (700, 20, "exact"),
        (701, 20, "sparse"),
        (4096, 100, "exact"),
        (4097, 100, "sampled"),
        (10_000, 1, "exact"),
        (10_001, 1, "sampled"),
    ],
)
def test_the_answer_names_its_path(count, k, path):
    assert path_for(count, k) == path
    points = np.random.default_rng(0).normal(size=(count, 2))
    assert solve(points, k).path == path


def test_where_numba_is_missing_tensor_operations_do():
    program = """
import sys
sys.modules["numba"] = None
import numpy as np
from fedcore.coreset.medoids.solve import path_for, solve
points = np.random.default_rng(0).normal(size=(900, 5))
answer = solve(points, 90, seed=1)
assert answer.path == "torch"
print(repr(answer.objective))
"""
    here = {**os.environ, "PYTHONPATH": str(Path(fedcore.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", program], env=here, capture_output=True, text=True, check=True
    )
    points = np.random.default_rng(0).normal(size=(900, 5))
    exact = solve(points, 90, seed=1, path="exact").objective
    assert float(done.stdout) == pytest.approx(exact, rel=0.01)


@pytest.mark.parametrize(("count", "share"), [(400, 0.02), (400, 0.3), (1200, 0.05), (1200, 0.4)])
def test_the_torch_path_is_never_one_percent_above_the_exact_one(family, count, share):
    metric = family(count)
    k = max(1, int(share * len(metric)))
    exact = solve(metric, k, path="exact").objective
    assert solve(metric, k, path="torch").objective <= 1.01 * exact + 1e-12


@pytest.mark.parametrize("path", PATHS)
def test_a_medoid_serves_itself_where_squares_vanish(path):
    draw = np.random.default_rng(0)
    for _ in range(30):
        count = int(draw.integers(20, 90))
        points = draw.normal(size=(count, 10)) * 10.0 ** draw.uniform(-38, 30, size=(count, 1))
        answer = solve(points, int(draw.integers(2, count)), path=path)
        assert weights_of(answer).min() >= 1
        assert weights_of(answer).sum() == count


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("scale", [1e-40, 1e-25, 1e20, 1e37])
def test_size_does_not_matter(path, scale):
    points = np.random.default_rng(1).normal(size=(200, 3)) * scale
    answer = solve(points, 20, path=path)
    served = np.linalg.norm((points - points[answer.indices][answer.assignment]) / scale, axis=1)
    assert answer.objective / scale == pytest.approx(served.sum(), rel=1e-4)
    best = np.linalg.norm((points[:, None] - points[answer.indices][None]) / scale, axis=2).min(
        axis=1
    )
    np.testing.assert_allclose(served, best, rtol=1e-4, atol=1e-6)
    assert best.sum() < 1.03 * solve(points / scale, 20, path=path).objective


@pytest.mark.parametrize("path", PATHS)
def test_an_offset_of_float64_points_does_not_matter(path):
    points = np.random.default_rng(2).normal(size=(150, 4))
    near, far = solve(points, 15, path=path), solve(points + 1e8, 15, path=path)
    check(points, 15, far)
    assert far.objective == pytest.approx(near.objective, rel=0.02)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("width", [50, 150])
def test_an_offset_of_long_float32_points_does_not_matter(path, width):
    """Everybody has the nearest medoid, by differences of the numbers as they are."""
    points = np.random.default_rng(2).normal(size=(150, width)) + 1e6
    points = points.astype(np.float32).astype(np.float64)
    answer = solve(points.astype(np.float32), 40, path=path)
    gaps = points[:, None] - points[answer.indices][None]
    best = np.linalg.norm(gaps, axis=2).min(axis=1).sum()
    assert answer.objective == pytest.approx(best, rel=1e-4)
    assert best < 1.03 * solve(points - 1e6, 40, path=path).objective


class Clock:
    """Says that the time is up after so many looks."""

    def __init__(self, looks):
        self.left = looks

    def __call__(self):
        self.left -= 1
        return self.left < 0


@pytest.mark.parametrize(
    ("path", "count", "k"),
    [
        ("exact", 300, 30),
        ("exact", 300, 1),
        ("torch", 300, 30),
        ("sparse", 1500, 300),
        ("sparse", 1500, 60),
        ("sampled", 2500, 20),
        ("sampled", 2500, 50),
    ],
)
def test_more_time_is_never_worse_and_a_random_draw_is_the_floor(late, path, count, k):
    metric = late(count)
    full = Clock(1 << 30)
    best = solve(metric, k, path=path, over=full)
    assert best.finished
    needed = (1 << 30) - full.left
    space = metric.factors[0].double()
    before = np.inf
    for looks in sorted({0, 1, 2, 3, *np.linspace(0, needed, 12).astype(int).tolist()}):
        answer = solve(metric, k, path=path, over=Clock(looks))
        reach = torch.cdist(space, space[answer.indices])
        owned = reach[torch.arange(count), torch.from_numpy(answer.assignment)]
        # Assignment, weights and objective are those of the indices that are returned.
        assert answer.objective == pytest.approx(float(owned.sum()), rel=1e-6)
        assert float(owned.sum()) == pytest.approx(float(reach.min(dim=1).values.sum()), rel=1e-6)
        assert answer.objective <= before * (1 + 1e-6)
        before = answer.objective
    assert best.objective == pytest.approx(before, rel=1e-9)
    draws = [np.random.default_rng(seed).permutation(count)[:k] for seed in range(20)]
    mean = np.mean([float(torch.cdist(space, space[d]).min(dim=1).values.sum()) for d in draws])
    assert solve(metric, k, path=path, over=Clock(0)).objective < 1.6 * mean
    assert best.objective <= mean


def test_no_seconds_at_all_still_give_everybody_the_nearest():
    points = np.random.default_rng(0).normal(size=(5000, 6)).astype(np.float32)
    answer = solve(points, 100, seconds=0.0)
    assert not answer.finished
    check(points, 100, answer)
