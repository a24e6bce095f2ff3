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

from fedcore.coreset.metric import Euclidean, Metric, OuterProduct, residual_metric
from fedcore.errors import BadOption

STATIC = "input"
LAST_LAYER_INPUT = "last-layer-input"
LOGITS = "logits"
LAST_LAYER = "last-layer"
NONE = "none"  # for random subsets, which need no distances; not an option of its own
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


def space_of(proxy: str, seen: HeadGradients, weight: Tensor, *, bias: bool) -> Metric:
    """The space in which ``proxy`` measures distances, as small as exactness allows.

    Args:
        proxy: one of the three that look at gradients.
        seen: what the passes yielded.
        weight: W [C, d] of the last layer.
        bias: whether that layer has one.
    """
    if proxy == LAST_LAYER_INPUT:
        return residual_metric(seen.residuals, weight)
    if proxy == LAST_LAYER:
        return OuterProduct(seen.residuals, seen.inputs, bias)
    if proxy == LOGITS:
        return Euclidean(seen.residuals)
    known = ", ".join(name for name in PROXIES if name != STATIC)
    raise BadOption(f"proxy must be one of {known} to look at gradients, got {proxy!r}")
