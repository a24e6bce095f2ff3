"""Synthetic(α, β): logistic data whose clients differ in model (α) and in inputs (β).

Li et al. 2020 (FedProx); section 6.1 of the paper. With the default seed 0 the sizes are those
of the paper's Table 1: 30 clients, 20,101 training samples, mean 670, standard deviation 1,148.
"""

from typing import Any

import numpy as np
import torch

from fedcore.errors import BadOption
from fedcore.sources.files import DataDir
from fedcore.types import ClientData, FederatedDataset
from fedcore.values import read_number, whole_number

BENCHMARKS = ("synthetic-0-0", "synthetic-0.5-0.5", "synthetic-1-1")
PAPER = dict.fromkeys(BENCHMARKS, (30, 20_101, 670, 1_148))
NOTE = "The paper counts test samples for its other datasets, but not here."

_COMMON = {"rounds": 100, "epochs": 10, "batch_size": 8, "clients_per_round": 10}
_HYPERPARAMETERS: dict[str, dict[str, Any]] = {
    # The paper's table of hyper-parameters (appendix B.1).
    "paper": {"model": "logistic", "learning_rate": 0.001, "fedprox_mu": 0.1},
    # What the published numbers come from: the authors' configuration files.
    "authors-code": {"model": "logistic-sigmoid", "learning_rate": 0.01, "fedprox_mu": 1.0},
}
_AUTHORS_SEEDS = {(0.0, 0.0): 2, (0.5, 0.5): 4, (1.0, 1.0): 3}


def hyperparameters(preset: str, alpha: float, beta: float) -> dict[str, Any]:
    """What a preset sets for Synthetic(α, β); the authors have a seed for each of their three."""
    values = {**_COMMON, **_HYPERPARAMETERS[preset]}
    if preset == "authors-code" and (alpha, beta) in _AUTHORS_SEEDS:
        values["seed"] = (_AUTHORS_SEEDS[alpha, beta],)
    return values


def parse(suffix: str) -> dict[str, Any]:
    """Options from the rest of a name: ``0.5-0.5`` is α = β = 0.5; nothing is (1, 1)."""
    if not suffix:
        return {"alpha": 1.0, "beta": 1.0}
    try:
        alpha, beta = (read_number(part, float) for part in suffix.split("-"))
    except ValueError:
        what = "benchmark must look like synthetic-ALPHA-BETA"
        raise BadOption(f"{what}, as in synthetic-0.5-0.5, got 'synthetic-{suffix}'") from None
    return {"alpha": alpha, "beta": beta}


def load(
    *,
    seed: int = 0,
    data_dir: DataDir = None,
    alpha: float = 1.0,
    beta: float = 1.0,
    clients: int = 30,
    dimension: int = 60,
    classes: int = 10,
) -> FederatedDataset:
    """Generate the data; the order of the draws is the recipe, so it is kept literally.

    Per client i: m^i = int(lognormal(4, 2)) + 50; u ~ N(0, α), B ~ N(0, β) (standard
    deviations); centre v ~ N(B, 1); W ~ N(u, 1), b ~ N(u, 1); x ~ N(v, diag(j^-1.2));
    y = argmax(xW + b). The first nine tenths of a client's shuffled samples train.
    """
    for name, value in (("alpha", alpha), ("beta", beta)):
        if not isinstance(value, int | float) or not 0 <= value < float("inf"):
            raise BadOption(f"{name} must be a number of at least 0, got {value!r}")
    # Far beyond any use, and what still ends in a sentence and not in a failure of memory.
    whole_number("clients", clients, 1, 1_000_000)
    whole_number("dimension", dimension, 1, 10_000)
    whole_number("classes", classes, 2, 10_000)
    # The legacy generator, because the paper's numbers come from it.
    draw = np.random.RandomState(seed)
    sizes = draw.lognormal(4, 2, clients).astype(int) + 50
    model_means = draw.normal(0, alpha, clients)
    centres = np.stack([draw.normal(mean, 1, dimension) for mean in draw.normal(0, beta, clients)])
    covariance = np.diag(np.arange(1, dimension + 1) ** -1.2)
    train: dict[int, ClientData] = {}
    held_out: list[tuple[torch.Tensor, torch.Tensor]] = []
    for client, size in enumerate(sizes):
        weight = draw.normal(model_means[client], 1, (dimension, classes))
        bias = draw.normal(model_means[client], 1, classes)
        x = draw.multivariate_normal(centres[client], covariance, size)
        # The original shuffles without a seed; ours has one, apart from the draws above.
        order = np.random.RandomState([seed, client]).permutation(size)
        inputs = torch.from_numpy(x[order]).float()
        labels = torch.from_numpy(np.argmax(x @ weight + bias, axis=1)[order])
        cut = int(0.9 * size)
        train[client] = ClientData(inputs[:cut], labels[:cut])
        held_out.append((inputs[cut:], labels[cut:]))
    test = ClientData(*map(torch.cat, zip(*held_out, strict=True)))
    return FederatedDataset(train, test, classes)
