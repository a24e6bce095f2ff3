"""What a run cost and whom it served: time to accuracy, clients' time, bytes, staleness, fairness.

Seconds are those of the virtual clock. Rounds on disk are in units of the deadline, whose length
stands in the ``Ending`` of a run; without one, as in folders of earlier versions, nothing is known.
"""

import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from fedcore.records import RoundRecord

NOT_ANSWERED = ("cancelled", "lost")  # of what is wasted; the rest came, and was of no use
SHARES = (0.90, 0.95, 0.99)  # of the best final accuracy: what is a target where none is given


def targets_of(strategies: Iterable[Sequence[Sequence[RoundRecord]]]) -> tuple[float, ...]:
    """Default targets of a comparison: shares of the best final accuracy.

    That of a strategy is the median of its seeds, as tables show it.
    """
    final = [
        statistics.median(values)
        for runs in strategies
        if (values := [a for run in runs if (a := run[-1].test_accuracy) is not None])
    ]
    return tuple(share * max(final) for share in SHARES) if final else ()


def time_to_accuracy(rounds: Sequence[RoundRecord], target: float) -> float | None:
    """Deadlines until the first evaluation at or above ``target``; None: it is not reached."""
    passed = 0.0
    for record in rounds:
        passed += record.time
        if record.test_accuracy is not None and record.test_accuracy >= target:
            return passed
    return None


def jain(values: Iterable[float], count: int) -> float | None:
    """Jain's fairness (Σ x)² / (n Σ x²) of n clients, those not among ``values`` with x = 0.

    1: all the same; 1 / n: one has all. None where nobody has any.
    """
    known = list(values)
    squares = sum(value * value for value in known)
    return sum(known) ** 2 / (count * squares) if squares else None


def costs(rounds: Sequence[RoundRecord], targets: Sequence[float]) -> dict[str, Any]:
    """All of it for one run; names as in ``summary.json``."""
    ending = rounds[-1].ending
    if ending is None:
        return {}
    sent = [(c, c.seconds / r.deadline) for r in rounds for c in r.clients if c.work > 0]
    whole = [r for r in rounds if not r.cut]  # what a budget ends is neither merged nor wasted
    lost = (c.seconds / r.deadline for r in whole for c in r.clients if c.wasted is not None)
    merged = [c for r in whole for c in r.clients if c.work > 0 and c.wasted is None]
    times: Counter[int] = Counter()
    for client in merged:
        times[client.client_id] += client.copies
    stale = [client.staleness for client in merged]
    unit = ending.deadline_seconds
    known = asdict(ending)
    del known["validation_accuracy"]  # by which the run was chosen, and so no result
    return known | {
        "time_to_accuracy": [
            {"target": target, "seconds": None if time is None else unit * time}
            for target, time in ((one, time_to_accuracy(rounds, one)) for one in targets)
        ],
        "virtual_seconds": unit * sum(record.time for record in rounds),
        "client_seconds": unit * sum(time for _, time in sent),
        "wasted_client_seconds": unit * sum(lost),
        "bytes_down": ending.model_bytes * len(sent),
        "bytes_up": ending.model_bytes * sum(c.wasted not in NOT_ANSWERED for c, _ in sent),
        "participation_fairness": jain(times.values(), ending.clients),
        "mean_staleness": statistics.fmean(stale) if any(stale) else None,
        "largest_staleness": max(stale) if any(stale) else None,
    }
