"""Linear classifiers of many clients as one batched matrix product."""

from __future__ import annotations

import torch
from torch import Tensor

from fedcore.stacked import Form, Stack, affine


def batched_linear(*, sigmoid: bool) -> Form:
    """The form of ``LinearClassifier``."""

    def forward(params: Stack, x: Tensor, probe: Tensor | None) -> tuple[Tensor, Tensor | None]:
        inputs = x.flatten(2)
        scores = affine(inputs, params["linear.weight"], params["linear.bias"])
        scores = scores if probe is None else scores + probe
        return torch.sigmoid(scores) if sigmoid else scores, inputs

    return forward
