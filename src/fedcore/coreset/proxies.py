"""What stands in for a sample's gradient when distances are measured (section 4.3).

With z the input and a = Wz + b the output of the last linear layer, r = dL/da:

* ``input``: x itself, d~_jk = ||x_j - x_k||, for convex models. It does not change with the model,
  so a client's coreset is built once and kept.
* ``last-layer-input``: dL/dz = Wᵀr, the d^ of the paper.
* ``logits``: r.
* ``last-layer``: the gradient of the layer itself, r ⊗ [z, 1], by its Gram form.

The last three come out of passes that training makes anyway. A sample's r (and z) are taken when
the first epoch meets it, so at parameters that move; W is that of the epoch's end, so that all
samples are compared by one metric (docs/adr/0009-moving-parameters.md).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedcore.coreset.metric import Array, Euclidean, Metric, OuterProduct, as_rows
from fedcore.errors import BadOption

STATIC = "input"
LAST_LAYER_INPUT = "last-layer-input"
LOGITS = "logits"
LAST_LAYER = "last-layer"
NONE = "none"  # for random subsets, which need no distances; not an option of its own
REMEMBERED = "remembered"  # losses that a client keeps of its samples, likewise
PROXIES = (STATIC, LAST_LAYER_INPUT, LOGITS, LAST_LAYER)


@dataclass(frozen=True, slots=True)
class HeadGradients:
    """Per sample: ``residuals`` dL/da [n, C], ``inputs`` z [n, d] and ``losses`` [n]."""

    residuals: Tensor
    inputs: Tensor
    losses: Tensor

    @classmethod
    def gather(cls, parts: list[HeadGradients], order: Tensor | None = None) -> HeadGradients:
        """Join parts; ``order`` [n] says which sample each row is, and puts them in place."""
        joined = cls(
            torch.cat([part.residuals for part in parts]),
            torch.cat([part.inputs for part in parts]),
            torch.cat([part.losses for part in parts]),
        )
        if order is None:
            return joined
        place = torch.argsort(order).to(joined.residuals.device)
        return cls(joined.residuals[place], joined.inputs[place], joined.losses[place])


def residual_metric(residuals: Array, weight: Array) -> Euclidean:
    """Return gradients dL/dz = Wᵀ r in at most C dimensions, with their distances unchanged.

    r ↦ r L with L Lᵀ = W Wᵀ. L comes from the eigenvectors of W Wᵀ rather than from Cholesky's
    factor, so a rank-deficient W (more classes than inputs, dead units) is not a special case:
    directions that W does not see are dropped. ``weight`` is W [C, d].
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
    return Euclidean((rows.double() @ factor).to(rows.dtype))


def space_of(proxy: str, seen: HeadGradients, weight: Tensor, *, bias: bool) -> Metric:
    """The space in which a ``proxy`` that looks at gradients measures distances.

    ``weight`` is W [C, d] of the last layer, ``bias`` whether that layer has one.
    """
    if proxy == LAST_LAYER_INPUT:
        return residual_metric(seen.residuals, weight)
    if proxy == LAST_LAYER:
        return OuterProduct(seen.residuals, seen.inputs, bias)
    if proxy == LOGITS:
        return Euclidean(seen.residuals)
    known = ", ".join(name for name in PROXIES if name != STATIC)
    raise BadOption(f"proxy must be one of {known} to look at gradients, got {proxy!r}")
