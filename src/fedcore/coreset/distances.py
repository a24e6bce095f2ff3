"""Distances, inner products and sums in either space, a block of rows at a time.

For outer products r ⊗ z~ (z~ is z with a 1 appended where the layer has a bias):
<g_i, g_j> = <r_i, r_j> <z~_i, z~_j>, and Σ_j δ_j g_j = Rᵀ diag(δ) Z~, a [C, d + 1] matrix. The
long vectors are never built.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from fedcore.coreset.metric import Metric

BLOCK_ELEMENTS = 1 << 24  # distances held at a time: 64 MB of float32


def blocks(rows: int, columns: int) -> Iterator[slice]:
    """Slices of ``rows`` so that a block against ``columns`` stays within memory."""
    size = max(1, BLOCK_ELEMENTS // max(1, columns))
    for start in range(0, rows, size):
        yield slice(start, min(start + size, rows))


def inner(space: Metric, rows: Tensor | slice, columns: Tensor | slice) -> Tensor:
    """<g_i, g_j> for i in ``rows``, j in ``columns``, in float64."""
    first, second = space.factors
    products = first[rows].double() @ first[columns].double().T
    if second is None:
        return products
    extra = float(space.bias)
    return products * (second[rows].double() @ second[columns].double().T + extra)


def squared_norms(space: Metric) -> Tensor:
    """||g_j||² for every sample, in float64."""
    first, second = space.factors
    norms = first.double().square().sum(dim=1)
    if second is None:
        return norms
    return norms * (second.double().square().sum(dim=1) + float(space.bias))


def distances(space: Metric, rows: Tensor | slice, columns: Tensor | slice) -> Tensor:
    """||g_i - g_j|| for i in ``rows``, j in ``columns``.

    Between points by differences: the matrix-product form loses small distances to rounding.
    Between outer products by the Gram form in float64.
    """
    first, second = space.factors
    if second is None:
        mode = "donot_use_mm_for_euclid_dist"
        return torch.cdist(first[rows], first[columns], compute_mode=mode)
    norms = squared_norms(space)
    squared = norms[rows][:, None] + norms[columns][None, :] - 2 * inner(space, rows, columns)
    return squared.clamp(min=0).sqrt().float()


def weighted_sum(space: Metric, indices: Tensor | slice, weights: Tensor | None = None) -> Tensor:
    """Σ_k δ_k g_k, flattened, in float64; weights left out are one."""
    first, second = space.factors
    left = first[indices].double()
    if weights is not None:
        left = left * weights.to(left)[:, None]
    if second is None:
        return left.sum(dim=0)
    right = second[indices].double()
    total = left.T @ right
    return (
        torch.cat([total, left.sum(0)[:, None]], dim=1).flatten() if space.bias else total.flatten()
    )


def gradient_error(space: Metric, indices: Tensor, weights: Tensor) -> float:
    """ε of the paper, relative: ||Σ_j g_j - Σ_k δ_k g_k|| / ||Σ_j g_j|| (Eq. 2, section 5).

    Where all gradients cancel to nothing, the error is relative to their mean length instead.
    """
    everything = weighted_sum(space, slice(None))
    gap = float((everything - weighted_sum(space, indices, weights)).norm())
    whole = float(everything.norm())
    scale = float(squared_norms(space).sqrt().sum())
    if whole <= 1e-9 * scale or whole == 0:
        whole = scale / max(1, len(space))
    return gap / whole if whole > 0 else 0.0
