"""How long a run will need: the accuracies of its first rounds, and a power law through them."""

import math
from collections.abc import Sequence

import numpy as np

EXPONENTS = np.geomspace(0.25, 4, 17)  # p that are tried
FEWEST = 5  # rounds to fit three numbers to
SPREAD = 0.25  # s of the logarithm of a run's time, as if two runs had shown it
WITHIN = 1.28  # deviations that hold 80 %
Curve = tuple[Sequence[float], float]  # a run: accuracies after its rounds, a round's mean seconds
NEVER = math.inf, math.inf


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
