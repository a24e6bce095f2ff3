"""Long vectors turned so that idle coordinates go.

Distances survive a rotation, and gradients that are a small layer's output times a fixed matrix
turn out to have as many coordinates as the layer has outputs. Whether vectors lie in so small a
space is found by a sketch (Halko, Martinsson and Tropp, "Finding structure with randomness", SIAM
Review 53, 2011): random combinations of some rows span it, and what is left of all rows outside
that span is measured along a few random directions.
"""

from __future__ import annotations

import torch
from torch import Tensor

from fedcore.coreset.metric import Euclidean, Metric
from fedcore.seeding import stream

SHORT = 40  # coordinates that are not worth turning
LONG = 64  # ... and how many may be turned without asking whether that is worth it
SAMPLE = 2048
SPAN, PROBES = 72, 8  # combinations of rows, and directions that are looked along
IDLE = 2e-6  # of a point's norm: what rounding to float32 leaves in directions not in use


def turned(metric: Metric) -> Metric:
    """Return a Euclidean space of long vectors in its principal directions, others as they are.

    Directions come from the first points, uncentred (see ``metric``). Coordinates at the end are
    dropped if for every single point they amount to no more than its own rounding; vectors that
    fill many dimensions stay as they are.
    """
    if not isinstance(metric, Euclidean) or metric.points.shape[1] <= SHORT:
        return metric
    points, basis = metric.points, None
    seen = points
    if points.shape[1] > LONG:
        basis = _span(points)
        if basis is None:
            return metric
        seen = points @ basis.float()
    sample = seen[:SAMPLE].double()
    _, directions = torch.linalg.eigh(sample.T @ sample)
    directions = directions.flip(1) if basis is None else basis @ directions.flip(1)
    rotated = points @ directions.float()
    norms = rotated.square().sum(1) if basis is not None else points.square().sum(1)
    if not _idle(rotated[:, -1:], norms):  # then none is, for the last says least
        return Euclidean(rotated)
    # tails[i, t]: the squared norm of what follows coordinate t of point i
    energy = rotated.square()
    tails = energy.sum(1, keepdim=True) - energy.cumsum(1)
    idle = (tails <= 0.1 * energy.sum(1, keepdim=True)).all(0).nonzero()[:, 0]
    width = int(idle[0]) + 1 if len(idle) else rotated.shape[1]
    while width < rotated.shape[1] and not _idle(rotated[:, width:], norms):
        width += max(1, width // 8)
    return Euclidean(rotated[:, :width])


def _span(points: Tensor) -> Tensor | None:
    """Return an orthonormal basis [d, SPAN] of the space that all points lie in, if one is found."""
    draw, (count, width) = stream(0, "medoids", "sketch"), points.shape
    some = points[:SAMPLE]
    mixed = torch.from_numpy(draw.standard_normal((SPAN, len(some)))).to(points)
    basis = torch.linalg.qr((mixed @ some).double().T).Q
    probes = torch.from_numpy(draw.standard_normal((width, PROBES))).to(points)
    # ⟨x, g − B Bᵀg⟩ for random g: on average its square is that of what x has outside the basis.
    outside = probes.double() - basis @ (basis.T @ probes.double())
    left = (points @ outside.float()).square().mean(1)
    fits = left <= (IDLE**2 * 4) * points.square().sum(1)
    return basis if bool(fits.all()) else None


def _idle(coordinates: Tensor, norms: Tensor) -> bool:
    """Say whether coordinates [n, t] are no more than rounding, by the points' squared norms."""
    return bool((coordinates.square().sum(1) <= IDLE**2 * norms).all())
