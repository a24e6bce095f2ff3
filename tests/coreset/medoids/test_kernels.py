"""Python enters compiled code by one module, and that hands on what it is given."""

import ast
from pathlib import Path

import numpy as np

from fedcore.coreset.medoids import kernels, moves
from fedcore.coreset.medoids.layout import build_lists, layout_of, rows_of
from fedcore.coreset.medoids.problem import Problem
from fedcore.coreset.medoids.sparse import new_state

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
                assert node.module.endswith(".kernels") or not entered, path


def test_what_is_given_is_handed_on():
    points = np.random.default_rng(0).normal(size=(300, 3)).astype(np.float32)
    layout = layout_of(Problem(rows_of([points]), np.ones(300, np.float32), 9, np.arange(9)))
    known = build_lists(layout, 12, None)
    states = [new_state(np.arange(300) < 9, layout.weights, layout.far) for _ in range(2)]
    assert kernels.settle(known, states[0]) == moves.settle(known, states[1])
    np.testing.assert_array_equal(states[0].near, states[1].near)
