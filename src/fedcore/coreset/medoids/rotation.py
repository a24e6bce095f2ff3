"""Long vectors turned so that their first coordinates say most, and idle ones go.

Distances survive a rotation. In the basis of the points' principal directions a search can tell
from a few coordinates that two points are far apart, and gradients that are a small layer's
output times a fixed matrix turn out to have as many coordinates as the layer has outputs.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedcore.coreset.metric import Euclidean, Metric
from fedcore.seeding import stream

SHORT = 40  # coordinates that are not worth turning
SAMPLE = 2048
LEADING = 16  # directions of a second factor
IDLE = 2e-6  # of a point's norm: what rounding to float32 leaves in directions not in use


def turned(metric: Metric) -> Metric:
    """Return a Euclidean space of long vectors in its principal directions, others as they are.

    Directions come from the first points, uncentred (see ``metric``). Coordinates at the end are
    dropped if for every single point they amount to no more than its own rounding.
    """
    if not isinstance(metric, Euclidean) or metric.points.shape[1] <= SHORT:
        return metric
    points = metric.points
    sample = points[:SAMPLE].double()
    _, directions = torch.linalg.eigh(sample.T @ sample)
    rotated = points @ directions.flip(1).float()
    norms = points.square().sum(1)
    if not _idle(rotated[:, -1:], norms):  # then none is, for the last says least
        return Euclidean(rotated)
    # tails[i, t]: the squared norm of what follows coordinate t of point i
    energy = rotated.square()
    tails = energy.sum(1, keepdim=True) - energy.cumsum(1)
    idle = (tails <= 0.1 * energy.sum(1, keepdim=True)).all(0).nonzero()[:, 0]
    for width in _tried(int(idle[0]) + 1 if len(idle) else points.shape[1], points.shape[1]):
        if _idle(rotated[:, width:], norms):
            return Euclidean(rotated[:, :width])
    return Euclidean(rotated)


def _idle(coordinates: Tensor, norms: Tensor) -> bool:
    """Say whether coordinates [n, t] are no more than rounding, by the points' squared norms."""
    return bool((coordinates.square().sum(1) <= IDLE**2 * norms).all())


def _tried(first: int, last: int) -> list[int]:
    """Return the widths to try: from ``first`` on, in steps that grow."""
    widths = []
    width = first
    while width < last:
        widths.append(width)
        width += max(1, width // 8)
    return widths


def leading(rows: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return the rows [n, d] on a few of their leading directions, and what is left of each.

    The directions are an orthonormal basis of SᵀS times a random matrix, S being the first rows
    (Halko, Martinsson and Tropp, "Finding structure with randomness", SIAM Review 53, 2011): a
    hundredth of the price of eigenvectors, and any basis will do, for it only bounds distances:
    the first array's distances are never more than the rows', and ‖row_i‖² is ‖first_i‖² and at
    most the second array's squares together.
    """
    width = min(LEADING, rows.shape[1])
    sample = rows[:SAMPLE]
    start = stream(0, "medoids", "directions").standard_normal((rows.shape[1], width))
    seen = sample.T @ (sample @ start.astype(np.float32))
    basis = np.linalg.qr(seen.astype(np.float64))[0].astype(np.float32)
    head = rows @ basis
    squared = np.einsum("ij,ij->i", rows, rows)
    left = squared - np.einsum("ij,ij->i", head, head)
    return head, np.sqrt(np.maximum(left, 0.0) + np.float32(1e-5) * squared)
