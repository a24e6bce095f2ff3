"""Measure the k-medoids solver: ``python -m benchmarks.coreset [--quick]``.

Speed is a ratio of CPU times inside one run, one thread each, medians of at least five; theirs is
sklearn's Euclidean distances of the 512-dimensional gradients, in column-major order, plus
``kmedoids.fasterpam`` from a random start, which is its fastest form. Ours starts from residuals
and the last layer's matrix. Both sides take turns, and each repeat has a seed of its own: their
random starts differ by about 5e-4 in objective, so objectives are averaged. Each large size runs
in a process of its own, for its peak memory.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from benchmarks.coreset import arrays, digits, few
from benchmarks.coreset.data import STAGES, residual_gradients
from benchmarks.coreset.floor import all_distances_ms
from benchmarks.coreset.machine import describe
from fedcore.coreset.medoids.solve import solve
from fedcore.coreset.metric import Metric, pair_distances
from fedcore.coreset.proxies import residual_metric

RESULTS = Path(__file__).parents[1] / "results"
SHARES = (0.05, 0.2, 0.5, 0.8)
TARGETS = {10_000: (20, 30, 40, 50), 2_000: (3, 3, 3, 3), 500: (1, 1, 1, 1)}
REPEATS = 5
NOTES = {
    "speed": (
        "Ours starts from residuals (10 numbers a sample) and the last layer's matrix W, as "
        "training yields them; theirs gets the 512-dimensional gradients. What a user of "
        "`select_coreset(array, k)` gets from the same array stands in the next table.\n\n"
    ),
    "plain arrays": (
        "The whole call `select_coreset(array, k)` against sklearn's distances and "
        "`kmedoids.fasterpam` on the same array; CPU time, one thread, the best of several.\n\n"
    ),
    "anytime": (
        "A budget may be exceeded by one exact assignment of all samples to the chosen ones; "
        "weights and objective are always those of what is returned.\n\n"
    ),
    "before and after": (
        "When the solver was made smaller: the same solves by the version before that and by the "
        "one after it, in turns, CPU time, the best of several. Medoids are the same.\n\n"
    ),
}
REAL = ("real gradients", "share of a straggler's training")
EARLIER = ("before and after", "few medoids, before and after")  # kept: its command is of then


def say(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def median_seconds(work: Callable[[], object], repeats: int = REPEATS) -> float:
    times = []
    for _ in range(repeats):
        begin = time.process_time()
        work()
        times.append(time.process_time() - begin)
    return statistics.median(times)


def objective_of(metric: Metric, chosen: NDArray[np.integer]) -> float:
    """Σ_j min_k d_jk, by the same arithmetic for everybody's medoids."""
    everyone, members = torch.arange(len(metric)), torch.from_numpy(np.sort(chosen).astype(int))
    to_chosen = torch.cdist(metric.factors[0], metric.factors[0][members])
    return float(pair_distances(metric, everyone, members[to_chosen.argmin(dim=1)]).sum())


def compare(count: int, stage: str, share: float, target: int) -> dict[str, object]:
    """Time both in turns, each repeat from a seed of its own, and average the objectives."""
    import kmedoids
    from sklearn.metrics.pairwise import euclidean_distances

    residuals, weight = residual_gradients(count, stage)
    gradients = (residuals.astype(np.float64) @ weight).astype(np.float32)
    k, metric = int(share * count), residual_metric(residuals, weight)
    ours, theirs, our_seconds, their_seconds = [], [], [], []
    solve(metric, k)  # compiled or loaded before it is measured; the cost is reported apart
    for seed in range(REPEATS):
        begin = time.process_time()
        answer = solve(residual_metric(residuals, weight), k, seed=seed)
        middle = time.process_time()
        distances = np.asfortranarray(euclidean_distances(gradients))
        found = kmedoids.fasterpam(distances, k, init="random", random_state=seed, n_cpu=1)
        their_seconds.append(time.process_time() - middle)
        our_seconds.append(middle - begin)
        ours.append(answer.objective)
        theirs.append(objective_of(metric, found.medoids))
    seconds = statistics.median(our_seconds), statistics.median(their_seconds)
    row: dict[str, object] = {
        "n": count,
        "stage": stage,
        "k/n": share,
        "ours ms": round(seconds[0] * 1e3, 1),
        "theirs ms": round(seconds[1] * 1e3, 1),
        "times faster": round(seconds[1] / seconds[0], 1),
        "target": target,
        "objective ratio": round(statistics.mean(ours) / statistics.mean(theirs), 5),
        "spread of theirs": round((max(theirs) - min(theirs)) / statistics.mean(theirs), 5),
        "floor ms": round(all_distances_ms(count, metric.factors[0].shape[1]), 2),
        "certified": round(answer.certified, 3),
        "path": answer.path,
    }
    say(str(row))
    return row


