"""The spaces that gradients live in, each as small as exactness allows.

Distances between per-sample gradients g_i are all that k-medoids needs (Eq. 5 of the paper:
Σ_j min_k ‖g_j − g_k‖), and two common proxies never need their long vectors:

- dL/dz_i = Wᵀ r_i, with r = softmax − one-hot: ‖g_i − g_j‖² = (r_i − r_j)ᵀ W Wᵀ (r_i − r_j), so
  r L with L Lᵀ = W Wᵀ has the same distances in C instead of d dimensions;
- the last layer's gradient r_i ⊗ [z_i, 1]: ⟨g_i, g_j⟩ = ⟨r_i, r_j⟩ (1 + ⟨z_i, z_j⟩).

Nothing is centred: late in training most gradients are almost 0 while the mean is not, and
subtracting it in float32 turns small distinct gradients into duplicates.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

PIECE = 1 << 17  # numbers computed with at a time

Array: TypeAlias = "Tensor | NDArray[np.floating] | NDArray[np.integer]"


class NotFinite(ValueError):
    """NaN or infinity where distances are to be computed."""


def as_rows(values: Array, name: str) -> Tensor:
    """Return ``values`` as a contiguous, finite float32 matrix [n, d] on its own device.

    Raises:
        ValueError: If it is not a matrix.
        NotFinite: If it holds NaN or infinity.
    """
    tensor = values.detach() if isinstance(values, Tensor) else torch.from_numpy(_native(values))
    if tensor.ndim != 2:
        raise ValueError(
            f"{name} must be a matrix with one row a sample, got shape {tuple(tensor.shape)}"
        )
    # Adding 0 turns -0.0 into 0.0, so that equal rows have equal bits.
    rows = (tensor.to(torch.float32) + 0.0).contiguous()
    # The least and the largest are NaN if any number is: one pass, a tenth of asking each of them.
    if rows.numel() and not all(bool(torch.isfinite(end)) for end in torch.aminmax(rows)):
        bad = int((~torch.isfinite(rows)).any(dim=1).nonzero()[0])
        raise NotFinite(f"{name} must be finite float32 numbers, but row {bad} is not")
    return rows


def _native(values: NDArray[np.floating] | NDArray[np.integer]) -> NDArray[np.float32]:
    with np.errstate(over="ignore"):  # too large for float32 becomes inf, and is reported as such
        return np.ascontiguousarray(values, dtype=np.float32)


@final
class Euclidean:
    """Points [n, d] with distance ‖p_i − p_j‖."""

    __slots__ = ("points",)

    def __init__(self, points: Array) -> None:
        self.points = as_rows(points, "points")

    def __len__(self) -> int:
        return self.points.shape[0]

    @property
    def factors(self) -> tuple[Tensor, Tensor | None]:
        """What distances are computed from: the points, and no second factor."""
        return self.points, None

    @property
    def bias(self) -> bool:
        """Whether the second factor has a constant 1 appended: there is none."""
        return False

    def cpu(self) -> Euclidean:
        """Return the same space in main memory."""
        return self._of(self.points.cpu())

    def take(self, indices: Tensor) -> Euclidean:
        """Return the space of some of the points, in the order of ``indices``."""
        return self._of(self.points[indices])

    @classmethod
    def _of(cls, points: Tensor) -> Euclidean:
        """Return a space of points that have been checked before."""
        space = cls.__new__(cls)
        space.points = points
        return space

    def between(self, first: Tensor, second: Tensor) -> Tensor:
        """Return the distances [m] of paired points, from differences, in float64."""
        return _in_pieces(self._between, first, second, max(1, self.points.shape[1]))

    def _between(self, first: Tensor, second: Tensor) -> Tensor:
        return _squared(self.points, first, second).sqrt()


@final
class OuterProduct:
    """Last-layer gradients r_i ⊗ [z_i, 1] as their factors: residuals [n, C], inputs [n, d].

    With Δ for the difference of two samples and z̃ = [z, 1],

        ‖g_i − g_j‖² = ‖Δr‖² (s_z − ‖Δz‖²/4) + ‖Δz‖² (s_r − ‖Δr‖²/4) + Δ‖r‖² Δ‖z̃‖² / 2,

    where s is the mean of the two squared norms. This is the Gram form ⟨r_i, r_j⟩⟨z̃_i, z̃_j⟩
    rearranged so that nearby samples do not cancel.
    """

    __slots__ = ("_bias", "inputs", "residuals")

    def __init__(self, residuals: Array, inputs: Array, bias: bool = True) -> None:
        self.residuals = as_rows(residuals, "residuals")
        self.inputs = as_rows(inputs, "inputs")
        self._bias = bias
        if len(self.residuals) != len(self.inputs):
            raise ValueError(
                f"residuals and inputs must have as many rows as each other, got "
                f"{len(self.residuals)} and {len(self.inputs)}"
            )
        # A zero residual makes a zero gradient whatever the input: such samples are duplicates.
        silent = ~self.residuals.any(dim=1)
        if bool(silent.any()):
            self.inputs = torch.where(silent[:, None], torch.zeros_like(self.inputs), self.inputs)

    def __len__(self) -> int:
        return self.residuals.shape[0]

    @property
    def factors(self) -> tuple[Tensor, Tensor | None]:
        """What distances are computed from: residuals and layer inputs."""
        return self.residuals, self.inputs

    @property
    def bias(self) -> bool:
        """Whether the layer has a bias, that is, whether its inputs end in a constant 1."""
        return self._bias

    def cpu(self) -> OuterProduct:
        """Return the same space in main memory."""
        return self._of(self.residuals.cpu(), self.inputs.cpu(), self._bias)

    def take(self, indices: Tensor) -> OuterProduct:
        """Return the space of some of the samples, in the order of ``indices``."""
        return self._of(self.residuals[indices], self.inputs[indices], self._bias)

    @classmethod
    def _of(cls, residuals: Tensor, inputs: Tensor, bias: bool) -> OuterProduct:
        """Return a space of samples that have been checked before."""
        space = cls.__new__(cls)
        space.residuals, space.inputs, space._bias = residuals, inputs, bias
        return space

    def between(self, first: Tensor, second: Tensor) -> Tensor:
        """Return the distances [m] of paired samples, from differences, in float64."""
        width = self.residuals.shape[1] + self.inputs.shape[1]
        return _in_pieces(self._between, first, second, max(1, width))

    def _between(self, first: Tensor, second: Tensor) -> Tensor:
        left = _squared(self.residuals, first, second)
        right = _squared(self.inputs, first, second)
        norms_left = [_norms(self.residuals, which) for which in (first, second)]
        norms_right = [_norms(self.inputs, which) + float(self._bias) for which in (first, second)]
        sum_left, sum_right = sum(norms_left) / 2, sum(norms_right) / 2
        gaps = (norms_left[0] - norms_left[1]) * (norms_right[0] - norms_right[1])
        squared = left * (sum_right - right / 4) + right * (sum_left - left / 4) + gaps / 2
        return squared.clamp(min=0).sqrt()


Metric: TypeAlias = Euclidean | OuterProduct


def _in_pieces(
    between: Callable[[Tensor, Tensor], Tensor], first: Tensor, second: Tensor, width: int
) -> Tensor:
    """Return ``between`` of all pairs; on a CPU, so many at once as doubles fit into its cache."""
    size = max(1, PIECE // width if first.device.type == "cpu" else len(first))
    pairs = zip(torch.split(first, size), torch.split(second, size), strict=True)
    return torch.cat([between(one, other) for one, other in pairs])


def _squared(rows: Tensor, first: Tensor, second: Tensor) -> Tensor:
    return (rows[first].double() - rows[second].double()).square().sum(dim=1)


def _norms(rows: Tensor, which: Tensor) -> Tensor:
    return rows[which].double().square().sum(dim=1)


def residual_metric(residuals: Array, weight: Array) -> Euclidean:
    """Return gradients dL/dz = Wᵀ r in at most C dimensions, with their distances unchanged.

    r ↦ r L with L Lᵀ = W Wᵀ. L comes from the eigenvectors of W Wᵀ rather than from Cholesky's
    factor, so a rank-deficient W (more classes than inputs, dead units) is not a special case:
    directions that W does not see are dropped.

    Args:
        residuals: softmax − one-hot, [n, C].
        weight: The last layer's matrix W, [C, d] as ``torch.nn.Linear`` stores it.
    """
    rows, matrix = as_rows(residuals, "residuals"), as_rows(weight, "weight").double()
    if rows.shape[1] != matrix.shape[0]:
        raise ValueError(
            f"weight must have one row a class ({rows.shape[1]} by the residuals), "
            f"got {matrix.shape[0]}"
        )
    values, vectors = torch.linalg.eigh(matrix @ matrix.T)
    seen = values > values[-1] * 1e-12 * len(values)
    if not bool(seen.any()):
        return Euclidean(torch.zeros_like(rows[:, :1]))
    factor = (vectors[:, seen] * values[seen].sqrt()).flip(1)  # most telling direction first
    return Euclidean((rows.double() @ factor).float())
