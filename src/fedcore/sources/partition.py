"""Two classes per client, amounts by a power law: how FedProx deals out MNIST.

Li et al. 2020 (FedProx), section 5.1; section 6.1 of the paper.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedcore.errors import BadOption

CLASSES = 10
FIRST = 5  # images of each of its classes that every client gets before the draw

Rows = NDArray[np.int64]


def by_power_law(labels: NDArray[np.int64], *, clients: int, sigma: float, seed: int) -> list[Rows]:
    """Which rows each client holds, class by class in the order they were handed out.

    Client u holds classes u mod 10 (slot 0) and (u + 1) mod 10 (slot 1), and first takes the next
    5 rows of each. Weights w[class, block, slot] ~ lognormal(0, sigma), block u // 10, scaled so
    that a class's weights sum to the rows it has left, and truncated, say how many further rows
    each client and slot gets, in order of u, then slot. A grant that would reach the end of a
    class is skipped, so a few rows stay with nobody.

    Args:
        labels: [n] classes 0 to 9, in file order.
        clients: how many, a multiple of 10.
        sigma: of the lognormal; FedProx has 2.
        seed: of NumPy's legacy generator. FedProx sets none, so its draw cannot be repeated.
    """
    _check(labels, clients, sigma)
    rows = [np.flatnonzero(labels == number) for number in range(CLASSES)]
    taken = [0] * CLASSES
    owned: list[list[Rows]] = [[] for _ in range(clients)]

    def hand_out(client: int, number: int, count: int) -> None:
        owned[client].append(rows[number][taken[number] : taken[number] + count])
        taken[number] += count

    for client in range(clients):
        for slot in (0, 1):
            hand_out(client, (client + slot) % CLASSES, FIRST)
    grants = _grants(
        [len(group) - used for group, used in zip(rows, taken, strict=True)],
        clients // CLASSES,
        sigma,
        seed,
    )
    for client in range(clients):
        for slot in (0, 1):
            number = (client + slot) % CLASSES
            count = int(grants[number, client // CLASSES, slot])
            if taken[number] + count < len(rows[number]):
                hand_out(client, number, count)
    return [np.concatenate(parts) for parts in owned]


def _grants(left: list[int], blocks: int, sigma: float, seed: int) -> NDArray[np.float64]:
    # The legacy generator, because the seeds that match published numbers were searched with it.
    weights = np.random.RandomState(seed).lognormal(0, sigma, (CLASSES, blocks, 2))
    total = weights.sum(axis=(1, 2), keepdims=True)
    grants: NDArray[np.float64] = np.asarray(left)[:, None, None] * weights / total
    return grants


def _check(labels: NDArray[np.int64], clients: int, sigma: float) -> None:
    if not isinstance(clients, int) or clients < CLASSES or clients % CLASSES:
        raise BadOption(f"clients must be a multiple of {CLASSES}, as in 1000, got {clients}")
    if not isinstance(sigma, int | float) or not 0 <= sigma <= 20:
        raise BadOption(f"sigma must be a number from 0 to 20, got {sigma}; FedProx has 2")
    fewest = int(np.bincount(labels, minlength=CLASSES)[:CLASSES].min())
    needed = 2 * FIRST * clients // CLASSES
    if fewest < needed:
        raise BadOption(
            f"clients must be at most {fewest // (2 * FIRST) * CLASSES}, since some class has "
            f"only {fewest} images and every client needs {FIRST} of each of its two, got {clients}"
        )
