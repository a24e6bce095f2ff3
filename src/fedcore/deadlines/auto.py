"""Ours: the deadline that promises the most progress per second, by speeds and links seen.

A round of τ seconds has client i train on n^i(τ) = c^i (τ - s^i) samples, at most E m^i, at least
none. Rounds to an accuracy were measured to go like 1 + n0 / n, with n0 a few steps of a batch: a
round brings n / (n + n0), linear at first, and little more after that. So with all who answered,

    τ = argmin τ / mean_i n^i(τ) / (n^i(τ) + n0),   n0 = κ B

over a grid of 1 % steps, and the deadline moves towards it. With equal clients and links that is
s + √(s n0 / c): the geometric mean of sending and n0 samples, beside the sending (docs/adr/0016).
"""

import numpy as np

from fedcore.server.controller import Controller, Seen
from fedcore.values import above_zero

STEP = 1.01  # from one deadline that is looked at to the next
MOST = 1000  # clients that are looked at


def build(*, steps: float = 16.0, batch_size: int = 8) -> Controller:
    """``steps`` is κ, the local steps that bring half of what a round can bring."""
    above_zero("steps", steps)
    half = steps * batch_size

    def aim(seen: Seen) -> tuple[float, str]:
        some = slice(None, None, 1 + len(seen.samples) // MOST)
        speeds, transfers, samples = seen.speeds[some], seen.transfers[some], seen.samples[some]
        # Half of them do n0 / 8 at least: with less no more than a ninth of the time is gained.
        least, longest = np.median(transfers + half / 8 / speeds), seen.seconds(seen.epochs).max()
        count = 1 + np.ceil(np.log(max(1, longest / least)) / np.log(STEP))
        looks = least * STEP ** np.arange(count)
        work = np.clip((looks[:, None] - transfers) * speeds, 0, seen.epochs * samples)
        wanted = float(looks[np.argmax((work / (work + half)).mean(axis=1) / looks)])
        return seen.towards(wanted), f"most progress per second of {len(speeds)} at {wanted:.4g} s"

    return Controller(aim)
