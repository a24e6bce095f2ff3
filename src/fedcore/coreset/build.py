"""Build a coreset: stand-ins for gradients go in, a weighted subset comes out (Eq. 5)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from fedcore import plugins
from fedcore.coreset.candidates import Candidates, Select
from fedcore.errors import BadOption
from fedcore.types import Coreset, Generator

Options = tuple[tuple[str, Any], ...]  # of a selector's own, by name


def build_coreset(
    candidates: Candidates,
    budget: int,
    selector: str,
    generator: Generator,
    options: Options = (),
) -> Coreset:
    """At most ``budget`` of the candidates, with weights that sum to their number n.

    A budget of n or more is no reduction: everything comes back, each with weight one.
    """
    size = len(candidates)
    if budget >= size:
        everything = torch.arange(size, device=candidates.space.factors[0].device)
        ones = torch.ones(size, dtype=torch.float64, device=everything.device)
        return Coreset(everything, ones, 0.0, 0.0, everything)
    coreset = selector_of(selector, options)(candidates, budget, generator)
    _check(coreset, size, budget, selector)
    return coreset


def selector_of(name: str, options: Options = ()) -> Select:
    """The function of a selector: what its ``build`` makes of options, else its ``select``."""
    if hasattr(plugins.load("selector", name), "build"):
        built: Select = plugins.build("selector", name, Callable, method=dict(options))
        return built
    select: Select = plugins.function("selector", name, "select")
    return select


def _check(coreset: Coreset, size: int, budget: int, selector: str) -> None:
    """Refuse what no executor should train on: compiled loops do not look where they read.

    Raises:
        BadOption: If samples or weights are not those of a coreset.
    """
    if not isinstance(coreset, Coreset):  # whose method it is may not know our types
        raise BadOption(
            f"selector {selector!r} must return a Coreset, got a {type(coreset).__name__}"
        )
    indices, weights = coreset.indices, coreset.weights
    chosen = len(indices)
    if not 0 < chosen <= budget or len(weights) != chosen:
        raise BadOption(
            f"selector {selector!r} gave {chosen} samples with {len(weights)} weights; "
            f"it must give 1 to {budget}, with a weight each"
        )
    if (
        not 0 <= int(indices.min()) <= int(indices.max()) < size
        or len(torch.unique(indices)) < chosen
    ):
        raise BadOption(f"selector {selector!r} must give different indices from 0 to {size - 1}")
    total = float(weights.sum())
    if not bool((weights > 0).all()) or not math.isclose(total, size, rel_tol=1e-3):
        raise BadOption(
            f"selector {selector!r} gave weights that sum to {total:g}; "
            f"they must be above 0 and sum to the number of samples, {size}"
        )
