"""FedCore as straight Python: Algorithm 1 of the paper, top to bottom, for a convex model.

No loop, plan or schedule of the library is used here; only its data, its named random streams
and its k-medoids. A test holds the library to this file: same draws in, same model out.

    python examples/naive_fedcore.py
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from fedcore.coreset.candidates import Candidates
from fedcore.coreset.metric import Euclidean
from fedcore.coreset.selectors.kmedoids import select
from fedcore.datasets import synthetic
from fedcore.seeding import stream


def naive_fedcore(
    clients: list[tuple[Tensor, Tensor]],
    model: nn.Module,
    *,
    rounds: int,
    cohort_size: int,
    epochs: int,
    batch_size: int,
    learning_rate: float,
    stragglers: float,
    seed: int,
) -> nn.Module:
    """Train ``model`` in place for some rounds that all meet the deadline, and return it."""
    sizes = np.array([len(y) for _, y in clients])  # m^i
    speeds = draw_speeds(len(clients), seed)  # c^i
    deadline = np.percentile(epochs * sizes / speeds, 100 - stragglers)  # τ
    for number in range(1, rounds + 1):  # line 2
        # Line 3: K clients, with probability p^i = m^i / Σ m, with replacement.
        draws = stream(seed, "cohort", number).choice(
            len(clients), size=cohort_size, p=sizes / sizes.sum()
        )
        # Line 4: everybody starts from the current model w_r.
        start = {name: value.clone() for name, value in model.state_dict().items()}
        answers = {}
        for i in dict.fromkeys(draws.tolist()):  # line 5; who is drawn twice trains once
            model.load_state_dict(start)
            x, y = clients[i]
            everything = np.arange(sizes[i]), np.ones(sizes[i])
            capacity = math.floor(speeds[i] * deadline)  # samples that fit before τ

            def train(phase: int, subset: tuple[np.ndarray, np.ndarray], passes: int) -> None:
                shuffles = stream(seed, "shuffle", number, i, phase)  # noqa: B023
                local_training(model, x, y, subset, passes, batch_size, learning_rate, shuffles)  # noqa: B023

            if epochs * sizes[i] <= capacity:  # line 6
                train(0, everything, epochs)  # line 7
            elif sizes[i] <= capacity:
                budget = (capacity - sizes[i]) // (epochs - 1)  # b^i, section 4.2
                train(0, everything, 1)  # line 9
                if budget > 0:
                    train(1, coreset(x, y, budget, seed, i), epochs - 1)  # lines 10 and 11
            elif capacity >= epochs:  # section 4.4 a): not even one pass over everything fits
                train(0, coreset(x, y, capacity // epochs, seed, i), epochs)
            else:
                continue
            answers[i] = {name: value.clone() for name, value in model.state_dict().items()}
        # Line 15: the mean of the answers, each as often as its client was drawn.
        counted = [answers[i] for i in draws.tolist() if i in answers] or [start]
        mean = {name: torch.stack([a[name] for a in counted]).mean(0) for name in start}
        model.load_state_dict(mean)
    return model


def draw_speeds(count: int, seed: int) -> np.ndarray:
    """c^i ~ N(1, 0.25), drawn again while below 0.1."""
    generator = stream(seed, "capability")
    speeds = generator.normal(1.0, 0.5, count)
    while (slow := speeds < 0.1).any():
        speeds[slow] = generator.normal(1.0, 0.5, slow.sum())
    return speeds


def coreset(x: Tensor, y: Tensor, budget: int, seed: int, i: int) -> tuple[np.ndarray, np.ndarray]:
    """Eq. 5 with d_jk = ||x_j - x_k||: medoids and the sizes δ of their clusters."""
    found = select(Candidates(Euclidean(x), y), int(budget), stream(seed, "coreset", i))
    return found.indices.numpy(), found.weights.numpy()


def local_training(
    model: nn.Module,
    x: Tensor,
    y: Tensor,
    subset: tuple[np.ndarray, np.ndarray],
    epochs: int,
    batch_size: int,
    learning_rate: float,
    shuffles: np.random.Generator,
) -> None:
    """Mini-batch SGD on (1/m) Σ_k δ_k L_k, in batches of the shuffled subset."""
    indices, weights = subset
    optimiser = torch.optim.SGD(model.parameters(), lr=learning_rate)
    orders = shuffles.permuted(np.tile(np.arange(len(indices)), (epochs, 1)), axis=1)
    for order in orders:
        for first in range(0, len(order), batch_size):
            batch = order[first : first + batch_size]
            losses = cross_entropy(model(x[indices[batch]]), y[indices[batch]], reduction="none")
            delta = torch.from_numpy(weights[batch]).float()
            scale = len(indices) / len(y)  # b / m: the expected step is the full-set step
            optimiser.zero_grad()
            loss = (scale * delta * losses).mean()
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()


if __name__ == "__main__":
    data = synthetic.load(alpha=1, beta=1)
    torch.manual_seed(0)
    trained = naive_fedcore(
        [(client.x, client.y) for client in data.clients.values()],
        nn.Linear(60, 10),
        rounds=5,
        cohort_size=10,
        epochs=10,
        batch_size=8,
        learning_rate=0.001,
        stragglers=30,
        seed=0,
    )
    assert data.test is not None
    right = (trained(data.test.x).argmax(1) == data.test.y).float().mean()
    print(f"accuracy on held-out data after 5 rounds: {right:.3f}")
