"""Ours: the deadline that promises the most progress per second, by speeds and links seen.

A round of τ seconds gives client i time for e^i(τ) = c^i (τ - s^i) / m^i epochs, at most E and at
least none. What they bring is concave, since local steps lead to its own optimum, not to the common
one: 1 - exp(-e^i / κ). So with everybody who answered,

    τ = argmin τ / mean_i (1 - exp(-e^i(τ) / κ))

over a grid of 1 % steps, and the deadline moves towards it. With equal clients and links that is
s + x, exp(x / κ') = 1 + (s + x) / κ' with κ' = κ m / c: about s + √(2 s κ') (docs/adr/0016).
"""

import math

import numpy as np

from fedcore.server.controller import Controller, Seen
from fedcore.values import above_zero

STEP = 1.01  # from one deadline that is looked at to the next
MOST = 1000  # clients that are looked at


def build(*, kappa: float = 0.5, batch_size: int = 8) -> Controller:
    """``kappa`` is κ, the epochs after which a client's progress has fallen to 1 / e."""
    above_zero("kappa", kappa)

    def aim(seen: Seen) -> tuple[float, str]:
        some = slice(None, None, 1 + len(seen.samples) // MOST)
        samples, speeds, transfers = seen.samples[some], seen.speeds[some], seen.transfers[some]
        # Below a step of one batch nothing is learned.
        least = float(np.median(transfers + batch_size / speeds))
        count = 1 + math.ceil(math.log(seen.seconds(seen.epochs).max() / least, STEP))
        looks = least * STEP ** np.arange(max(1, count))
        epochs = (looks[:, None] - transfers) * speeds / samples
        gain = -np.expm1(-np.clip(epochs, 0, seen.epochs) / kappa).mean(axis=1)
        best = int(np.argmax(gain / looks))
        wanted, work = float(looks[best]), np.median(epochs[best].clip(0, seen.epochs))
        reason = f"most progress per second of {len(samples)} at {wanted:.4g} s, {work:.2g} epochs"
        return seen.towards(wanted), reason

    return Controller(aim)
