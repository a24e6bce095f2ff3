"""How local models become the next global model (Algorithm 1, line 15)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from fedcore.errors import BadOption
from fedcore.types import LocalUpdate, Params

Aggregate = Callable[[Params, Sequence[LocalUpdate]], Params]


def mean(params: Params, updates: Sequence[LocalUpdate]) -> Params:
    """w_{r+1} = (1/K) Σ_{i in U_r} w_r^i; a client drawn twice counts twice."""
    return _weighted(params, updates, [update.copies for update in updates])


def by_samples(params: Params, updates: Sequence[LocalUpdate]) -> Params:
    """w_{r+1} = Σ m^i w_r^i / Σ m^i, as the authors' code and FedAvg's authors have it."""
    weights = [update.copies * update.num_samples for update in updates]
    return _weighted(params, updates, weights)


AGGREGATIONS: dict[str, Aggregate] = {"mean": mean, "samples": by_samples}


def aggregation(name: str) -> Aggregate:
    """The aggregation called ``name``."""
    if name not in AGGREGATIONS:
        raise BadOption(f"aggregation must be one of {', '.join(AGGREGATIONS)}, got {name!r}")
    return AGGREGATIONS[name]


def _weighted(params: Params, updates: Sequence[LocalUpdate], weights: Sequence[float]) -> Params:
    if not updates:  # everybody sat out: the model stays as it is
        return params
    total = float(sum(weights))
    merged = {}
    for name, current in params.items():
        # float64, so that the order of the answers cannot show in a float32 result
        accumulated = torch.zeros_like(current, dtype=torch.float64)
        for update, weight in zip(updates, weights, strict=True):
            accumulated += (weight / total) * update.params[name].to(torch.float64)
        merged[name] = accumulated.to(current.dtype)
    return merged
