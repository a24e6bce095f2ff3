"""Python enters compiled code by one module, and that hands on what it is given."""

import ast
from pathlib import Path

import numpy as np

from fedcore.coreset.medoids import hashing, kernels, spatial

FOLDER = Path(kernels.__file__).parent
WITH_A_CLOCK = {"assign_all", "clusters_of", "costs_alone", "finish", "sweep"}  # of the exact path


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
                assert node.module.endswith(".kernels") or entered <= WITH_A_CLOCK, path


def test_what_is_given_is_handed_on():
    points = np.random.default_rng(0).normal(size=(300, 3)).astype(np.float32)
    assert kernels.spatial_order(points).tolist() == spatial.spatial_order(points).tolist()
    keys, factors = np.zeros((2, 3, 300), np.int64), np.array([3, 5, 7])
    kernels.add_words(keys[0], points, factors)
    hashing.add_words_compiled(keys[1], points, factors)
    np.testing.assert_array_equal(keys[0], keys[1])
