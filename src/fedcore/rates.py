"""Learning-rate schedules over rounds: by which factor η of a model's version is smaller.

Version v is how many merges made the model that a job starts from, so all clients of a version
take steps of one size, also where the server does not wait for them. With R planned rounds:

* step          q^floor(v / n)
* cosine        (1 + cos(π v / R)) / 2
* inverse-time  1 / (1 + q v)
"""

import math
from collections.abc import Callable

SCHEDULES = ("constant", "step", "cosine", "inverse-time")

Factor = Callable[[int], float]


def factor_of(name: str, rounds: int, decay: float, every: int) -> Factor | None:
    """The factor by version: R ``rounds``, q ``decay``, n ``every``; None for a constant η."""
    factors: dict[str, Factor | None] = {
        "constant": None,
        "step": lambda version: float(decay ** (version // every)),
        "cosine": lambda version: (1 + math.cos(math.pi * min(version, rounds) / rounds)) / 2,
        "inverse-time": lambda version: 1 / (1 + decay * version),
    }
    return factors[name]