def measure_large(count: int, share: float, stage: str) -> None:
    """Print seconds and additional megabytes of one solve; run in a process of its own."""
    residuals, weight = residual_gradients(count, stage)
    warm_up, _ = residual_gradients(3_000, stage)
    solve(residual_metric(warm_up, weight), int(share * 3_000), path="sparse")
    metric = residual_metric(residuals, weight)
    # The high-water mark can be reset: what was needed before does not hide what is needed now.
    Path("/proc/self/clear_refs").write_text("5")
    before = _resident_megabytes()
    begin = time.process_time()
    answer = solve(metric, int(share * count))
    seconds = time.process_time() - begin
    peak = _status("VmHWM:") / 1024
    sys.stdout.write(
        json.dumps(
            {
                "n": count,
                "k/n": share,
                "stage": stage,
                "seconds": round(seconds, 2),
                "additional MB": round(peak - before),
                "certified": round(answer.certified, 3),
            }
        )
    )


def _status(field: str) -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return float(line.split()[1])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _resident_megabytes() -> float:
    return _status("VmRSS:") / 1024


def in_own_process(*arguments: str) -> dict[str, object]:
    command = [sys.executable, "-m", "benchmarks.coreset", *arguments]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    row: dict[str, object] = json.loads(done.stdout)
    say(str(row))
    return row


