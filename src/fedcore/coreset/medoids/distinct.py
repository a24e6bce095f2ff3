"""An order of the points that depends on what they are, not on where they stand in the input.

Rows are sorted by a seeded hash, and equal rows become one point with a count. Everything after
that sees the same numbers in the same order however the input was permuted, visits candidates in
what is as good as random order, and can never choose two equal points.

The hash that leads is one of *rounded* numbers, and the next, for points that round to the same,
one of numbers rounded less. A local search ends elsewhere when it begins in another order, so were
the last bits to lead, points that differ by a rounding error would get another coreset; like this
they nearly always get the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedcore.compiled import have_numba
from fedcore.seeding import stream

# Points up to which rounded numbers lead: among more of them some are always about to round to
# another number, and looking at all three times would take time that a budget may not have.
MOST_ROUNDED = 4096
COARSE, FINE = 7, 12  # bits of a number that the leading hash sees, and the one behind it
FAR = 2.0**30  # steps from the mean, beyond which they see no difference
LOW_40, LOW_24 = np.int64((1 << 40) - 1), np.int64((1 << 24) - 1)

Keys = NDArray[np.int64]
NUMBA = have_numba()


@dataclass(frozen=True, slots=True)
class Distinct:
    """The u different points among n: who stands for whom."""

    first: Keys  # [u] the lowest index of each point
    group: Keys  # [n] which of the u points an index is
    counts: Keys  # [u] how many equal points


def distinct(rows: list[NDArray[np.float32]], seed: int, labels: Keys | None = None) -> Distinct:
    """Group equal points (of equal label, if there are labels) and order the groups by hash."""
    generator = stream(seed, "medoids", "hash")
    add_words = _fastest()
    small = len(rows[0]) <= MOST_ROUNDED
    keys = np.zeros((3 if small else 1, len(rows[0])), np.int64)
    for values in rows:
        add_words(keys, values, _factors(generator, values.shape[1]))
    if labels is not None:
        # A label is one more column: its bits take part, its value is never computed with.
        label = labels.astype(np.int32)[:, None].view(np.float32)
        add_words(keys[-1:], label, _factors(generator, 1))
        rows = [*rows, label]
    keys = (keys ^ (keys >> 31)) * -7046029254386353131
    keys = (keys ^ (keys >> 29)) * -4658895280553007687
    order, fresh, certain = _sorted(_joined(keys) if small else keys[-1], rows)
    if small and not certain:  # a collision: the exact hash alone has more bits
        order, fresh, _ = _sorted(keys[-1], rows)
    if fresh.all():  # nothing is equal
        group = np.empty_like(order)
        group[order] = np.arange(len(order))
        return Distinct(order, group, np.ones_like(order))
    number = np.cumsum(fresh) - 1
    group = np.empty_like(order)
    group[order] = number
    return Distinct(order[fresh], group, np.bincount(number))


def _sorted(keys: Keys, rows: list[NDArray[np.float32]]) -> tuple[Keys, NDArray[np.bool_], bool]:
    """Order by keys, which of them begin a new point, and whether equal keys were equal points."""
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    fresh = np.ones(len(order), np.bool_)
    suspects = np.flatnonzero(keys[1:] == keys[:-1])
    if not len(suspects):
        return order, fresh, True
    # Equal hashes are checked, so a collision cannot merge two different points.
    same = np.ones(len(suspects), np.bool_)
    for values in rows:
        bits = values.view(np.int32)
        same &= (bits[order[suspects]] == bits[order[suspects + 1]]).all(axis=1)
    fresh[suspects + 1] = ~same
    return order, fresh, bool(same.all())


def _joined(keys: Keys) -> Keys:
    """One key: 24 bits of the coarse hash, then 16 of the fine one, then 24 of the exact one."""
    coarse, fine, exact = keys
    joined: Keys = (coarse & ~LOW_40) | (fine & LOW_40 & ~LOW_24) | (exact & LOW_24)
    return joined


def _factors(generator: np.random.Generator, width: int) -> Keys:
    return generator.integers(-(1 << 62), 1 << 62, size=width) * 2 + 1


def _fastest() -> Callable[[Keys, NDArray[np.float32], Keys], None]:
    if not NUMBA:
        return add_words
    from fedcore.coreset.medoids.hashing import add_words_compiled

    return add_words_compiled


def add_words(keys: Keys, values: NDArray[np.float32], factors: Keys) -> None:
    """Add a random linear form of each row to ``keys`` [v, n]: Σ_t factor_t word_t.

    The last key sees the 32 bits of every number. If there are three, the first sees it rounded to
    COARSE bits and the second to FINE ones: bits of how far numbers lie from their mean, in the
    mean, and not of each one's own size, for what should be zero is a rounding error, whose size
    is random.
    """
    words = [values.view(np.int32)]
    if len(keys) == 3 and values.size:
        # In float64, or the mean would depend on the order of the rows.
        centred = values - values.mean(axis=0, dtype=np.float64).astype(np.float32)
        # A power of two, which rounding errors leave as it is.
        _, exponent = math.frexp(float(np.abs(centred).mean(dtype=np.float64)))
        steps = (centred * np.float32(2.0 ** min(FINE - exponent, 127))).clip(-FAR, FAR)
        coarse = steps * np.float32(2.0 ** (COARSE - FINE))
        words = [np.rint(coarse).astype(np.int32), np.rint(steps).astype(np.int32), *words]
    for key, word in zip(range(-len(words), 0), words, strict=True):
        for begin in range(0, word.shape[1], 64):  # 64-bit copies of a slice, not of everything
            part = word[:, begin : begin + 64].astype(np.int64)
            part ^= part >> 15  # trailing zeros of round numbers would carry through the product
            keys[key] += part @ factors[begin : begin + 64]
