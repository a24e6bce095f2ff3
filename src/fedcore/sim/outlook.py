"""What a deadline means for a fleet, by arithmetic; how long a run needs, by its first rounds."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from fedcore.config import Experiment
from fedcore.types import ClientProfile, LocalPlan

RETURNS = 0.5  # a client that takes the share x of its E·m samples' steps moves a round by x^0.5
EXPONENTS = np.geomspace(0.25, 4, 17)  # p that are tried
FEWEST = 5  # rounds to fit three numbers to
SPREAD = 0.25  # s of the logarithm of a run's time, as if two runs had shown it
WITHIN = 1.28  # deviations that hold 80 %
Curve = tuple[Sequence[float], float]  # a run: accuracies after its rounds, a round's mean seconds
NEVER = math.inf, math.inf


@dataclass(frozen=True, slots=True)
class Outlook:
    """What is known of a deadline: a row of the table, its titles the names."""

    deadline: float  # seconds
    of_tau: float  # how many of τ it has beside the time of sending
    slow: float  # share of clients that cannot do E epochs on everything in time
    rounds_per_hour: float  # in the mean over cohorts
    coresets: tuple[float, ...]  # quartiles of their sizes, if there are any
    sending: float  # share of a drawn client's round, as the next three
    on_all: float
    on_coresets: float
    waiting: float
    time: float  # of a further run to the target; untried, that of a round over its worth
    within: float = 1.0  # 80 % of runs lie within this factor of it
    tried: int = 0  # rounds


def outlook(
    deadline: float,
    of_tau: float,
    profiles: Iterable[ClientProfile],
    plan: Callable[[ClientProfile, float, int], LocalPlan],
    experiment: Experiment,
    model_bytes: int,
) -> Outlook:
    """The arithmetic of one deadline, for these clients under a strategy's ``plan``."""
    epochs, rows = experiment.epochs, []
    for one in profiles:
        size, sending = one.num_samples, one.transfer_seconds(model_bytes)
        planned = plan(one, max(0.0, deadline - sending), epochs)
        work = planned.work(size)
        whole = sum(phase.work(size) for phase in planned.phases if phase.coreset is None)
        sets = [phase.coreset.budget for phase in planned.phases if phase.coreset is not None]
        late = one.seconds(epochs * size, model_bytes) > deadline
        share = min(1.0, planned.step_scale * planned.trained(size) / (epochs * size))
        parts = sending * (work > 0), whole / one.capability, (work - whole) / one.capability
        rows.append((size, late, share**RETURNS, sets[0] if sets else 0, *parts))
    sizes, late, worths, budgets, *times = np.array(rows, float).T
    chance = sizes if experiment.selection == "proportional" else np.ones_like(sizes)
    chance, seconds = chance / chance.sum(), np.sum(times, axis=0)
    order = np.argsort(seconds)
    # The longest of K draws is at most the k-th shortest with probability (Σ_{j<=k} p_j)^K.
    within = np.cumsum(chance[order]) ** experiment.clients_per_round
    length = max(float(seconds[order] @ np.diff(within, prepend=0.0)), 1e-9)
    spent = np.array([chance @ part for part in times]) / length
    chosen = budgets[budgets > 0]
    quartiles = tuple(np.percentile(chosen, (25, 50, 75)).tolist()) if len(chosen) else ()
    sending, whole, cores = spent.tolist()
    worth, waiting = float(chance @ worths), max(0.0, 1 - float(spent.sum()))
    known = float(late.mean()), 3600 / length, quartiles, sending, whole, cores, waiting
    return Outlook(deadline, of_tau, *known, length / worth if worth else np.inf)


def rounds_to(target: float, accuracies: Sequence[float]) -> tuple[float, float]:
    """Mean and variance of log r, r the first round with an accuracy of ``target``.

    It is known where it was seen. Else the best accuracy so far, after a quarter of the rounds, is
    taken for a - b r^-p, with a, b of least squares S for each p, and p as likely as S^(-n/2).
    Infinite where most of these end below the target.
    """
    best = np.maximum.accumulate(accuracies)
    if best[-1] >= target:
        return math.log(1 + int(np.argmax(best >= target))), 0.0
    skip = len(best) // 4
    if len(best) < FEWEST or best[-1] == best[skip]:
        return NEVER
    y, x = best[skip:], np.arange(skip + 1.0, len(best) + 1) ** -EXPONENTS[:, None]
    away = x - x.mean(axis=1, keepdims=True)
    fall = -(away @ y) / np.square(away).sum(axis=1)
    end = y.mean() + fall * x.mean(axis=1)
    squares = np.square(y - end[:, None] + fall[:, None] * x).sum(axis=1) + 1e-9
    there = (target < end) & (end <= 1)
    chances = (squares / squares.min()) ** (-len(y) / 2)
    if chances[there].sum() <= chances.sum() / 2:
        return NEVER
    logs = np.log(fall[there] / (end[there] - target)) / EXPONENTS[there]
    logs = np.maximum(logs, math.log(len(best) + 1))
    mean = np.average(logs, weights=chances[there])
    return float(mean), float(np.average((logs - mean) ** 2, weights=chances[there]))


def time_to(target: float, curves: Sequence[Curve]) -> tuple[float, float]:
    """Seconds of a further run to ``target``, and the factor within which 80 % of such runs lie.

    A run whose log time has the variance v by its fit counts as 1 / (s² + v), s² between seeds.
    """
    ahead = [(*rounds_to(target, seen), seconds) for seen, seconds in curves if seconds > 0]
    known = [(mean + math.log(s), v) for mean, v, s in ahead if mean < math.inf]
    if not known:
        return NEVER
    logs, variances = np.array(known).T
    weights = 1 / (SPREAD**2 + variances)
    mean = np.average(logs, weights=weights)
    between = (2 * SPREAD**2 + np.square(logs - mean).sum()) / (len(logs) + 1)
    return math.exp(mean), math.exp(WITHIN * math.sqrt(between + 1 / weights.sum()))
