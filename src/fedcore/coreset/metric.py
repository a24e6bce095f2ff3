"""The spaces that gradients live in, each as small as exactness allows, and what is computed there.

Distances between per-sample gradients g_i are all that k-medoids needs (Eq. 5 of the paper:
Σ_j min_k ‖g_j − g_k‖), and two common proxies never need their long vectors:

- dL/dz_i = Wᵀ r_i, with r = softmax − one-hot, has its distances in as many dimensions as there
  are classes (``proxies.residual_metric``);
- the last layer's gradient r_i ⊗ z̃_i, z̃ = [z, 1] where the layer has a bias: ⟨g_i, g_j⟩ =
  ⟨r_i, r_j⟩ ⟨z̃_i, z̃_j⟩, and Σ_j δ_j g_j = Rᵀ diag(δ) Z̃, a [C, d + 1] matrix.

Nothing is centred: late in training most gradients are almost 0 while the mean is not, and
subtracting it in float32 turns small distinct gradients into duplicates. Numbers are float32
wherever that is enough; see ``as_rows``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

BY_DIFFERENCES = "donot_use_mm_for_euclid_dist"
PIECE = 1 << 17  # numbers computed with at a time, in pairs: as doubles they fit into a cache
BLOCK = 1 << 24  # distances held at a time: 64 MB of float32
SMALLEST, LARGEST = 2.0**-30, 2.0**40  # of a set's largest number: squares stay inside float32
OFFSET = 2.0**10  # times the spread: so far from zero, float32 has few digits left for it

Array: TypeAlias = "Tensor | NDArray[np.floating] | NDArray[np.integer]"


class NotFinite(ValueError):
    """NaN or infinity where distances are to be computed."""


def as_rows(values: Array, name: str) -> Tensor:
    """Return ``values`` as a contiguous, finite matrix [n, d] on its own device.

    In float32, unless that would lose what tells points apart: where squares would overflow or
    vanish, and where more digits were given and numbers lie far from zero against their spread,
    the matrix is in float64.

    Raises:
        ValueError: If it is not a matrix.
        NotFinite: If it holds NaN or infinity, in float32.
    """
    tensor = values.detach() if isinstance(values, Tensor) else torch.from_numpy(_native(values))
    if tensor.ndim != 2:
        raise ValueError(
            f"{name} must be a matrix with one row a sample, got shape {tuple(tensor.shape)}"
        )
    # Adding 0 turns -0.0 into 0.0, so that equal rows have equal bits.
    rows = (tensor.to(torch.float32) + 0.0).contiguous()
    if not rows.numel():
        return rows
    # The least and the largest are NaN if any number is: one pass, a tenth of asking each of them.
    low, high = (float(end) for end in torch.aminmax(rows))
    if not (np.isfinite(low) and np.isfinite(high)):
        bad = int((~torch.isfinite(rows)).any(dim=1).nonzero()[0])
        raise NotFinite(f"{name} must be finite float32 numbers, but row {bad} is not")
    largest = max(-low, high)
    more = tensor.dtype in (torch.float64, torch.int64, torch.int32) and _far_from_zero(rows)
    lost = more and not torch.equal(rows.double(), tensor.double())
    if lost or not (largest == 0 or SMALLEST <= largest <= LARGEST):
        return (tensor.to(torch.float64) + 0.0).contiguous()
    return rows


def _native(values: NDArray[np.floating] | NDArray[np.integer]) -> NDArray[np.floating]:
    more = values.dtype.itemsize > 4 or (values.dtype.kind in "iu" and values.dtype.itemsize == 4)
    kind = np.float64 if more else np.float32
    return np.ascontiguousarray(values, dtype=kind)


def _far_from_zero(rows: Tensor) -> bool:
    """Say whether numbers are large against how far they spread in any column."""
    low, high = torch.aminmax(rows, dim=0)
    largest = torch.maximum(-low, high).max()
    return bool(largest > OFFSET * (high.double() - low.double()).max())


def _scaled(rows: Tensor) -> Tensor:
    """Return float64 rows in float32, times the power of two that brings the largest to 1."""
    largest = rows.abs().max() if rows.numel() else rows.new_zeros(())
    exponent = int(torch.frexp(largest).exponent)
    return torch.ldexp(rows, torch.tensor(-exponent, device=rows.device)).float() + 0.0


@final
class Euclidean:
    """Points [n, d] with distance ‖p_i − p_j‖."""

    __slots__ = ("points",)
    bias = False  # there is no second factor

    def __init__(self, points: Array) -> None:
        self.points = as_rows(points, "points")

    def __len__(self) -> int:
        return self.points.shape[0]

    @property
    def factors(self) -> tuple[Tensor, Tensor | None]:
        """What distances are computed from: the points, and no second factor."""
        return self.points, None

    def cpu(self) -> Euclidean:
        """Return the same space in main memory."""
        return self._of(self.points.cpu())

    def take(self, indices: Tensor) -> Euclidean:
        """Return the space of some of the points, in the order of ``indices``."""
        return self._of(self.points[indices])

    def single(self) -> Euclidean:
        """Return float32 points with these distances, up to one power of two and rounding."""
        points = self.points
        if points.dtype == torch.float32:
            return self
        if _far_from_zero(points):
            low, high = torch.aminmax(points, dim=0)
            points = points - (low + high) / 2
        return self._of(_scaled(points))

    @classmethod
    def _of(cls, points: Tensor) -> Euclidean:
        """Return a space of points that have been checked before."""
        space = cls.__new__(cls)
        space.points = points
        return space


@final
class OuterProduct:
    """Last-layer gradients r_i ⊗ [z_i, 1] as their factors: residuals [n, C], inputs [n, d].

    With Δ for the difference of two samples and z̃ = [z, 1],

        ‖g_i − g_j‖² = ‖Δr‖² (s_z − ‖Δz‖²/4) + ‖Δz‖² (s_r − ‖Δr‖²/4) + Δ‖r‖² Δ‖z̃‖² / 2,

    where s is the mean of the two squared norms. This is the Gram form ⟨r_i, r_j⟩⟨z̃_i, z̃_j⟩
    rearranged so that nearby samples do not cancel.
    """

    __slots__ = ("bias", "inputs", "residuals")

    def __init__(self, residuals: Array, inputs: Array, bias: bool = True) -> None:
        self.residuals = as_rows(residuals, "residuals")
        self.inputs = as_rows(inputs, "inputs")
        self.bias = bias  # whether the layer's inputs end in a constant 1
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

    def cpu(self) -> OuterProduct:
        """Return the same space in main memory."""
        return self._of(self.residuals.cpu(), self.inputs.cpu(), self.bias)

    def take(self, indices: Tensor) -> OuterProduct:
        """Return the space of some of the samples, in the order of ``indices``."""
        return self._of(self.residuals[indices], self.inputs[indices], self.bias)

    def single(self) -> OuterProduct:
        """Return float32 factors with these distances, up to one power of two and rounding."""
        if self.residuals.dtype == self.inputs.dtype == torch.float32:
            return self
        residuals, inputs = self.residuals.double(), self.inputs.double()
        if self.bias:  # the constant must shrink with the inputs; as a column, it does
            inputs = torch.cat((inputs, torch.ones_like(inputs[:, :1])), dim=1)
        return self._of(_scaled(residuals), _scaled(inputs), False)

    @classmethod
    def _of(cls, residuals: Tensor, inputs: Tensor, bias: bool) -> OuterProduct:
        """Return a space of samples that have been checked before."""
        space = cls.__new__(cls)
        space.residuals, space.inputs, space.bias = residuals, inputs, bias
        return space


Metric: TypeAlias = Euclidean | OuterProduct


def pair_distances(space: Metric, first: Tensor, second: Tensor) -> Tensor:
    """Return the distances [m] of paired samples, from differences, in float64."""
    width = sum(max(1, factor.shape[1]) for factor in space.factors if factor is not None)
    size = max(1, PIECE // width if first.device.type == "cpu" else len(first))
    if len(first) <= size:
        return _between(space, first, second)
    pairs = zip(torch.split(first, size), torch.split(second, size), strict=True)
    return torch.cat([_between(space, one, other) for one, other in pairs])


def _between(space: Metric, first: Tensor, second: Tensor) -> Tensor:
    ends, gaps, sums, differences = [], [], [], []
    for factor in space.factors:
        if factor is not None:
            ends = [factor[which].double() for which in (first, second)]
            differences.append((ends[0] - ends[1]).square().sum(dim=1))
    if len(differences) == 1:
        return differences[0].sqrt()
    for factor, extra in zip(space.factors, (0.0, float(space.bias)), strict=True):
        assert factor is not None  # there are two
        one, other = (factor[which].double().square().sum(1) + extra for which in (first, second))
        sums.append((one + other) / 2)
        gaps.append(one - other)
    left, right = differences
    squared = left * (sums[1] - right / 4) + right * (sums[0] - left / 4) + gaps[0] * gaps[1] / 2
    return squared.clamp(min=0).sqrt()


def blocks(rows: int, columns: int) -> Iterator[slice]:
    """Slices of ``rows`` so that a block against ``columns`` stays within memory."""
    size = max(1, BLOCK // max(1, columns))
    for start in range(0, rows, size):
        yield slice(start, min(start + size, rows))


def inner(space: Metric, rows: Tensor | slice, columns: Tensor | slice) -> Tensor:
    """<g_i, g_j> for i in ``rows``, j in ``columns``, in float64."""
    first, second = space.factors
    products = first[rows].double() @ first[columns].double().T
    if second is None:
        return products
    return products * (second[rows].double() @ second[columns].double().T + float(space.bias))


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
        return torch.cdist(first[rows], first[columns], compute_mode=BY_DIFFERENCES)
    norms = squared_norms(space)
    squared = norms[rows][:, None] + norms[columns][None, :] - 2 * inner(space, rows, columns)
    return squared.clamp(min=0).sqrt().to(first.dtype)


def weighted_sum(space: Metric, indices: Tensor | slice, weights: Tensor | None = None) -> Tensor:
    """Σ_k δ_k g_k, flattened, in float64; weights left out are one."""
    first, second = space.factors
    if second is None and weights is None:  # in pieces, or doubles would need memory of their own
        few = first.numel() <= 8 * PIECE
        parts = torch.split(first[indices], len(first) if few else max(1, PIECE // first.shape[1]))
        return torch.stack([part.double().sum(dim=0) for part in parts]).sum(dim=0)
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
    lengths = [torch.linalg.vector_norm(f, dim=1).double() for f in space.factors if f is not None]
    if len(lengths) == 2:
        lengths[0] *= (lengths[1].square() + float(space.bias)).sqrt()
    scale = float(lengths[0].sum())
    if whole <= 1e-9 * scale or whole == 0:
        whole = scale / max(1, len(space))
    return gap / whole if whole > 0 else 0.0
