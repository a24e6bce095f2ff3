"""Python enters compiled code by two modules, and is handed what one of them finds."""

import ast
from pathlib import Path

import numpy as np
import pytest
import torch

from fedcore.coreset.medoids import kernels
from fedcore.coreset.medoids.layout import index_of, layout_of, nearest, rows_of
from fedcore.coreset.medoids.problem import Problem
from fedcore.coreset.metric import Euclidean, gradient_error, pair_distances, relative

FOLDER = Path(kernels.__file__).parent


def compiled_functions(path):
    return {
        node.name
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef)
        and any(getattr(mark, "id", "") in ("compiled", "inlined") for mark in node.decorator_list)
    }


def test_nobody_else_calls_compiled_functions():
    compiled = {path.stem: compiled_functions(path) for path in FOLDER.glob("*.py")}
    plain = [path for path in FOLDER.glob("*.py") if not compiled[path.stem]]
    for path in plain:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module:
                names = {alias.name for alias in node.names}
                entered = names & compiled.get(node.module.rpartition(".")[2], set())
                assert node.module.endswith((".kernels", ".moves")) or not entered, path


def test_what_is_given_is_handed_on():
    points = np.random.default_rng(0).normal(size=(300, 3)).astype(np.float32)
    layout = layout_of(Problem(rows_of([points]), np.ones(300, np.float32), 9, np.arange(9)))
    queries, index = np.arange(64), index_of(layout.rows, np.arange(300))
    found = np.empty((64, 5), np.int32), np.empty((64, 5), np.float32)
    kernels.nearest_by_leaves(layout.rows, queries, index, found, True)
    handed = nearest(layout.rows, queries, index, 5, keep_own=True)
    np.testing.assert_array_equal(found, handed)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize(("count", "width"), [(7, 1), (90, 5), (300, 130), (4, 0)])
def test_what_an_answer_is_worth_is_what_tensors_say(count, width, kind):
    draw = np.random.default_rng(count)
    points = (draw.normal(size=(count, width)) + 3).astype(kind)
    chosen = np.sort(draw.choice(count, count // 2, replace=False))
    assignment = np.append(np.arange(len(chosen)), draw.integers(len(chosen), size=count))[:count]
    served = chosen[assignment]
    space = object.__new__(Euclidean)
    space.factors, space.bias = (torch.from_numpy(points),), False
    total, gap, whole, length = kernels.measured(points, served)
    pairs = pair_distances(space, torch.arange(count), torch.from_numpy(served))
    assert total == pytest.approx(float(pairs.sum()), rel=1e-12)
    assert length == pytest.approx(np.linalg.norm(points.astype(np.float64), axis=1).mean())
    weights = torch.from_numpy(np.bincount(assignment, minlength=len(chosen)))
    error = gradient_error(space, torch.from_numpy(chosen), weights)
    assert relative(gap, whole, length, count) == pytest.approx(error, rel=1e-9)


def test_gradients_that_cancel_are_held_against_their_mean_length():
    points = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 3.0], [0.0, -3.0]])
    total, gap, whole, length = kernels.measured(points, np.array([0, 0, 2, 2]))
    # Differences: (-2, 0) and (0, -6); everything sums to 0, and the mean length is 2.
    assert (total, gap, whole, length) == (8.0, pytest.approx(40**0.5), 0.0, 2.0)
    assert relative(gap, whole, length, 4) == pytest.approx(40**0.5 / 2)
