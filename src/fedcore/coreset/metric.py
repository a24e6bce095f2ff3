"""The spaces that gradients live in, each as small as exactness allows, and what is computed there.

Two common proxies never need their long vectors for the distances of Eq. 5:

- dL/dz_i = Wᵀ r_i, with r = softmax − one-hot, has its distances in as many dimensions as there
  are classes (``proxies.residual_metric``);
- the last layer's gradient r_i ⊗ z̃_i, z̃ = [z, 1] where the layer has a bias: ⟨g_i, g_j⟩ =
  ⟨r_i, r_j⟩ ⟨z̃_i, z̃_j⟩, and Σ_j δ_j g_j = Rᵀ diag(δ) Z̃, a [C, d + 1] matrix.

Nothing is centred: late in training that would turn small distinct gradients into duplicates.
Numbers are float32 wherever that loses nothing.
"""

import math
from collections.abc import Iterable, Iterator
from typing import Self, TypeAlias, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedcore.arrays import as_tensor

BY_DIFFERENCES = "donot_use_mm_for_euclid_dist"
PIECE = 1 << 17  # numbers computed with at a time, in pairs: as doubles they fit into a cache
BLOCK = 1 << 24  # distances held at a time: 64 MB of float32
SMALLEST, LARGEST = 2.0**-30, 2.0**40  # of a set's largest number: squares stay inside float32
OFFSET = 2.0**10  # times the spread: so far from zero, float32 has few digits left for it

Array: TypeAlias = Tensor | NDArray[np.floating] | NDArray[np.integer]
Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
Ints = NDArray[np.int32]
Indices = NDArray[np.int64]
Places = NDArray[np.bool_]


class NotFinite(ValueError):
    """NaN or infinity where distances are to be computed."""


def as_rows(values: Array, name: str) -> Tensor:
    """Return ``values`` as a contiguous, finite matrix [n, d] on its own device, or refuse.

    In float32, unless squares would overflow or vanish, or numbers far from zero would lose what
    tells points apart; then in float64.
    """
    if type(values) is not np.ndarray or values.dtype.kind != "f":
        tensor = as_tensor(name, values).detach()
    else:  # which may have strides, or a kind that torch does not know
        kind = np.float64 if values.dtype.itemsize > 4 else np.float32
        array = np.ascontiguousarray(values, kind)
        usable = array.flags.writeable and min(array.strides, default=0) >= 0
        tensor = torch.from_numpy(array if usable else array.copy())
    if tensor.ndim != 2:
        got = f"got shape {tuple(tensor.shape)}"
        raise ValueError(f"{name} must be a matrix with one row a sample, {got}")
    # Adding 0 turns -0.0 into 0.0, so that equal rows have equal bits.
    rows = (tensor.to(torch.float32) + 0.0).contiguous()
    if not rows.numel():
        return rows
    # The least and the largest are NaN if any number is: one pass, a tenth of asking each of them.
    low, high = (float(end) for end in torch.aminmax(rows))
    if not math.isfinite(largest := max(-low, high)):
        bad = int((~torch.isfinite(rows)).any(dim=1).nonzero()[0])
        raise NotFinite(f"{name} must be finite float32 numbers, but row {bad} is not")
    more = tensor.dtype in (torch.float64, torch.int64, torch.int32) and _far_from_zero(rows)
    lost = more and not torch.equal(rows.double(), tensor.double())
    fits = SMALLEST <= largest <= LARGEST and not lost
    return rows if fits else (tensor.to(torch.float64) + 0.0).contiguous()


def near_zero(rows: Tensor) -> Tensor:
    """Return rows that lie far from zero less the middle of each column, others as they are."""
    return rows - sum(torch.aminmax(rows, dim=0)) / 2 if _far_from_zero(rows) else rows


