"""Build a coreset: stand-ins for gradients go in, a weighted subset comes out (Eq. 5)."""

import functools
import logging
import math
from collections.abc import Callable
from dataclasses import replace
from types import ModuleType
from typing import Any

import numpy as np
import torch

from fedcore import plugins
from fedcore.coreset.candidates import Candidates, Select
from fedcore.coreset.weights import everything
from fedcore.errors import BadOption, FedCoreError
from fedcore.types import Coreset, Generator

log = logging.getLogger(__name__)

Options = tuple[tuple[str, Any], ...]  # of a selector's own, by name
PLAIN = "uniform-plain"  # what takes the place of a choice that failed


def build_coreset(
    candidates: Candidates, budget: int, selector: str, generator: Generator, options: Options = ()
) -> Coreset:
    """At most ``budget`` of the candidates, with weights that sum to their number n.

    A selector of ours that fails never ends a run: a plain draw takes its place, and says so. One
    of the user's own that fails raises ``BadOption``.
    """
    size = len(candidates.space)
    if budget >= size:
        return everything(size, candidates.space.factors[0].device)
    cause = None
    try:
        coreset = selector_of(selector, options)(candidates, budget, generator)
        wrong = _what_is_wrong(coreset, size, budget)
    except FedCoreError:  # a sentence about what the selector was given
        raise
    except Exception as error:
        wrong, cause = f"failed: {type(error).__name__}: {error}", error
    if wrong is None:
        indices, weights = map(torch.as_tensor, (coreset.indices, coreset.weights))
        return replace(coreset, indices=indices.long(), weights=weights)
    if selector.endswith(".py"):
        raise BadOption(f"selector {selector!r} {wrong}") from cause
    log.warning("selector %r %s; took %d of %d samples at random", selector, wrong, budget, size)
    return replace(selector_of(PLAIN)(candidates, budget, generator), fell_back=True)


_ours = functools.cache(functools.partial(plugins.load, "selector"))


def module_of(name: str) -> ModuleType:
    """Where a selector lives; a file of the user's own may have changed since it was read."""
    return plugins.load("selector", name) if name.endswith(".py") else _ours(name)


def selector_of(name: str, options: Options = ()) -> Select:
    """The function of a selector: what its ``build`` makes of options, else its ``select``."""
    if hasattr(module_of(name), "build"):
        built: Select = plugins.build("selector", name, Callable, method=dict(options))
        return built
    select: Select | None = getattr(module_of(name), "select", None)
    return select or plugins.function("selector", name, "select")  # which says what is missing


def _what_is_wrong(coreset: Coreset, size: int, budget: int) -> str | None:
    """Say why no executor should train on this: compiled loops do not look where they read."""
    if not isinstance(coreset, Coreset):  # whose method it is may not know our types
        return f"must return a Coreset, got a {type(coreset).__name__}"
    both = coreset.indices, coreset.weights
    names, shares = (torch.as_tensor(one).cpu().numpy() for one in both)
    if names.ndim != 1 or names.shape != shares.shape or not 0 < len(names) <= budget:
        gave = f"gave indices of shape {list(names.shape)} and weights of {list(shares.shape)}"
        return f"{gave}; it must give 1 to {budget} samples, with a weight each"
    different = names if (names[1:] > names[:-1]).all() else np.unique(names)
    outside = not 0 <= different[0] <= different[-1] < size
    if names.dtype.kind not in "iu" or len(different) < len(names) or outside:
        return f"must give different indices, whole numbers from 0 to {size - 1}"
    total = float(shares.sum())
    sums = coreset.sums_in_the_mean or math.isclose(total, size, rel_tol=1e-3)
    if not shares.min() > 0 or not sums:
        must = f"they must be above 0 and sum to the number of samples, {size}"
        return f"gave weights that sum to {total:g}; {must}"
    return None
