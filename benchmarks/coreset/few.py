"""Few medoids among many points: a few candidates a medoid against the exact path."""

from __future__ import annotations

import time
from collections.abc import Callable

from benchmarks.coreset.data import residual_gradients
from fedcore.coreset.medoids.solve import solve
from fedcore.coreset.proxies import residual_metric

# n, k, classes, width of the last layer, stage; the first is the size of Shakespeare's largest role
CASES = (
    (41_305, 800, 90, 256, "middle"),
    (20_000, 100, 10, 512, "late"),
    (20_000, 400, 10, 512, "middle"),
)


def measure(quick: bool, say: Callable[[str], None]) -> list[dict[str, object]]:
    """Return one row a case; the exact path takes a minute for the largest."""
    rows: list[dict[str, object]] = []
    for count, k, classes, width, stage in CASES[1:] if quick else CASES:
        metric = residual_metric(*residual_gradients(count, stage, classes=classes, width=width))
        warm_up = residual_gradients(5_000, stage, classes=classes, width=width)
        solve(residual_metric(*warm_up), 50)
        seconds, objectives = [], []
        for path in ("auto", "exact"):
            begin = time.process_time()
            answer = solve(metric, k, path="auto" if path == "auto" else "exact")
            seconds.append(time.process_time() - begin)
            objectives.append(answer.objective)
        rows.append(
            {
                "n": count,
                "k": k,
                "dimensions": metric.factors[0].shape[1],
                "stage": stage,
                "sampled s": round(seconds[0], 2),
                "exact s": round(seconds[1], 2),
                "times faster": round(seconds[1] / seconds[0], 1),
                "objective sampled / exact": round(objectives[0] / objectives[1], 5),
            }
        )
        say(str(rows[-1]))
    return rows
