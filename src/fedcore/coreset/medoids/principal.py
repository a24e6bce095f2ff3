"""Long vectors turned so that idle coordinates go.

Distances survive a rotation, and gradients that are a small layer's output times a fixed matrix
turn out to have as many coordinates as the layer has outputs. Whether vectors lie in so small a
space is found by a sketch (Halko, Martinsson and Tropp, "Finding structure with randomness", SIAM
Review 53, 2011): random combinations of some rows span it, and what is left of all rows outside
that span is measured along a few random directions.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedcore.seeding import words

LONG = 128  # coordinates that may be turned without asking whether that is worth it
SAMPLE = 2048
SKETCH = [0, *words("medoids", "sketch")]  # of a random stream: any will do
SPAN, PROBES = 72, 8  # combinations of rows, and directions that are looked along
IDLE = 2e-6  # of a point's norm: what rounding to float32 leaves in directions not in use


def turned(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return long vectors in their principal directions.

    Directions come from the first points, uncentred (see ``metric``). Coordinates at the end are
    dropped if for every single point they amount to no more than its own rounding; vectors that
    fill many dimensions stay as they are.
    """
    points = torch.from_numpy(rows)
    if points.shape[1] <= LONG:
        norms = points.square().sum(1)
        rotated = points @ _directions(points).float()
        return rotated[:, : _width(rotated, norms)].numpy()
    basis = _span(points)
    if basis is None:
        return rows
    inside = points @ basis.float()
    directions = _directions(inside)
    rotated = inside @ directions.float()
    width = _width(rotated, rotated.square().sum(1))
    return (points @ (basis @ directions[:, :width]).float()).numpy()


def _directions(points: Tensor) -> Tensor:
    """Return the principal directions of the first points, uncentred, the most telling first."""
    sample = points[:SAMPLE].double()
    directions: Tensor = torch.linalg.eigh(sample.T @ sample).eigenvectors.flip(1)
    return directions


def _width(rotated: Tensor, norms: Tensor) -> int:
    """Return how many coordinates are in use, given the points' squared norms."""
    whole = rotated.shape[1]
    if not _idle(rotated[:, -1:], norms):  # then none is, for the last says least
        return whole
    # tails[i, t]: the squared norm of what follows coordinate t of point i
    energy = rotated.square()
    tails = energy.sum(1, keepdim=True) - energy.cumsum(1)
    idle = (tails <= 0.1 * energy.sum(1, keepdim=True)).all(0).nonzero()[:, 0]
    width = int(idle[0]) + 1 if len(idle) else whole
    while width < whole and not _idle(rotated[:, width:], norms):
        width += max(1, width // 8)
    return min(width, whole)


def _span(points: Tensor) -> Tensor | None:
    """Return an orthonormal basis [d, SPAN] of a space that all points lie in, if one is found."""
    draw, some = np.random.default_rng(SKETCH), points[:SAMPLE]
    mixed = torch.from_numpy(draw.standard_normal((SPAN, len(some)))).to(points)
    basis = torch.linalg.qr((mixed @ some).double().T).Q
    probes = torch.from_numpy(draw.standard_normal((points.shape[1], PROBES)))
    # ⟨x, g − B Bᵀg⟩ for random g: on average its square is that of what x has outside the basis.
    outside = probes - basis @ (basis.T @ probes)
    left = (points @ outside.float()).square().mean(1)
    allowed = (2 * IDLE * torch.linalg.vector_norm(points, dim=1)).square()
    return basis if bool((left <= allowed).all()) else None


def _idle(coordinates: Tensor, norms: Tensor) -> bool:
    """Say whether coordinates [n, t] are no more than rounding, by the points' squared norms."""
    return bool((coordinates.square().sum(1) <= IDLE**2 * norms).all())
