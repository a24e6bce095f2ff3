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
from dataclasses import dataclass

import torch
from torch import Tensor

from fedcore.coreset.metric import Metric
from fedcore.seeding import stream

# Points up to which rounded numbers lead: among more of them some are always about to round to
# another number, and looking at all three times would take time that a budget may not have.
MOST_ROUNDED = 4096
COARSE, FINE = 7, 12  # bits of a number that the leading hash sees, and the one behind it
FAR = 2.0**30  # steps from the mean, beyond which they see no difference
LOW_40, LOW_24 = (1 << 40) - 1, (1 << 24) - 1


@dataclass(frozen=True, slots=True)
class Distinct:
    """The u different points among n: who stands for whom."""

    first: Tensor  # [u] the lowest index of each point
    group: Tensor  # [n] which of the u points an index is
    counts: Tensor  # [u] how many equal points


def distinct(metric: Metric, seed: int, labels: Tensor | None = None) -> Distinct:
    """Group equal points (of equal label, if there are labels) and order the groups by hash."""
    rows = [factor for factor in metric.factors if factor is not None]
    small = len(metric) <= MOST_ROUNDED
    words = [_words(values) if small else values.view(torch.int32)[None] for values in rows]
    if labels is not None:
        # A label is one more column: its bits take part, its value is never computed with.
        label = labels.to(torch.int32)[:, None]
        blank = torch.zeros_like(label)
        words.append(torch.stack([blank, blank, label] if small else [label]))
        rows.append(label.view(torch.float32))
    hashes = _hash(words, seed)
    order, fresh, certain = _sorted(_joined(hashes) if small else hashes[-1], rows)
    if small and not certain:  # a collision: the exact hash alone has more bits
        order, fresh, _ = _sorted(hashes[-1], rows)
    number = fresh.cumsum(0) - 1
    group = torch.empty_like(order)
    group[order] = number
    counts = torch.bincount(number)
    return Distinct(first=order[fresh], group=group, counts=counts)


def _sorted(keys: Tensor, rows: list[Tensor]) -> tuple[Tensor, Tensor, bool]:
    """Order by keys, which of them begin a new point, and whether equal keys were equal points."""
    keys, order = torch.sort(keys, stable=True)
    fresh = torch.ones(len(order), dtype=torch.bool, device=order.device)
    suspects = (keys[1:] == keys[:-1]).nonzero()[:, 0]
    if not len(suspects):
        return order, fresh, True
    # Equal hashes are checked, so a collision cannot merge two different points.
    before, after = order[suspects], order[suspects + 1]
    same = torch.ones_like(suspects, dtype=torch.bool)
    for values in rows:
        bits = values.view(torch.int32)
        same &= (bits[before] == bits[after]).all(dim=1)
    fresh[suspects + 1] = ~same
    return order, fresh, bool(same.all())


def _joined(hashes: Tensor) -> Tensor:
    """One key: 24 bits of the coarse hash, then 16 of the fine one, then 24 of the exact one."""
    coarse, fine, exact = hashes.unbind()
    return (coarse & ~LOW_40) | (fine & LOW_40 & ~LOW_24) | (exact & LOW_24)


def _words(values: Tensor) -> Tensor:
    """Three whole numbers for each: rounded to COARSE and to FINE bits, and its own 32 bits.

    Bits of how far numbers lie from their mean, in the mean, and not of each one's own size: what
    should be zero is a rounding error, whose size is random.
    """
    bits = values.view(torch.int32)
    if not values.numel():
        return bits.expand(3, *bits.shape)
    # In float64, or the mean would depend on the order of the rows.
    centred = values - values.mean(dim=0, dtype=torch.float64).to(torch.float32)
    # A power of two, which rounding errors leave as it is.
    _, exponent = math.frexp(float(centred.abs().mean(dtype=torch.float64)))
    steps = (centred * 2.0 ** min(FINE - exponent, 127)).clamp_(-FAR, FAR)
    coarse = steps * 2.0 ** (COARSE - FINE)
    return torch.stack([coarse.round_().to(torch.int32), steps.round_().to(torch.int32), bits])


def _hash(words: list[Tensor], seed: int) -> Tensor:
    """Return 64-bit keys [v, n] of words [v, n, d]: a random linear form of a row, then mixed."""
    generator = stream(seed, "medoids", "hash")
    device = words[0].device
    keys = torch.zeros(words[0].shape[:2], dtype=torch.int64, device=device)
    for row in words:
        drawn = generator.integers(-(1 << 62), 1 << 62, size=row.shape[2])
        factors = torch.from_numpy(drawn).to(device) * 2 + 1
        for begin in range(0, row.shape[2], 64):  # 64-bit copies of a slice, not of everything
            part = row[:, :, begin : begin + 64].to(torch.int64)
            part ^= part >> 15  # trailing zeros of round numbers would carry through the product
            keys += (part * factors[begin : begin + 64]).sum(dim=2)
    keys = (keys ^ (keys >> 31)) * -7046029254386353131
    return (keys ^ (keys >> 29)) * -4658895280553007687