def _far_from_zero(rows: Tensor) -> bool:
    """Say whether numbers are large against how far they spread in any column."""
    ends = (torch.aminmax(some, dim=0) for some in (rows[:8], rows))  # of most, a few tell
    return all(
        bool(torch.maximum(-low, high).max() > OFFSET * (high.double() - low.double()).max())
        for low, high in ends
    )


def _scaled(rows: Tensor) -> Tensor:
    """Return float64 rows in float32, times the power of two that brings the largest to 1."""
    largest = rows.abs().max() if rows.numel() else rows.new_zeros(())
    return torch.ldexp(rows, -torch.frexp(largest).exponent).float() + 0.0


class Metric:
    """n samples as what their distances are computed from: one factor [n, d], or two."""

    __slots__ = ("bias", "factors")
    factors: tuple[Tensor, ...]
    bias: bool  # whether a second factor ends in a constant 1

    def __len__(self) -> int:
        return self.factors[0].shape[0]

    def take(self, indices: Tensor) -> Self:
        """Return the space of some of the samples, in the order of ``indices``."""
        return self.of((factor[indices] for factor in self.factors), self.bias)

    def single(self) -> Self:
        """Return float32 factors with these distances, up to one power of two and rounding."""
        if all(factor.dtype == torch.float32 for factor in self.factors):
            return self
        *others, last = (factor.double() for factor in self.factors)
        if self.bias:  # the constant must shrink with the inputs; as a column, it does
            last = torch.cat((last, torch.ones_like(last[:, :1])), dim=1)
        last = last if others else near_zero(last)
        return self.of((_scaled(factor) for factor in (*others, last)), False)

    def of(self, factors: Iterable[Tensor], bias: bool) -> Self:
        """Return a space of samples that have been checked before."""
        space = object.__new__(type(self))
        space.factors, space.bias = tuple(factors), bias
        return space


@final
class Euclidean(Metric):
    """Points [n, d] with distance ‖p_i − p_j‖."""

    __slots__ = ()

    def __init__(self, points: Array) -> None:
        self.factors, self.bias = (as_rows(points, "points"),), False


@final
class OuterProduct(Metric):
    """Last-layer gradients r_i ⊗ [z_i, 1] as their factors: residuals [n, C], inputs [n, d].

    With Δ for the difference of two samples, z̃ = [z, 1], s the mean of two squared norms, and
    rearranged so that nearby samples do not cancel,

        ‖g_i − g_j‖² = ‖Δr‖² (s_z − ‖Δz‖²/4) + ‖Δz‖² (s_r − ‖Δr‖²/4) + Δ‖r‖² Δ‖z̃‖² / 2.
    """

    __slots__ = ()

    def __init__(self, residuals: Array, inputs: Array, bias: bool = True) -> None:
        left, right = as_rows(residuals, "residuals"), as_rows(inputs, "inputs")
        if len(left) != len(right):
            got = f"got {len(left)} and {len(right)}"
            raise ValueError(f"residuals and inputs must have as many rows as each other, {got}")
        # A zero residual makes a zero gradient whatever the input: such samples are duplicates.
        silent = ~left.any(dim=1)
        if bool(silent.any()):
            right = torch.where(silent[:, None], torch.zeros_like(right), right)
        self.factors, self.bias = (left, right), bias


