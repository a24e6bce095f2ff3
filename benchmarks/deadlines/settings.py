"""What the study of deadlines runs: benchmarks, links, arms, and strategies.

τ30 is the deadline at 30 % stragglers of compute alone, the unit of all times here. Links are
equal: fetching the model and sending it back takes ``send`` τ30 together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fedcore.config import Experiment, resolve
from fedcore.sources.benchmark import find

# What clients do, the same in all arms of a study: our own, and the paper's with few epochs.
STRATEGIES: dict[str, dict[str, Any]] = {
    "tempo": {},
    "fedcore": {"coreset_epochs": 1, "catch_up": 3.0},
}
SENDS = (0.01, 0.1, 1.0)
SHARES = tuple(2.0**power for power in range(-5, 3))  # of τ30, beside the sending
FIXED = {f"{share:g}": share for share in SHARES}
CONTROLLERS = ("auto", "percentile", "mean", "ddl-e", "kth-arrival")
ARMS = (*FIXED, *CONTROLLERS)
REFERENCE_ROUNDS = 100  # of FedAvg, 95 % of whose final accuracy is the target
REACHED = 0.95


@dataclass(frozen=True)
class Part:
    """The study on one benchmark."""

    longest: float  # virtual time after which a run ends, in whole rounds of send + τ30
    seeds: tuple[int, ...] = (0, 1, 2)
    arms: tuple[str, ...] = ARMS
    strategies: tuple[str, ...] = tuple(STRATEGIES)
    target_of: int | None = None  # the seed whose FedAvg sets the target, if not each its own


SHORTER = tuple(arm for arm, share in FIXED.items() if share <= 1)
PARTS = {
    "synthetic-1-1": Part(100),
    # FedAvg takes 2.6 million client-steps a seed, hours of a core; Table 2 has one.
    "mnist": Part(40, (0, 1, 2), (*SHORTER, "auto"), ("tempo",), target_of=0),
}


def experiment_of(benchmark: str, seed: int, strategy: str, **more: Any) -> Experiment:
    """The options of a run; ``more`` goes before."""
    options = {
        "benchmark": benchmark,
        "seed": (seed,),
        "stragglers": (30.0,),
        "strategies": (strategy,),
        **STRATEGIES.get(strategy, {}),
        **more,
    }
    return resolve(options, lambda name, preset: find(name).hyperparameters(preset))
