"""Weights of a chosen subset: every sample counts for its nearest chosen one (section 4.2)."""

from __future__ import annotations

import torch
from torch import Tensor

from fedcore.types import Coreset

CHUNK_ELEMENTS = 1 << 24  # distances held at a time: 64 MB of float32


def nearest_counts(points: Tensor, chosen: Tensor) -> Coreset:
    """δ_k = |{j : k = argmin_{l in S} d_jl}| and the objective Σ_j min_k d_jk (Eq. 5).

    Ties go to the lowest index, and a chosen point always counts for itself, so every weight
    is at least one even when chosen points coincide.

    Args:
        points: [m, d].
        chosen: [b] sorted, unique positions in ``points``.
    """
    nearest, distance = nearest_chosen(points, points[chosen])
    nearest[chosen] = torch.arange(len(chosen), device=points.device)
    weights = torch.bincount(nearest, minlength=len(chosen)).double()
    return Coreset(chosen, weights, float(distance.double().sum()))


def nearest_chosen(points: Tensor, centres: Tensor) -> tuple[Tensor, Tensor]:
    """For every point, which of the ``centres`` is nearest, and how far it is."""
    rows = max(1, CHUNK_ELEMENTS // len(centres))
    nearest, distance = [], []
    for start in range(0, len(points), rows):
        part = points[start : start + rows]
        # Differences, not the matrix-product form: that loses small distances to rounding.
        block = torch.cdist(part, centres, compute_mode="donot_use_mm_for_euclid_dist")
        closest = block.min(dim=1)
        nearest.append(closest.indices)
        distance.append(closest.values)
    return torch.cat(nearest), torch.cat(distance)
