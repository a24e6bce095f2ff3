"""How many samples fit before the deadline (section 4.2 and section 4.4 of the paper).

All decisions are made in whole samples. ``capacity`` is the largest number of samples whose
time, computed exactly as the clock computes it, does not exceed τ; budgets divide it with
floor. So no plan can be late by a rounding error.
"""

from __future__ import annotations

import math

from fedcore.types import ClientProfile


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
    """Algorithm 1, line 6: E·m^i < c^i·τ.

    Equality counts as fitting: such a client ends exactly on time, and line 9 would give it a
    coreset of b^i = m^i, which is the full set again.
    """
    return epochs * client.num_samples <= capacity(client, deadline)


def one_pass_fits(client: ClientProfile, deadline: float) -> bool:
    """Section 4.4: can the client afford the first epoch on everything, m^i <= c^i·τ?"""
    return client.num_samples <= capacity(client, deadline)


def coreset_budget(
    client: ClientProfile,
    deadline: float,
    epochs: int,
    forward_price: float = 0.0,
    fewest_epochs: int = 0,
    selection_price: float = 0.0,
) -> tuple[int, int]:
    """(b^i, epochs on it): floor((c^i·τ - m^i) / (E - 1)) samples for E - 1 epochs, section 4.2.

    With E = 1 no epoch is left for a coreset, so the budget is 0. A forward pass on everything
    between the first epoch and the coreset's takes ceil(ρ·m^i) more, ρ its price, and so does
    choosing the coreset, which is free in the paper (docs/adr/0004). Where fewer
    epochs will do, the same time goes into a larger coreset; into no fewer epochs, however, than
    it takes to spend that time on at most m^i samples.
    """
    passes = sum(math.ceil(p * client.num_samples) for p in (1, forward_price, selection_price))
    left = capacity(client, deadline) - passes
    if epochs <= 1 or left <= 0:
        return 0, 0
    fewest = max(fewest_epochs or epochs, -(-left // client.num_samples))
    return _spread(left, min(fewest, epochs - 1), client.num_samples)


def static_coreset_budget(
    client: ClientProfile,
    deadline: float,
    epochs: int,
    fewest_epochs: int = 0,
    selection_price: float = 0.0,
) -> tuple[int, int]:
    """Section 4.4 a): (samples, epochs) for a client that cannot afford one full pass.

    E epochs, or the fewest that will do, on floor(c^i·τ / E) samples. A client with fewer than E
    samples of capacity trains on one sample for as many epochs as fit; (0, 0) if it cannot
    process a single sample.
    """
    limit = capacity(client, deadline) - math.ceil(selection_price * client.num_samples)
    wanted = min(fewest_epochs or epochs, epochs)
    if limit < wanted:
        return (1, limit) if limit > 0 else (0, 0)
    return _spread(limit, wanted, client.num_samples)


def forward_coreset_budget(
    client: ClientProfile,
    deadline: float,
    epochs: int,
    forward_price: float,
    fewest_epochs: int = 0,
    selection_price: float = 0.0,
) -> tuple[int, int]:
    """Section 4.4 b): (samples, epochs) after a forward pass on everything; (0, 0) if none fit.

    floor((c^i·τ - ceil(ρ·m^i)) / E) samples for E epochs, with ρ the price of a forward pass in
    trained samples.
    """
    looks = sum(math.ceil(p * client.num_samples) for p in (forward_price, selection_price))
    left = capacity(client, deadline) - looks
    return _spread(max(0, left), min(fewest_epochs or epochs, epochs), client.num_samples)


def _spread(work: int, epochs: int, num_samples: int) -> tuple[int, int]:
    budget = min(work // epochs, num_samples)
    return (budget, epochs) if budget > 0 else (0, 0)
