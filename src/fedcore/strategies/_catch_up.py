"""Larger steps for those who take fewer: what a deadline takes away, given back in part."""

from __future__ import annotations

from dataclasses import replace

from fedcore.types import LocalPlan


def caught_up(plan: LocalPlan, num_samples: int, epochs: int, limit: float) -> LocalPlan:
    """The plan with steps scaled by φ = min(limit, E·m / n), n the samples it trains.

    E epochs on everything move a client by about η/|B| · Σ of E·m gradients, as long as the model
    changes little; a plan for n samples moves it by n of them. With φ the two agree in the mean,
    which is what a coreset promises of an epoch: Σ_k δ_k ∇L_k ≈ Σ_j ∇L_j. Steps of any size would
    overshoot, hence the ``limit``; 1 leaves every step as the paper has it
    (docs/adr/0011-larger-steps-for-stragglers.md).
    """
    trained = plan.trained(num_samples)
    if trained == 0:
        return plan
    return replace(plan, step_scale=max(1.0, min(limit, epochs * num_samples / trained)))
