import numpy as np
import pytest
import torch

pytest.importorskip("sklearn")

from sklearn.linear_model import LogisticRegression

from fedcore.errors import BadData
from fedcore.theory import Problem, logistic, ridge


def draw(seed, sizes=(7, 12, 30), features=4, classes=3):
    """Clients whose inputs and models differ."""
    generator = np.random.default_rng(seed)
    clients = []
    for size in sizes:
        x = generator.normal(generator.normal(0, 1, features), 1, (size, features))
        y = (x @ generator.normal(0, 1, (features, classes))).argmax(1)
        clients.append((x, y))
    return clients


def margins(clients, l2):
    """A loss of the user's own: log(1 + exp(-y z)), y = ±1, whose curvature is at most 1/4."""
    signs = [(x, 2.0 * (y == 0) - 1) for x, y in clients]
    return Problem(signs, lambda z, y: torch.log1p(torch.exp(-y * z)).sum(-1), 0.0, 0.25, l2)


PROBLEMS = {
    "logistic": lambda seed: logistic(draw(seed), 0.05),
    "ridge": lambda seed: ridge([(x, x.sum(1) + y) for x, y in draw(seed)], 0.05),
    "own": lambda seed: margins(draw(seed), 0.05),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_derivatives_are_those_of_the_value(name):
    problem = PROBLEMS[name](0)
    generator = torch.Generator().manual_seed(0)
    w = torch.randn(*problem.shape, generator=generator, dtype=torch.float64)
    part = problem.clients[1]._replace(weights=torch.linspace(0.1, 2, 12).double() / 12.6)
    of = lambda w: problem.value(part, w)  # noqa: E731
    assert torch.allclose(problem.gradient(part, w), torch.func.grad(of)(w))
    second = torch.func.jacrev(torch.func.jacrev(of))(w).reshape(w.numel(), -1)
    assert torch.allclose(problem.hessian(part, w), second)
    several = torch.stack([w, 2 * w])
    each = torch.stack([problem.gradient(part, w), problem.gradient(part, 2 * w)])
    assert torch.allclose(problem.gradient(part, several), each)
    values = torch.stack([problem.value(part, w), problem.value(part, 2 * w)])
    assert torch.allclose(problem.value(part, several), values)


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("seed", range(5))
def test_no_second_derivative_leaves_what_smoothness_and_convexity_allow(name, seed):
    problem = PROBLEMS[name](seed)
    generator = torch.Generator().manual_seed(seed)
    for scale in (0.0, 0.1, 1.0, 10.0):
        w = scale * torch.randn(*problem.shape, generator=generator, dtype=torch.float64)
        for part in problem.clients:
            values = torch.linalg.eigvalsh(problem.hessian(part, w))
            assert values[0] >= problem.convexity * (1 - 1e-9)
            assert values[-1] <= problem.smoothness * (1 + 1e-9)


def test_the_convexity_of_logistic_regression_is_its_regulariser_and_no_more():
    """Adding one vector to all classes changes no loss."""
    problem = logistic(draw(0), 0.05)
    same = torch.ones(problem.shape).double().flatten() / problem.shape[0] ** 0.5
    w = torch.randn(*problem.shape, dtype=torch.float64)
    curved = problem.hessian(problem.clients[0], w) @ same
    assert problem.convexity == 0.05
    assert torch.allclose(curved, 0.05 * same)


def test_a_ridge_s_constants_are_exact():
    problem = ridge([(np.diag([3.0, 1.0]), [1.0, 2.0])], 0.5)
    assert problem.smoothness == pytest.approx(9 / 2 + 0.5)
    assert problem.convexity == pytest.approx(1 / 2 + 0.5)


def test_half_bounds_the_curvature_of_cross_entropy_and_nothing_below_it_does():
    problem = logistic([(np.eye(1), [1])], 0.0)
    w = torch.zeros(1, 2).double()
    assert torch.linalg.eigvalsh(problem.hessian(problem.clients[0], w))[-1] == pytest.approx(0.5)


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_gradient_vanishes_at_the_minimum(name):
    problem = PROBLEMS[name](1)
    for part in (problem.everybody, *problem.clients):
        assert problem.gradient(part, problem.minimiser(part)).norm() < 1e-10


def test_the_minimum_of_a_ridge_solves_the_normal_equations():
    problem = PROBLEMS["ridge"](2)
    x, y, _ = (values.numpy() for values in problem.everybody)
    exact = np.linalg.solve(x.T @ x / len(x) + 0.05 * np.eye(4), x.T @ y / len(x))
    assert problem.minimiser(problem.everybody).numpy() == pytest.approx(exact, abs=1e-9)


def test_the_minimum_of_logistic_regression_is_scikit_learn_s():
    clients = draw(3)
    problem = logistic(clients, 0.05)
    x, y = (np.concatenate(values) for values in zip(*clients, strict=True))
    other = LogisticRegression(C=1 / (len(x) * 0.05), fit_intercept=False, tol=1e-10, max_iter=5000)
    exact = other.fit(x, y).coef_.T
    assert problem.minimiser(problem.everybody).numpy() == pytest.approx(exact, abs=1e-5)


def test_newton_comes_back_from_steps_that_lead_too_far():
    """Nearly separable data with little regularisation: whole steps from 0 would not do."""
    x = np.linspace(-30, 30, 41)[:, None]
    problem = logistic([(x, (x[:, 0] > 1).astype(int))], 1e-6)
    part = problem.everybody
    assert problem.gradient(part, problem.minimiser(part)).norm() < 1e-10


def test_shares_are_those_of_samples_and_make_the_mean_of_all():
    problem = PROBLEMS["logistic"](0)
    assert problem.shares.tolist() == pytest.approx([7 / 49, 12 / 49, 30 / 49])
    w = torch.randn(*problem.shape, dtype=torch.float64)
    own = torch.stack([problem.value(part, w) for part in problem.clients])
    assert problem.value(problem.everybody, w) == pytest.approx(float(problem.shares @ own))


def test_what_cannot_be_solved_is_refused():
    with pytest.raises(BadData, match=r"has 2,001 parameters, and w_\* is solved for up to 2,000"):
        ridge([(np.ones((2, 2001)), [1.0, 2.0])])
    kinks = Problem([([[1.0], [2.0]], [0.0, 1.0])], lambda z, y: (z - y).abs().sum(-1), 0, 1)
    with pytest.raises(BadData, match=r"the gradient's norm stays at .*; see whether the loss is"):
        kinks.minimiser(kinks.everybody)


@pytest.mark.parametrize(
    ("clients", "sentence"),
    [
        ([], "clients must hold at least one client, got none"),
        ([(np.ones((2, 1)), [1.0, np.nan])], "labels of client 0 must be one array of finite"),
        ([([[1.0], [np.inf]], [1.0, 2.0])], "inputs of client 0 must be finite"),
        ([([[1.0]], [1.0]), ([[1.0, 2.0]], [1.0])], "inputs of client 1 must be .* as many as"),
        ([([[1.0], [2.0]], [1.0])], "client 0 has 2 inputs but 1 labels"),
    ],
)
def test_what_no_loss_is_of_is_refused(clients, sentence):
    with pytest.raises(BadData, match=sentence):
        ridge(clients)


def test_classes_are_whole_numbers():
    with pytest.raises(BadData, match="labels must be whole numbers, got"):
        logistic([([[1.0], [2.0]], [0.7, 1.0])])
