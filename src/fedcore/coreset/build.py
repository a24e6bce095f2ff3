"""Build a coreset: stand-ins for gradients go in, a weighted subset comes out (Eq. 5)."""

from __future__ import annotations

import torch

from fedcore import plugins
from fedcore.coreset.candidates import Candidates, Select
from fedcore.types import Coreset, Generator


def build_coreset(
    candidates: Candidates, budget: int, selector: str, generator: Generator
) -> Coreset:
    """At most ``budget`` of the candidates, with weights that sum to their number n.

    A budget of n or more is no reduction: everything comes back, each with weight one.
    """
    size = len(candidates)
    if budget >= size:
        everything = torch.arange(size, device=candidates.space.factors[0].device)
        ones = torch.ones(size, dtype=torch.float64, device=everything.device)
        return Coreset(everything, ones, 0.0, 0.0, everything)
    select: Select = plugins.load("selector", selector).select
    return select(candidates, budget, generator)
