"""What stands in for a sample's gradient when distances are measured (section 4.3).

With z the input and a = Wz + b the output of the last linear layer, r = dL/da:

* ``input``: x itself, d~_jk = ||x_j - x_k||, for convex models. It does not change with the model,
  so a client's coreset is built once and kept.
* ``last-layer-input``: dL/dz = Wᵀr, the d^ of the paper.
* ``logits``: r.
* ``last-layer``: the gradient of the layer itself, r ⊗ [z, 1], by its Gram form.

The last three come out of passes that training makes anyway, at parameters that move; W is that of
the epoch's end, one metric for all (docs/adr/0009-moving-parameters.md).
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Self

import torch
from torch import Tensor

from fedcore.bundle import Inputs
from fedcore.coreset.metric import Array, Euclidean, Metric, OuterProduct, as_rows
from fedcore.errors import BadOption
from fedcore.task import Task
from fedcore.types import Params
from fedcore.values import one_of

STATIC = "input"
LAST_LAYER_INPUT = "last-layer-input"
LOGITS = "logits"
LAST_LAYER = "last-layer"
NONE = "none"  # for random subsets, which need no distances; not an option of its own
REMEMBERED = "remembered"  # losses that a client keeps of its samples, likewise
PROXIES = (STATIC, LAST_LAYER_INPUT, LOGITS, LAST_LAYER)


class HeadGradients(NamedTuple):
    """Per sample: ``residuals`` dL/da [n, C], ``inputs`` z [n, d] and ``losses`` [n]."""

    residuals: Tensor
    inputs: Tensor
    losses: Tensor

    @classmethod
    def gather(cls, parts: Sequence[Self], order: Tensor | None = None) -> Self:
        """Join parts; ``order`` [n] says which sample each row is, and puts them in place."""
        joined = cls(*map(torch.cat, zip(*parts, strict=True)))
        if order is None:
            return joined
        places = torch.argsort(order).to(joined.residuals.device)
        return cls(*(values[places] for values in joined))


def head_gradients(
    task: Task, params: Params, batches: Iterable[tuple[Inputs, Tensor]], *, keep: bool = True
) -> HeadGradients:
    """dL/da, L and, to ``keep``, z of all samples, by forward passes in order (section 4.4 b)."""
    fixed = {name: value.detach() for name, value in params.items()}
    # Layers may be of different types, and hold whole numbers; the last ones are as the head is.
    like = next(value for value in reversed(fixed.values()) if value.is_floating_point())
    parts = []
    for x, y in batches:
        probe = like.new_zeros(len(x), task.head_width, requires_grad=True)
        scores, inputs = task.forward(fixed, x, probe)
        assert inputs is not None  # where there is a probe
        losses = task.losses(scores, y)
        (residuals,) = torch.autograd.grad(losses.sum(), probe)
        entered = inputs.detach() if keep else residuals.new_empty(len(residuals), 0)
        parts.append(HeadGradients(residuals, entered, losses.detach()))
    return HeadGradients.gather(parts)


def residual_metric(residuals: Array, weight: Array) -> Euclidean:
    """Return gradients dL/dz = Wᵀ r in at most C dimensions, with their distances unchanged.

    r ↦ r L with L Lᵀ = W Wᵀ, by eigenvectors, so that a rank-deficient ``weight`` W [C, d] is not a
    special case: directions that W does not see are dropped.
    """
    rows, matrix = as_rows(residuals, "residuals"), as_rows(weight, "weight").double()
    if rows.shape[1] != matrix.shape[0]:
        there = f"({rows.shape[1]} by the residuals), got {matrix.shape[0]}"
        raise ValueError(f"weight must have one row a class {there}")
    values, vectors = torch.linalg.eigh(matrix @ matrix.T)
    seen = values > values[-1] * 1e-12 * len(values)
    if not bool(seen.any()):
        return Euclidean(torch.zeros_like(rows[:, :1]))
    factor = (vectors[:, seen] * values[seen].sqrt()).flip(1)  # most telling direction first
    return Euclidean((rows.double() @ factor).to(rows.dtype))


def space_of(proxy: str, seen: HeadGradients, weight: Tensor, *, bias: bool) -> Metric:
    """The space of a ``proxy`` that looks at gradients; ``weight`` is the last layer's W [C, d]."""
    one_of(LAST_LAYER_INPUT, LOGITS, LAST_LAYER)("proxy that looks at gradients", proxy)
    if proxy == LAST_LAYER_INPUT:
        return residual_metric(seen.residuals, weight)
    if proxy == LOGITS:
        return Euclidean(seen.residuals)
    if seen.inputs.shape[1] == 0:
        often = "runs once a sample, but here it runs at several positions"
        raise BadOption(f"proxy 'last-layer' needs a last layer that {often}; use {LOGITS!r}")
    return OuterProduct(seen.residuals, seen.inputs, bias)
