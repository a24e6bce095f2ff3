"""FedBalancer's DDL-E: where most of those drawn finish per second, at 1 to E epochs.

    t^i(e) = s^i + e ceil(m^i / B) B / c^i,  DDL-E(t) = |{i drawn: t^i <= t}| / t at t = 1, 2, ...
    τ = L + r (H - L),  L = argmax DDL-E at e = 1, H = argmax at e = E

r is 1 at first. Every w rounds it falls by a step if mean(u) of the last w is less than of the w
before, u = loss / deadline, else it rises; it stays in [0, 1]. Until half of the clients or 200 are
known, τ = mean_i (t^i(E) + m^i / 2 c^i) over those: with a pass of inference, which costs half.

Source: Shin et al., "FedBalancer", MobiSys 2022: w 20, step 0.05. Departures: their n^i, the mean
of the last 5 sizes trained on, is m^i; no guard of 10 s, since here nobody fails to be in time; the
probe, by which u would be huge, and rounds of which nothing was heard are in no window.
"""

from itertools import pairwise

import numpy as np

from fedcore.server.controller import Controller, Floats, Seen
from fedcore.values import above_zero, at_least, whole_number


def build(
    *, batch_size: int = 8, window: int = 20, step: float = 0.05, grid: float = 1.0
) -> Controller:
    """``window`` is w, ``grid`` the seconds between two deadlines that are looked at."""
    whole_number("window", window, 1)
    at_least(0, 1)("step", step)
    above_zero("grid", grid)

    def best(seen: Seen, epochs: int) -> float:
        batches = np.ceil(seen.samples / batch_size) * batch_size / seen.speeds
        times = np.sort((seen.transfers + epochs * batches)[seen.drawn])
        # Between two arrivals it falls, so that the best is the first look after one of them.
        looks = np.maximum(1, np.ceil(times / grid)) * grid
        return float(looks[np.argmax(np.searchsorted(times, looks, side="right") / looks)])

    def aim(seen: Seen) -> tuple[float, str]:
        known = len(seen.samples)
        if known <= min(seen.clients / 2, 200) or not seen.drawn.any():
            return float(seen.seconds(seen.epochs + 0.5).mean()), f"mean of the {known} known"
        low, high, r = best(seen, 1), best(seen, seen.epochs), ratio(seen.rounds)
        return low + r * (high - low), f"{low:.4g} s at 1 epoch, {high:.4g} at all, r {r:g}"

    def ratio(rounds: Floats) -> float:
        deadlines, losses, count = rounds[1:][rounds[1:, 2] > 0].T
        utilities, r = losses / count / deadlines, 1.0
        means = utilities[: len(utilities) // window * window].reshape(-1, window).mean(axis=1)
        for before, last in pairwise(means):
            r = min(1.0, max(0.0, r - step if before > last else r + step))
        return r

    return Controller(aim)
