"""FedCore on full gradients, as appendix A.1 states it, and the theorem's bound beside it."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedcore import plugins
from fedcore.coreset.api import select_coreset
from fedcore.errors import BadOption
from fedcore.theory.constants import Constants
from fedcore.theory.problem import Part, Problem
from fedcore.types import ClientProfile
from fedcore.values import above_zero

Floats = NDArray[np.float64]
Budgets = list[list[int]]  # samples of each client's epochs: m^i all, b^i a coreset, 0 no step


class Bound(NamedTuple):
    """A bound and the runs it is about, at every synchronisation from t = 0."""

    paper: Constants  # D and ε: the largest met
    corrected: Constants  # D and ε: roots of mean squares, at the worst step
    budgets: Budgets
    distance: Floats  # [R + 1, paths] ||w - w_*||²
    gap: Floats  # [R + 1, paths] L(w) - L(w_*)
    curves: Floats  # [3, R + 1] bounds on the mean: recursion, corrected, the paper's


def budgets_of(problem: Problem, speeds: Sequence[float], deadline: float, epochs: int) -> Budgets:
    """What the strategy ``fedcore`` plans for every client, epoch by epoch."""
    plan, found = plugins.load("strategy", "fedcore").build().plan, []
    for part, speed in zip(problem.clients, speeds, strict=True):
        size = len(part.inputs)
        phases = plan(ClientProfile(size, speed), deadline, epochs).phases
        each = ((p.coreset.budget if p.coreset else size, p.epochs) for p in phases)
        own = [budget for budget, times in each for _ in range(times)]
        found.append((own + epochs * [0])[:epochs])
    return found


def part_of(part: Part, budget: int) -> Part | None:
    """Everything, nothing, or the k-medoids of the inputs, the same in all rounds (section 4.3)."""
    if budget in (0, len(part.inputs)):
        return part if budget else None
    chosen = select_coreset(part.inputs, budget)
    weights = chosen.weights.double() / len(part.inputs)
    return Part(part.inputs[chosen.indices], part.targets[chosen.indices], weights)


def run(
    problem: Problem, budgets: Budgets, steps: Floats, draws: NDArray[np.int_], track: Any = iter
) -> tuple[Tensor, Tensor]:
    """All clients step from 0 by η_t of ``steps`` [R, E]; ``draws`` [paths, R, K] are averaged."""
    mean, largest = torch.zeros(2, 3).double()
    pairs = list(zip(problem.clients, budgets, strict=True))
    parts = [{size: part_of(part, size) for size in set(own)} for part, own in pairs]
    models = [torch.zeros(len(draws), *problem.shape).double()]
    for number, etas in enumerate(track(steps.tolist())):
        local = [models[-1]] * len(pairs)
        for epoch, eta in enumerate(etas):
            norms = []
            for i, (everything, own) in enumerate(pairs):
                exact = taken = problem.gradient(everything, local[i])
                part = parts[i][own[epoch]]
                if part is not everything:
                    taken = 0 * exact if part is None else problem.gradient(part, local[i])
                norms.append(torch.stack([exact, taken, exact - taken]).square().sum((-2, -1)))
                local[i] = local[i] - eta * taken
            squares = torch.stack(norms)  # [clients, 3, paths]
            mean = torch.maximum(mean, problem.shares @ squares.mean(2))
            largest = torch.maximum(largest, squares.amax((0, 2)))
        drawn = torch.from_numpy(draws[:, number].T)
        models.append(torch.stack(local)[drawn, torch.arange(len(draws))].mean(0))
    # [R + 1, paths, p, c]; norms of G, g and G - g [2, 3]: worst root of a mean square, largest
    return torch.stack(models), torch.stack([mean, largest]).sqrt()


def bound(
    problem: Problem,
    speeds: Sequence[float],
    deadline: float,
    *,
    epochs: int = 10,
    rounds: int = 50,
    clients_per_round: int = 10,
    paths: int = 5,
    seed: int = 0,
    track: Any = iter,
) -> Bound:
    """Run full-gradient FedCore on a convex problem, and put the theorem's bound beside it.

    Client i trains c^i of ``speeds`` samples a second; whom τ, the ``deadline``, is too short for
    trains on a coreset. ``paths`` differ in who is drawn; ``track`` is as rich's.
    """
    if len(speeds) != len(problem.clients):
        raise BadOption(f"speeds must be {len(problem.clients)}, one a client, got {len(speeds)}")
    for number in (*speeds, deadline, problem.convexity, epochs, rounds, clients_per_round, paths):
        above_zero("each of speeds, deadline, l2, epochs, rounds, clients_per_round, paths", number)
    optimum = problem.minimiser(problem.everybody)
    own = [float(problem.value(part, problem.minimiser(part))) for part in problem.clients]
    least, shares = problem.value(problem.everybody, optimum), problem.shares.numpy()
    gamma = max(float(least) - float(np.dot(shares, own)), 0.0)
    known, start = (problem.smoothness, problem.convexity), float(optimum.square().sum())
    of = Constants(*known, 0.0, gamma, 0.0, start, epochs, clients_per_round)
    steps = of.step(np.arange(rounds * epochs).reshape(rounds, epochs))
    budgets = budgets_of(problem, speeds, deadline, epochs)
    size = paths, rounds, clients_per_round
    draws = np.random.default_rng(seed).choice(len(shares), size, p=shares)
    models, norms = run(problem, budgets, steps, draws, track)
    usual, most = (of._replace(gradient=max(row[:2]), error=row[2]) for row in norms.tolist())
    distance = (models - optimum).square().sum((-2, -1)).numpy()
    gap = torch.stack([problem.value(problem.everybody, w) for w in models]) - least
    t = epochs * np.arange(rounds + 1)
    closed = usual.distance_bound(t), most.distance_bound(t, corrected=False)
    curves = np.array([usual.recursion(rounds), *closed])
    return Bound(most, usual, budgets, distance, gap.numpy(), curves)