def pair_distances(space: Metric, first: Tensor, second: Tensor) -> Tensor:
    """Return the distances [m] of paired samples, from differences, in float64."""
    width = sum(max(1, factor.shape[1]) for factor in space.factors)
    size = max(1, PIECE // width if first.device.type == "cpu" else len(first))
    pairs = zip(torch.split(first, size), torch.split(second, size), strict=True)
    return torch.cat([_between(space, one, other) for one, other in pairs])


def _between(space: Metric, first: Tensor, second: Tensor) -> Tensor:
    ends = [(factor[first].double(), factor[second].double()) for factor in space.factors]
    left, *rest = [(one - other).square().sum(dim=1) for one, other in ends]
    if not rest:
        return left.sqrt()
    (one, other), (z, other_z) = [[end.square().sum(1) for end in pair] for pair in ends]
    z, other_z, right = z + float(space.bias), other_z + float(space.bias), rest[0]
    squared = left * ((z + other_z) / 2 - right / 4) + right * ((one + other) / 2 - left / 4)
    squared += (one - other) * (z - other_z) / 2
    return squared.clamp(min=0).sqrt()


def blocks(rows: int, columns: int) -> Iterator[slice]:
    """Slices of ``rows`` so that a block against ``columns`` stays within memory."""
    size = max(1, BLOCK // max(1, columns))
    for start in range(0, rows, size):
        yield slice(start, min(start + size, rows))


def inner(space: Metric, rows: Tensor | slice, columns: Tensor | slice) -> Tensor:
    """<g_i, g_j> for i in ``rows``, j in ``columns``, in float64."""
    first, *rest = (factor[rows].double() @ factor[columns].double().T for factor in space.factors)
    return first * (rest[0] + float(space.bias)) if rest else first


def squared_norms(space: Metric) -> Tensor:
    """||g_j||² for every sample, in float64; in pieces, which take no memory for doubles of all."""
    found = [factor.new_empty(len(factor), dtype=torch.float64) for factor in space.factors]
    for factor, norms in zip(space.factors, found, strict=True):
        size = 1 + PIECE // max(1, factor.shape[1])
        for part, own in zip(torch.split(factor, size), torch.split(norms, size), strict=True):
            torch.sum(part.double().square(), dim=1, out=own)
    first, *rest = found
    return first * (rest[0] + float(space.bias)) if rest else first


def distances(space: Metric, rows: Tensor | slice, columns: Tensor | slice) -> Tensor:
    """||g_i - g_j||, i in ``rows``, j in ``columns``: by differences, of outer products by Gram."""
    first = space.factors[0]
    if len(space.factors) == 1:
        return torch.cdist(first[rows], first[columns], compute_mode=BY_DIFFERENCES)
    norms = squared_norms(space)
    squared = norms[rows][:, None] + norms[columns][None, :] - 2 * inner(space, rows, columns)
    return squared.clamp(min=0).sqrt().to(first.dtype)


def weighted_sum(space: Metric, indices: Tensor | slice, weights: Tensor | None = None) -> Tensor:
    """Σ_k δ_k g_k, flattened, in float64; weights left out are one."""
    first, *rest = space.factors
    if not rest and weights is None:  # in pieces: doubles of all would need memory of their own
        parts = torch.split(first[indices], 1 + PIECE // max(1, first.shape[1]))
        sums = first.new_empty(len(parts), first.shape[1], dtype=torch.float64)
        for part, own in zip(parts, sums, strict=True):
            torch.sum(part, dim=0, dtype=torch.float64, out=own)
        return sums.sum(dim=0)
    left = first[indices].double()
    if weights is not None:
        left = left * weights.to(left)[:, None]
    if not rest:
        return left.sum(dim=0)
    total = left.T @ rest[0][indices].double()
    if space.bias:
        total = torch.cat([total, left.sum(0)[:, None]], dim=1)
    return total.flatten()


def gradient_error(space: Metric, indices: Tensor, weights: Tensor) -> float:
    """||Σ_j g_j - Σ_k δ_k g_k|| / ||Σ_j g_j|| (ε, Eq. 2), or by the mean length where that is 0."""
    everything = weighted_sum(space, slice(None))
    gap = float((everything - weighted_sum(space, indices, weights)).norm())
    whole = float(everything.norm())
    lengths = squared_norms(space).sqrt()
    return relative(gap, whole, float(lengths.sum()) / max(1, len(space)), len(space))


def relative(gap: float, whole: float, length: float, count: int) -> float:
    """``gap`` / ``whole``, or / their mean ``length`` where ``count`` gradients cancel."""
    scale = whole if whole > 1e-9 * length * count else length
    return gap / scale if scale > 0 else 0.0
