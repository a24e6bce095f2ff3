"""Random small problems, followed over all draws there are: for tests of the lemmas, and ``loose``.

Three clients have a quarter, a quarter and half of the samples. A draw by p^i is then one of four
equally likely quarters, paths of R rounds are 4^(K R) = 256 equally likely ones, and means over all
of them are expectations, exactly. ``Steps`` is FedCore once more, by the appendix's equations.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product

import numpy as np
import torch
from numpy.typing import NDArray

from fedcore.theory import Budgets, Constants, Floats, Problem, logistic, part_of, ridge, run

QUARTERS = np.array([0, 1, 2, 2])
SHARES = np.array([1 / 4, 1 / 4, 1 / 2])
SIZES = [(2, 2), (1, 4), (4, 1)]  # K and R


def every_path(clients: int, rounds: int) -> NDArray[np.int_]:
    """All draws [256, R, K], in the order in which the last ones change first."""
    drawn = np.array(list(product(range(4), repeat=clients * rounds)))
    return np.asarray(QUARTERS[drawn].reshape(-1, rounds, clients))


def draw_problem(seed: int) -> tuple[Problem, Budgets, int]:
    """A logistic or ridge regression whose clients differ, and how much of it each epoch sees."""
    generator = np.random.default_rng(seed)
    features, epochs = int(generator.integers(1, 4)), int(generator.integers(1, 6))
    spread = generator.uniform(0, 2)
    clients = []
    for size in (8, 8, 16):
        centre, slope = generator.normal(0, spread, (2, features))
        x = generator.normal(centre, 1, (size, features))
        clients.append((x, x @ slope + generator.normal(0, 0.3, size)))
    l2 = float(generator.uniform(0.05, 1))
    if seed % 2:
        problem = ridge(clients, l2)
    else:
        middle = np.median(np.concatenate([y for _, y in clients]))
        problem = logistic([(x, (y > middle).astype(int)) for x, y in clients], l2)
    budgets = [epochs * [8]]
    for size in (8, 16):  # one full epoch or none, then a coreset or nothing
        first = int(generator.integers(2)) * [size]
        budget = int(generator.choice([0, 1, 2, size // 2]))
        budgets.append((first + epochs * [budget])[:epochs])
    return problem, budgets, epochs


class Steps:
    """w_t^i, v_{t+1}^i, G_t^i and g_t^i of all paths and steps: appendix A.1."""

    def __init__(
        self, problem: Problem, budgets: Budgets, etas: Floats, draws: NDArray[np.int_]
    ) -> None:
        """Take all steps."""
        epochs = len(budgets[0])
        self.w: list[Floats] = []
        self.v: list[Floats] = []
        self.full: list[Floats] = []
        self.taken: list[Floats] = []
        w = np.zeros((len(problem.clients), len(draws), *problem.shape))
        pairs = zip(problem.clients, budgets, strict=True)
        parts = [{size: part_of(part, size) for size in set(own)} for part, own in pairs]
        for t, eta in enumerate(etas):
            full, taken = np.zeros_like(w), np.zeros_like(w)
            for i, part in enumerate(problem.clients):
                seen = parts[i][budgets[i][t % epochs]]
                models = torch.tensor(w[i])
                full[i] = problem.gradient(part, models).numpy()
                if seen is not None:
                    taken[i] = problem.gradient(seen, models).numpy()
            v = w - eta * taken
            self.w.append(w)
            self.v.append(v)
            self.full.append(full)
            self.taken.append(taken)
            w = v
            if (t + 1) % epochs == 0:
                chosen = draws[:, (t + 1) // epochs - 1]
                means = [v[own, at].mean(0) for at, own in enumerate(chosen)]
                w = np.broadcast_to(np.stack(means), v.shape)
        self.w.append(w)
        shares = problem.shares.numpy()
        self.bar_w = [np.einsum("i,i...->...", shares, w) for w in self.w]
        self.bar_v = [np.einsum("i,i...->...", shares, v) for v in self.v]


def square(values: Floats) -> Floats:
    """||.||² of the last two axes."""
    return np.asarray((values**2).sum((-2, -1)))


class Case:
    """A random problem with everything about it."""

    def __init__(self, seed: int) -> None:
        """Draw it, and follow all paths by both loops."""
        self.problem, self.budgets, self.epochs = draw_problem(seed)
        self.clients, self.rounds = SIZES[seed % len(SIZES)]
        self.paths = every_path(self.clients, self.rounds)
        problem = self.problem
        self.optimum = problem.minimiser(problem.everybody)
        own = [float(problem.value(part, problem.minimiser(part))) for part in problem.clients]
        gamma = float(problem.value(problem.everybody, self.optimum)) - float(SHARES @ own)
        start = float(self.optimum.square().sum())
        known = problem.smoothness, problem.convexity, 0.0, max(gamma, 0.0), 0.0, start
        self.known = Constants(*known, self.epochs, self.clients)
        self.etas: Floats = self.known.step(np.arange(self.rounds * self.epochs))
        self.times = self.epochs * np.arange(self.rounds + 1)
        self.steps = Steps(self.problem, self.budgets, self.etas, self.paths)
        table = self.etas.reshape(self.rounds, self.epochs)
        self.models, self.norms, self.paper, self.corrected = self.run(table)

    def run(self, table: Floats) -> tuple[Floats, Floats, Constants, Constants]:
        """The package's loop, and the constants of the paper and corrected that it finds."""
        models, norms = run(self.problem, self.budgets, table, self.paths)
        corrected, paper = (
            self.known._replace(gradient=max(full, core), error=error)
            for full, core, error in norms.tolist()
        )
        return models.numpy(), norms.numpy(), paper, corrected

    def distances(self, models: Iterable[Floats]) -> Floats:
        """E||. - w_*||² for each of a list."""
        return np.array([square(w - self.optimum.numpy()).mean() for w in models])

    def synchronisations(self) -> Iterator[tuple[int, Floats, Floats, Floats]]:
        """(t, w̄_{t+1}, v̄_{t+1}, v^i_{t+1}), draws of that round on the second axis of paths."""
        for r in range(self.rounds):
            t = (r + 1) * self.epochs - 1
            split = 4 ** (self.clients * r), 4**self.clients, -1, *self.problem.shape
            v = self.steps.v[t].reshape(3, *split)
            yield t, self.steps.bar_w[t + 1].reshape(split), self.steps.bar_v[t].reshape(split), v


def kappa(of: Constants) -> float:
    """(1 + (E - 1) / β)², in place of 4."""
    return (1 + (of.epochs - 1) / of.beta()) ** 2


def variance_bounds(of: Constants, t: int) -> tuple[float, float]:
    """Of Lemma A.9, for E||w̄_{t+1} - v̄_{t+1}||²: with the paper's 4, and with κ."""
    each = float(of.step(t) * of.epochs * of.gradient) ** 2 / of.clients
    return 4 * each, kappa(of) * each


def step_bounds(case: Case) -> Floats:
    """Of Lemma A.10 with the corrected constants, for E||v̄_{t+1} - w_*||² at every step."""
    of = case.corrected
    a_4 = of.a_5(kappa(of)) - kappa(of) * (of.epochs * of.gradient) ** 2 / of.clients
    keep, rest = (3 / 4, 4 * of.error**2 / of.convexity) if of.error else (1.0, 0.0)
    before = case.distances(case.steps.bar_w[:-1])
    fallen = (1 - keep * case.etas * of.convexity) * before
    return np.asarray(fallen + case.etas * rest + case.etas**2 * a_4)
