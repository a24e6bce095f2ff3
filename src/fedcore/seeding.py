"""Randomness by name: one independent stream for each thing that is drawn.

A stream is a function of the experiment's seed and a path such as
``("shuffle", round, client, phase)`` alone, so two strategies of a comparison see the same cohorts
and shuffles, in any order and on any device, and a run can resume at any round.
"""

import hashlib

import numpy as np


def stream(seed: int, *path: str | int) -> np.random.Generator:
    """Return the generator that belongs to ``path`` under ``seed``.

    >>> int(stream(0, "cohort", 3).integers(1000)) == int(stream(0, "cohort", 3).integers(1000))
    True
    """
    return np.random.default_rng([seed, *words(*path)])


def words(*path: str | int) -> list[int]:
    """Four numbers for a path; with a seed before them they are what its stream begins with."""
    name = "/".join(f"{type(part).__name__}:{part}" for part in path)
    digest = hashlib.blake2b(name.encode(), digest_size=16).digest()
    return [int(word) for word in np.frombuffer(digest, dtype=np.uint32)]
