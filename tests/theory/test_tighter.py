"""The benchmark that follows the loss alone takes the package's own steps."""

import numpy as np
import pytest
import torch
from benchmarks.theory.cases import every_path
from benchmarks.theory.tighter import last_model

from fedcore.theory import Constants, logistic, run


@pytest.mark.parametrize("epochs", [1, 3])
def test_it_ends_where_the_package_ends(epochs):
    draw = np.random.default_rng(epochs)
    clients = [(draw.normal(size=(m, 4)), np.arange(m) % 3) for m in (6, 9, 12)]
    problem = logistic(clients, l2=0.1)
    budgets = [[6] * epochs, ([9] + [2] * epochs)[:epochs], ([3] * epochs)[:epochs]]
    if epochs > 1:
        budgets[2][-1] = 0  # no step
    known = problem.smoothness, problem.convexity, 0.0, 0.0, 0.0, 0.0
    of, paths = Constants(*known, epochs, 2), every_path(2, 2)
    steps = of.step(np.arange(2 * epochs).reshape(2, epochs))
    models, _ = run(problem, budgets, steps, paths)
    torch.testing.assert_close(last_model(problem, budgets, of, paths), models[-1])
