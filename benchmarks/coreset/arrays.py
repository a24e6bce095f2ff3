"""What a user of ``select_coreset(array, k)`` gets: the call as a whole, against the public solver.

Both sides begin with the same array: theirs is sklearn's Euclidean distances, in column-major
order, and ``kmedoids.fasterpam`` from a random start. CPU time, the best of several; objectives are
averaged over seeds, for random starts differ.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from fedcore import select_coreset

Rows = NDArray[np.float32]


def tables() -> Iterator[tuple[str, Rows, tuple[float, ...], float]]:
    """Small tables that come with scikit-learn, each column of variance one."""
    from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine

    loads = {"iris": load_iris, "wine": load_wine, "breast cancer": load_breast_cancer}
    for name, load in loads.items():
        rows = load().data
        rows = (rows - rows.mean(axis=0)) / rows.std(axis=0)
        yield name, rows.astype(np.float32), (0.05, 0.2, 0.5), 1.0
    yield "digits", load_digits().data[:600].astype(np.float32), (0.05, 0.2, 0.5), 1.0


def documents(count: int = 4_500, words: int = 1_000) -> Rows:
    """TF-IDF rows of made-up texts: 20 topics over words whose frequency falls as 1 / rank."""
    draw = np.random.default_rng(0)
    common = 1 / np.arange(1, words + 1)
    common /= common.sum()
    topics = draw.dirichlet(np.full(words, 0.02), 20)
    counts = np.zeros((count, words))
    for row in counts:
        chances = (common + topics[draw.integers(20)]) / 2
        np.add.at(row, draw.choice(words, size=draw.integers(20, 120), p=chances), 1)
    rarity = np.log(count / (1 + (counts > 0).sum(axis=0)))
    rows = counts * np.maximum(rarity, 0.1)
    unit: Rows = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    return unit


def large(quick: bool) -> Iterator[tuple[str, Rows, tuple[float, ...], float]]:
    """Vectors of 512 numbers in 10 dimensions and in all, and texts."""
    draw = np.random.default_rng(0)
    for count, target in ((2_000, 3.0), (6_000, 15.0), (10_000, 25.0))[: 1 if quick else 3]:
        rows = draw.normal(size=(count, 10)) @ draw.normal(size=(10, 512))
        yield "rank 10", rows.astype(np.float32), (0.2, 0.5), target
    if not quick:
        yield "full rank", draw.normal(size=(6_000, 512)).astype(np.float32), (0.2, 0.5), 2.0
        yield "TF-IDF", documents(), (0.2, 0.5), 1.0


def measure(quick: bool, say: Callable[[str], None]) -> list[dict[str, object]]:
    """Return one row an array and budget."""
    rows = []
    for name, points, shares, target in (*tables(), *large(quick)):
        for share in shares:
            rows.append(compare(name, points, share, target))
            say(str(rows[-1]))
    return rows


def compare(name: str, points: Rows, share: float, target: float) -> dict[str, object]:
    """Time both in turns, each repeat from a seed of its own."""
    import kmedoids
    from sklearn.metrics.pairwise import euclidean_distances

    k, repeats = int(share * len(points)), 30 if len(points) < 1_000 else 3
    select_coreset(points, k)  # compiled or loaded before it is measured
    seconds: tuple[list[float], list[float]] = ([], [])
    objectives: tuple[list[float], list[float]] = ([], [])
    for seed in range(repeats):
        begin = time.process_time()
        found = select_coreset(points, k, seed=seed)
        middle = time.process_time()
        distances = np.asfortranarray(euclidean_distances(points))
        theirs = kmedoids.fasterpam(distances, k, init="random", random_state=seed, n_cpu=1)
        end = time.process_time()
        seconds[0].append(middle - begin)
        seconds[1].append(end - middle)
        objectives[0].append(float(found.objective or 0.0))
        objectives[1].append(float(theirs.loss))
    ours, others = min(seconds[0]), min(seconds[1])
    return {
        "array": name,
        "n": len(points),
        "d": points.shape[1],
        "k/n": share,
        "ours ms": round(1e3 * ours, 2),
        "theirs ms": round(1e3 * others, 2),
        "times faster": round(others / ours, 2),
        "target": target,
        "objective ratio": round(sum(objectives[0]) / sum(objectives[1]), 5),
    }
