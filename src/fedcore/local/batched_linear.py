"""Linear classifiers of many clients as one batched matrix product."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from fedcore.local.affine import affine

Forward = Callable[[Mapping[str, Tensor], Tensor, Tensor | None], tuple[Tensor, Tensor | None]]


def batched_linear(*, sigmoid: bool) -> Forward:
    """The form of ``LinearClassifier``."""

    def forward(
        params: Mapping[str, Tensor], x: Tensor, probe: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        inputs = x.flatten(2)
        scores = affine(inputs, params["linear.weight"], params["linear.bias"])
        scores = scores if probe is None else scores + probe
        return torch.sigmoid(scores) if sigmoid else scores, inputs

    return forward
