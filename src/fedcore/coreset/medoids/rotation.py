"""Long vectors turned so that their first coordinates say most, and idle ones go.

Distances survive a rotation. In the basis of the points' principal directions a search can tell
from a few coordinates that two points are far apart, and gradients that are a small layer's
output times a fixed matrix turn out to have as many coordinates as the layer has outputs.
"""

from __future__ import annotations

import torch

from fedcore.coreset.metric import Euclidean, Metric

SHORT = 40  # coordinates that are not worth turning
SAMPLE = 2048
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
    # tails[i, t]: the squared norm of what follows coordinate t of point i
    energy = rotated.square()
    tails = energy.sum(1, keepdim=True) - energy.cumsum(1)
    idle = (tails <= 0.1 * energy.sum(1, keepdim=True)).all(0).nonzero()[:, 0]
    for width in _tried(int(idle[0]) + 1 if len(idle) else points.shape[1], points.shape[1]):
        rest = rotated[:, width:].square().sum(1)
        if bool((rest <= IDLE**2 * points.square().sum(1)).all()):
            return Euclidean(rotated[:, :width])
    return Euclidean(rotated)


def _tried(first: int, last: int) -> list[int]:
    """Return the widths to try: from ``first`` on, in steps that grow."""
    widths = []
    width = first
    while width < last:
        widths.append(width)
        width += max(1, width // 8)
    return widths