def warm_starts(count: int) -> dict[str, object]:
    """What starting from the last answer saves when gradients have moved by a tenth."""
    residuals, weight = residual_gradients(count, "middle")
    cold = solve(residual_metric(residuals, weight), count // 5)
    noise = np.random.default_rng(1).normal(size=residuals.shape)
    moved = residuals * (1 + 0.1 * noise).astype(np.float32)
    metric = residual_metric(moved, weight)
    again, fresh = solve(metric, count // 5, start=cold.indices), solve(metric, count // 5)
    row: dict[str, object] = {
        "n": count,
        "k/n": 0.2,
        "swaps cold": fresh.swaps,
        "swaps warm": again.swaps,
        "ms cold": round(1e3 * median_seconds(lambda: solve(metric, count // 5)), 1),
        "ms warm": round(
            1e3 * median_seconds(lambda: solve(metric, count // 5, start=cold.indices)), 1
        ),
        "objective warm / cold": round(again.objective / fresh.objective, 5),
    }
    say(str(row))
    return row


def anytime(count: int) -> list[dict[str, object]]:
    """How well a wall-clock budget is kept, and what it buys."""
    metric = residual_metric(*residual_gradients(count, "middle"))
    best = solve(metric, count // 5).objective
    solve(metric, count // 5, seconds=1e-3)
    rows: list[dict[str, object]] = []
    for seconds in (0.05, 0.1, 0.2, 0.5, 1.0, 2.0):
        times = []
        for _ in range(3):
            begin, worked = time.perf_counter(), time.thread_time()
            answer = solve(metric, count // 5, seconds=seconds)
            times.append((time.perf_counter() - begin, time.thread_time() - worked))
        spent, worked = sorted(times)[1]
        rows.append(
            {
                "n": count,
                "budget s": seconds,
                "spent s": round(spent, 3),
                "of that on the CPU s": round(worked, 3),
                "finished": answer.finished,
                "objective / unhurried": round(answer.objective / best, 4),
            }
        )
        say(str(rows[-1]))
    return rows


def first_call() -> dict[str, object]:
    """Seconds until the first answer: compiling everything, and loading it from disk."""
    script = (
        "import time, numpy as np; from fedcore.coreset.medoids.solve import solve;"
        "x = np.random.default_rng(0).normal(size=(3000, 4)); b = time.perf_counter();"
        "solve(x, 600); print(time.perf_counter() - b)"
    )
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "NUMBA_CACHE_DIR": folder}
        seconds = [
            float(
                subprocess.run(
                    [sys.executable, "-c", script],
                    env=environment,
                    check=True,
                    capture_output=True,
                    text=True,
                ).stdout
            )
            for _ in range(2)
        ]
    row: dict[str, object] = {
        "compiling s": round(seconds[0], 1),
        "from the cache on disk s": round(seconds[1], 2),
    }
    say(str(row))
    return row


def table(rows: list[dict[str, object]]) -> str:
    names = list(rows[0])
    lines = ["| " + " | ".join(names) + " |", "|" + " --- |" * len(names)]
    lines += ["| " + " | ".join(str(row[name]) for name in names) + " |" for row in rows]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes, for a first look")
    parser.add_argument("--data", type=Path, help="folder that holds mnist/, for real gradients")
    parser.add_argument("--load", default="not noted", help="what else ran on the machine")
    parser.add_argument("--arrays", action="store_true", help="only plain arrays; writes nothing")
    parser.add_argument("--real", action="store_true", help="real gradients anew; the rest stays")
    parser.add_argument("--large", nargs=3, metavar=("N", "SHARE", "STAGE"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    with threadpool_limits(1):
        if options.large:
            measure_large(int(options.large[0]), float(options.large[1]), options.large[2])
        elif options.arrays:
            sys.stdout.write(table(arrays.measure(options.quick, say)) + "\n")
        elif options.real:
            report = json.loads((RESULTS / "coreset.json").read_text())
            report.update(zip(REAL, digits.measure(options.data, say), strict=True))
            write(report, "coreset")
        else:
            measure_all(options.quick, options.data, options.load)


def measure_all(quick: bool, data: Path | None, load: str) -> None:
    sizes = (500, 2_000) if quick else (500, 2_000, 10_000)
    large = (10_000,) if quick else (10_000, 50_000, 100_000, 200_000)
    begin = time.perf_counter()
    speed = [
        compare(count, stage, share, target)
        for count in sizes
        for stage in STAGES
        for share, target in zip(SHARES, TARGETS[count], strict=True)
    ]
    scale = [in_own_process("--large", str(n), "0.2", stage) for n in large for stage in STAGES]
    seconds = {(row["n"], row["stage"]): float(str(row["seconds"])) for row in scale}
    exponents = {
        stage: round(math.log10(seconds[100_000, stage] / seconds[10_000, stage]), 2)
        for stage in STAGES
        if (100_000, stage) in seconds
    }
    report: dict[str, Any] = {
        "machine": {**describe(), "other load": load},
        "speed": speed,
        "plain arrays": arrays.measure(quick, say),
        "scale": scale,
        "growth exponent from 10,000 to 100,000": exponents,
        "few medoids": few.measure(quick, say),
        "warm start": [warm_starts(2_000 if quick else 10_000)],
        "anytime": anytime(10_000 if quick else 50_000),
        **dict(zip(REAL, digits.measure(data, say), strict=True)),
        "first call": [first_call()],
        "took s": round(time.perf_counter() - begin),
    }
    name = "coreset-quick" if quick else "coreset"
    kept = json.loads(path.read_text()) if (path := RESULTS / f"{name}.json").exists() else {}
    write(report | {title: kept[title] for title in EARLIER if title in kept}, name)


def write(report: dict[str, Any], name: str) -> None:
    """Results as JSON and as tables."""
    (RESULTS / f"{name}.json").write_text(json.dumps(report, indent=1) + "\n")
    text = [f"# k-medoids solver\n\nMachine: {json.dumps(report['machine'])}\n"]
    text.append("Times are CPU times of one thread, but for *Anytime* and *First call*.\n")
    titles = ("speed", "plain arrays", "scale", "few medoids", "warm start", "anytime", *REAL)
    for title in (*titles, "first call", *EARLIER):
        if title in report:
            rows = table(report[title])
            text.append(f"## {title.capitalize()}\n\n{NOTES.get(title, '')}{rows}\n")
    exponents = report["growth exponent from 10,000 to 100,000"]
    text.append(f"Growth exponent from n = 10,000 to 100,000: {exponents}\n")
    (RESULTS / f"{name}.md").write_text("\n".join(text))
    sys.stdout.write("\n".join(text))


if __name__ == "__main__":
    main()
