import numpy as np
import pytest
import torch
from torch import nn

import fedcore
from fedcore.errors import BadOption
from fedcore.theory import Constants, bound, budgets_of, logistic, part_of, ridge, run


def draw(seed=0, sizes=(40, 60, 100), features=3, classes=3):
    generator = np.random.default_rng(seed)
    clients = []
    for size in sizes:
        x = generator.normal(generator.normal(0, 1, features), 1, (size, features))
        clients.append((x, (x @ generator.normal(0, 1, (features, classes))).argmax(1)))
    return clients


def test_budgets_are_those_of_algorithm_one():
    problem = ridge([(np.ones((size, 1)), np.ones(size)) for size in (10, 20, 40, 200, 900)])
    speeds = [1, 1, 1, 1, 1]
    # τ = 60, E = 5: 10 · 5 fit; (60 - 20) / 4 = 10; (60 - 40) / 4 = 5; no pass: 60 / 5 = 12
    assert budgets_of(problem, speeds, 60, 5) == [
        [10] * 5,
        [20, 10, 10, 10, 10],
        [40, 5, 5, 5, 5],
        [12] * 5,
        [12] * 5,
    ]
    # not one sample an epoch after the pass; one sample, for as long as it lasts
    assert budgets_of(problem, speeds, 22, 5)[1:3] == [[20, 0, 0, 0, 0], [4] * 5]
    assert budgets_of(problem, speeds, 3, 5)[2] == [1, 1, 1, 0, 0]


def test_a_coreset_s_weights_sum_to_one():
    part = ridge([(np.random.default_rng(0).normal(size=(30, 2)), np.ones(30))]).clients[0]
    assert part_of(part, 30) is part
    assert part_of(part, 0) is None
    chosen = part_of(part, 4)
    assert chosen.inputs.shape == (4, 2)
    assert float(chosen.weights.sum()) == pytest.approx(1)


@pytest.mark.parametrize("deadline", [500.0, 140.0, 52.0])  # E passes fit; one; none
def test_a_run_with_the_schedule_s_options_takes_the_same_steps(deadline):
    """``fedcore.simulate`` with whole batches against the theory's own loop, steps held."""
    l2, epochs, rounds = 0.1, 5, 4
    # Ten clouds for ten medoids: whatever the solver begins with, it ends with the same coreset.
    generator = np.random.default_rng(0)
    x = np.repeat(generator.normal(0, 3, (10, 3)), 10, axis=0) + generator.normal(0, 0.3, (100, 3))
    y = (x @ generator.normal(0, 1, (3, 3))).argmax(1)
    problem = logistic([(x, y)], l2)
    of = Constants(problem.smoothness, problem.convexity, 0, 0, 0, 0, epochs, 1)
    model = nn.Linear(3, 3, bias=False).double()
    nn.init.zeros_(model.weight)
    history = fedcore.simulate(
        [(x, y)],
        model,
        strategy="fedcore",
        rounds=rounds,
        epochs=epochs,
        batch_size=100,
        clients_per_round=1,
        weight_decay=l2,
        capability="equal",
        deadline=deadline,
        executor="sequential",
        **of.schedule(),
    )
    steps = np.repeat(of.step(epochs * np.arange(rounds))[:, None], epochs, axis=1)
    budgets = budgets_of(problem, [1.0], deadline, epochs)
    models, _ = run(problem, budgets, steps, np.zeros((1, rounds, 1), dtype=np.int64))
    assert torch.allclose(history.params["weight"], models[-1, 0].T, rtol=1e-6, atol=1e-8)


def test_a_bound_from_python_on_a_problem_of_one_s_own():
    problem, speeds = logistic(draw(), l2=0.1), [1.0, 0.5, 0.2]
    rounds = []

    def track(steps):
        for number, step in enumerate(steps):
            rounds.append(number)
            yield step

    found = bound(
        problem, speeds, 300, epochs=4, rounds=30, clients_per_round=2, paths=3, track=track
    )
    assert rounds == list(range(30))
    assert found.budgets == [[40] * 4, [60, 30, 30, 30], [15] * 4]
    assert found.distance.shape == found.gap.shape == (31, 3)
    of = found.corrected
    optimum = problem.minimiser(problem.everybody)
    assert of.distance == pytest.approx(float(optimum.square().sum()))
    assert (found.distance[0] == found.distance[0, 0]).all()
    assert 0 < of.error < found.paper.error
    assert 0 < of.gradient < found.paper.gradient
    assert (found.distance.mean(1) <= found.curves[0]).all()
    assert (found.curves[0] <= found.curves[1]).all()
    assert (found.curves[1] <= found.curves[2]).all()
    assert (found.gap >= -1e-12).all()
    assert found.curves[0].tolist() == of.recursion(30)
    assert found.curves[1, 30] == of.distance_bound(120)
    assert found.curves[2, 30] == found.paper.distance_bound(120, corrected=False)


def test_without_stragglers_there_is_no_error():
    found = bound(ridge(draw()), [1.0] * 3, 1e6, epochs=3, rounds=3, clients_per_round=2)
    assert found.paper.error == found.corrected.error == 0
    assert found.corrected.a_1_and_a_2()[0] == 0


def test_the_rate_where_the_theorem_s_steps_have_room_to_fall():
    """Two clients that pull with ±1, K = 1: noise that goes as 1 / t, exactly known."""
    problem = ridge([([[1.0]], [1.0]), ([[1.0]], [-1.0])], 1.0)
    of = {"epochs": 1, "rounds": 400, "clients_per_round": 1, "paths": 4000}
    found = bound(problem, [1.0, 1.0], 100, **of)
    exact = [0.0]
    for t in range(400):
        eta = found.corrected.step(t)
        exact.append((1 - 2 * eta) ** 2 * exact[-1] + eta**2)
    assert np.allclose(found.distance.mean(1)[1:], exact[1:], rtol=0.15)
    later = np.arange(200, 401)
    slope = np.polyfit(np.log(later), np.log(np.array(exact)[later]), 1)[0]
    assert slope == pytest.approx(-1, abs=0.05)
    assert (exact <= found.curves[0]).all()


def test_refusals():
    problem = ridge(draw())
    with pytest.raises(BadOption, match="speeds must be 3, one a client, got 2"):
        bound(problem, [1.0, 1.0], 10)
    with pytest.raises(
        BadOption, match=r"each of speeds, deadline, l2, .* must be above 0, got -1"
    ):
        bound(problem, [1.0, 1.0, -1.0], 10)
    with pytest.raises(BadOption, match=r"paths must be above 0, got 0"):
        bound(problem, [1.0] * 3, 10, paths=0)
    with pytest.raises(BadOption, match=r"l2, .* must be above 0, got 0"):
        bound(logistic(draw(), l2=0.0), [1.0] * 3, 10)
