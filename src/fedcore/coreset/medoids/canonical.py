"""An order of the points that depends on what they are, not on where they stand in the input.

Rows are sorted by a seeded hash of their bits, and equal rows become one point with a count.
Everything after that sees the same numbers in the same order however the input was permuted,
visits candidates in what is as good as random order, and can never choose two equal points.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedcore.coreset.metric import Metric
from fedcore.seeding import stream


@dataclass(frozen=True, slots=True)
class Distinct:
    """The u different points among n: who stands for whom."""

    first: Tensor  # [u] the lowest index of each point
    group: Tensor  # [n] which of the u points an index is
    counts: Tensor  # [u] how many equal points


def distinct(metric: Metric, seed: int, labels: Tensor | None = None) -> Distinct:
    """Group equal points (of equal label, if there are labels) and order the groups by hash."""
    rows = [factor for factor in metric.factors if factor is not None]
    if labels is not None:
        # A label is one more column: its bits take part, its value is never computed with.
        rows.append(labels.to(torch.int32).view(torch.float32)[:, None])
    keys = _hash(rows, seed)
    keys, order = torch.sort(keys, stable=True)
    fresh = torch.ones(len(order), dtype=torch.bool, device=order.device)
    suspects = (keys[1:] == keys[:-1]).nonzero()[:, 0]
    if len(suspects):
        # Equal hashes are checked, so a collision cannot merge two different points.
        before, after = order[suspects], order[suspects + 1]
        same = torch.ones_like(suspects, dtype=torch.bool)
        for values in rows:
            bits = values.view(torch.int32)
            same &= (bits[before] == bits[after]).all(dim=1)
        fresh[suspects + 1] = ~same
    number = fresh.cumsum(0) - 1
    group = torch.empty_like(order)
    group[order] = number
    counts = torch.bincount(number)
    return Distinct(first=order[fresh], group=group, counts=counts)


def _hash(rows: list[Tensor], seed: int) -> Tensor:
    """Return a 64-bit key a row: a random linear form of its 32-bit words, then mixed."""
    generator = stream(seed, "medoids", "hash")
    device = rows[0].device
    keys = torch.zeros(len(rows[0]), dtype=torch.int64, device=device)
    for values in rows:
        bits = values.view(torch.int32)
        drawn = generator.integers(-(1 << 62), 1 << 62, size=bits.shape[1])
        factors = torch.from_numpy(drawn).to(device) * 2 + 1
        for begin in range(0, bits.shape[1], 64):  # 64-bit copies of a slice, not of everything
            part = bits[:, begin : begin + 64].to(torch.int64)
            part ^= part >> 15  # trailing zeros of round numbers would carry through the product
            keys += (part * factors[begin : begin + 64]).sum(dim=1)
    keys = (keys ^ (keys >> 31)) * -7046029254386353131
    return (keys ^ (keys >> 29)) * -4658895280553007687
