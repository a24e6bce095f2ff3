"""How many samples fit before the deadline (section 4.2 and section 4.4 of the paper).

All decisions are made in whole samples. ``capacity`` is the largest number of samples whose
time, computed exactly as the clock computes it, does not exceed τ; budgets divide it with
floor. So no plan can be late by a rounding error.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

from fedcore.types import ClientProfile, LocalPlan


def capacity(client: ClientProfile, deadline: float) -> int:
    """Largest whole number of samples w with w / c^i <= τ: the paper's c^i·τ."""
    work = math.floor(client.capability * deadline)
    # c·τ rounds once and w / c rounds once: they can disagree by a unit in the last place.
    while client.seconds(work + 1) <= deadline:
        work += 1
    while work > 0 and client.seconds(work) > deadline:
        work -= 1
    return work


def full_set_fits(client: ClientProfile, deadline: float, epochs: int) -> bool:
    """Algorithm 1, line 6: E·m^i <= c^i·τ; where equal, line 9 has the full set too."""
    return epochs * client.num_samples <= capacity(client, deadline)


def coreset_budget(
    client: ClientProfile,
    deadline: float,
    epochs: int,
    prices: Sequence[float],
    fewest_epochs: int = 0,
    *,
    shorten: bool = False,
) -> tuple[int, int]:
    """(b^i, epochs on it): floor((c^i·τ - Σ_p ceil(p·m^i)) / epochs) samples; (0, 0) if none fit.

    The ``prices`` p, in trained samples per sample, are of what comes before: 1 for an epoch on
    everything (4.2, with E - 1 behind it), ρ for a forward pass (4.4 b), and that of choosing, free
    in the paper (docs/adr/0004). With ``fewest_epochs`` that time goes into a larger coreset, of
    at most m^i samples. To ``shorten`` is to train on one for as many epochs as fit (4.4 a).
    """
    left = capacity(client, deadline) - sum(math.ceil(p * client.num_samples) for p in prices)
    if epochs < 1 or left <= 0:
        return 0, 0
    times = min(max(fewest_epochs or epochs, -(-left // client.num_samples)), epochs)
    budget = min(left // times, client.num_samples)
    if budget == 0:
        return (1, left) if shorten else (0, 0)
    return budget, times


def caught_up(plan: LocalPlan, num_samples: int, epochs: int, limit: float) -> LocalPlan:
    """The plan with steps scaled by φ = min(limit, E·m / n), n the samples it trains.

    E epochs move a client by about η/|B| · Σ of E·m gradients, a plan for n samples by n of them.
    With φ both agree in the mean, as a coreset promises of an epoch: Σ_k δ_k ∇L_k ≈ Σ_j ∇L_j. Large
    steps would overshoot, hence the ``limit``; 1 leaves every step as it is (docs/adr/0011).
    """
    trained = plan.trained(num_samples)
    if trained == 0:
        return plan
    return replace(plan, step_scale=max(1.0, min(limit, epochs * num_samples / trained)))
