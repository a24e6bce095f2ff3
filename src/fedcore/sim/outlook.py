"""What a deadline means for a fleet, by arithmetic alone: slow clients, rounds, where time goes."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from fedcore.config import Experiment
from fedcore.types import ClientProfile, LocalPlan

RETURNS = 0.5  # a client that takes the share x of its E·m samples' steps moves a round by x^0.5


@dataclass(frozen=True, slots=True)
class Outlook:
    """What is known of a deadline: a row of the table, its titles the names."""

    deadline: float  # seconds
    of_tau: float  # how many of τ it has beside the time of sending
    slow: float  # share of clients that cannot do E epochs on everything in time
    rounds_per_hour: float  # in the mean over cohorts
    coresets: tuple[float, ...]  # quartiles of their sizes, if there are any
    sending: float  # share of a drawn client's round, as the next three
    on_all: float
    on_coresets: float
    waiting: float
    time: float  # of a further run to the target; untried, that of a round over its worth
    within: float = 1.0  # 80 % of runs lie within this factor of it
    tried: int = 0  # rounds


def outlook(
    deadline: float,
    of_tau: float,
    profiles: Iterable[ClientProfile],
    plan: Callable[[ClientProfile, float, int], LocalPlan],
    experiment: Experiment,
    model_bytes: int,
) -> Outlook:
    """The arithmetic of one deadline, for these clients under a strategy's ``plan``."""
    epochs, rows = experiment.epochs, []
    for one in profiles:
        size, sending = one.num_samples, one.transfer_seconds(model_bytes)
        planned = plan(one, max(0.0, deadline - sending), epochs)
        work = planned.work(size)
        whole = sum(phase.work(size) for phase in planned.phases if phase.coreset is None)
        sets = [phase.coreset.budget for phase in planned.phases if phase.coreset is not None]
        late = one.seconds(epochs * size, model_bytes) > deadline
        share = min(1.0, planned.step_scale * planned.trained(size) / (epochs * size))
        parts = sending * (work > 0), whole / one.capability, (work - whole) / one.capability
        rows.append((size, late, share**RETURNS, sets[0] if sets else 0, *parts))
    sizes, late, worths, budgets, *times = np.array(rows, float).T
    chance = sizes if experiment.selection == "proportional" else np.ones_like(sizes)
    chance, seconds = chance / chance.sum(), np.sum(times, axis=0)
    order = np.argsort(seconds)
    # The longest of K draws is at most the k-th shortest with probability (Σ_{j<=k} p_j)^K.
    within = np.cumsum(chance[order]) ** experiment.clients_per_round
    length = max(float(seconds[order] @ np.diff(within, prepend=0.0)), 1e-9)
    spent = np.array([chance @ part for part in times]) / length
    chosen = budgets[budgets > 0]
    quartiles = tuple(np.percentile(chosen, (25, 50, 75)).tolist()) if len(chosen) else ()
    sending, whole, cores = spent.tolist()
    worth, waiting = float(chance @ worths), max(0.0, 1 - float(spent.sum()))
    known = float(late.mean()), 3600 / length, quartiles, sending, whole, cores, waiting
    return Outlook(deadline, of_tau, *known, length / worth if worth else np.inf)
