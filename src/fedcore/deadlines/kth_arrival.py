"""The k-th arrival: as long as a share of those drawn need for everything.

τ is the k-th smallest t^i(E) = E m^i / c^i + s^i of the n drawn whose speed is known, or of all
where none is; k = floor(share n), at least 1. Source: SmartPC (RTSS 2019) as FedBalancer's code has
it, whose rounds end with answer floor(0.8 K) of K; here that is when it is expected.
"""

import math

import numpy as np

from fedcore.server.controller import Controller, Seen
from fedcore.values import must_be


def build(*, share: float = 0.8) -> Controller:
    """``share`` 1 waits for everybody that was drawn."""
    must_be("above 0 and at most 1", lambda value: 0 < value <= 1)("share", share)

    def aim(seen: Seen) -> tuple[float, str]:
        every = seen.seconds(seen.epochs)
        times = np.sort(every[seen.drawn] if seen.drawn.any() else every)
        place = max(1, math.floor(round(share * len(times), 9)))
        return float(times[place - 1]), f"arrival {place} of {len(times)}"

    return Controller(aim)
