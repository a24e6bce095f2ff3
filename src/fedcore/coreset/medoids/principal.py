"""Long vectors turned so that idle coordinates go; distances survive a rotation.

Whether vectors lie in a small space is found by a sketch (Halko, Martinsson and Tropp, "Finding
structure with randomness", SIAM Review 53, 2011): random combinations of some rows span it, and
what is left of all rows outside that span is measured along a few random directions.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedcore.coreset.metric import near_zero
from fedcore.seeding import words

LONG = 128  # coordinates that may be turned without asking whether that is worth it
SAMPLE = 2048
SKETCH = [0, *words("medoids", "sketch")]  # of a random stream: any will do
SPAN, PROBES = 72, 8  # combinations of rows, and directions that are looked along
IDLE = 2e-6  # of a point's norm: what rounding to float32 leaves in directions not in use


def turned(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return long vectors in their principal directions, those of the first points.

    Coordinates at the end go if for every point they are no more than its own rounding; vectors
    that fill many dimensions stay as they are.
    """
    points = near_zero(torch.from_numpy(rows))  # or the rounding of norms would hide distances
    inside = points if points.shape[1] <= LONG else _inside(points)
    if inside is None:
        return points.numpy()
    sample, allowed = inside[:SAMPLE].double(), (IDLE**2 * inside.square().sum(1))[:, None]
    directions = torch.linalg.eigh(sample.T @ sample).eigenvectors.flip(1)  # most telling first
    rotated: Tensor = inside @ directions.float()
    if bool((rotated[:, -1:].square() > allowed).any()):  # then none is idle: the last says least
        return rotated.numpy()
    width = max(1, int((rotated.square().flip(1).cumsum(1) > allowed).any(0).sum()))
    return rotated[:, :width].numpy()


def _inside(points: Tensor) -> Tensor | None:
    """Return points in coordinates [n, SPAN] of a space that all lie in, if one is found."""
    draw, some = np.random.default_rng(SKETCH), points[:SAMPLE]
    mixed = torch.from_numpy(draw.standard_normal((SPAN, len(some)))).to(points)
    basis = torch.linalg.qr((mixed @ some).double().T).Q
    probes = torch.from_numpy(draw.standard_normal((points.shape[1], PROBES)))
    # ⟨x, g − B Bᵀg⟩ for random g: on average its square is that of what x has outside the basis.
    outside = probes - basis @ (basis.T @ probes)
    inside, left = torch.split(points @ torch.hstack([basis, outside]).float(), [SPAN, PROBES], 1)
    allowed = (2 * IDLE * torch.linalg.vector_norm(points, dim=1)).square()
    return inside if bool((left.square().mean(1) <= allowed).all()) else None
