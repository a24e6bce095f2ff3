"""Build a coreset: stand-ins for gradients go in, a weighted subset comes out (Eq. 5)."""

from __future__ import annotations

import torch
from torch import Tensor

from fedcore import plugins
from fedcore.types import Coreset, CoresetSpec, Generator, Select


def build_coreset(
    points: Tensor, labels: Tensor, spec: CoresetSpec, generator: Generator
) -> Coreset:
    """At most ``spec.budget`` of the samples, with weights that sum to their number m.

    A budget of m or more is no reduction: everything comes back, each with weight one.

    Args:
        points: [m, ...] one stand-in per sample; flattened to vectors here.
        labels: [m] classes, for the selectors that look at them.
        spec: how many, by which selector.
        generator: for selectors that draw.
    """
    size = points.shape[0]
    if spec.budget >= size:
        return Coreset(torch.arange(size), torch.ones(size, dtype=torch.float64), 0.0)
    select: Select = plugins.load("selector", spec.selector).select
    return select(points.reshape(size, -1), spec.budget, labels=labels, generator=generator)
