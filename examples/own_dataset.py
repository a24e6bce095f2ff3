"""A dataset of your own: a CSV table whose rows are dealt to clients by one of its columns.

    fedcore compare --benchmark examples/own_dataset.py --data file=visits.csv --data by=clinic \
        --data label=diagnosis --out runs/own-data
    fedcore data stats examples/own_dataset.py

``load`` is all that is needed; its keyword parameters are what ``--data KEY=VALUE`` may set.
Without a file, it makes a small table up. ``hyperparameters`` may set any option of ``fedcore
compare`` for this data. Copied to ``src/fedcore/datasets/`` it is one of the benchmarks that
``fedcore list`` shows.
"""

import csv
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fedcore.types import ClientData, FederatedDataset


def hyperparameters(preset: str) -> dict[str, Any]:
    """A start for a table: standardised columns take large steps."""
    return {"model": "logistic", "learning_rate": 0.1, "clients_per_round": 5}


def load(
    *,
    seed: int = 0,
    file: str = "",
    by: str = "clinic",
    label: str = "diagnosis",
    train: float = 0.8,
) -> FederatedDataset:
    """All other columns are inputs, standardised; a share ``train`` of the rows trains."""
    text = Path(file).read_text("utf-8-sig") if file else ""  # spreadsheets begin with a mark
    rows = list(csv.DictReader(text.splitlines())) if file else made_up(seed)
    inputs = np.array([[float(row[key]) for key in row if key not in (by, label)] for row in rows])
    inputs = (inputs - inputs.mean(axis=0)) / (inputs.std(axis=0) + 1e-6)
    names, classes = np.unique([row[label] for row in rows], return_inverse=True)
    owners, owner = np.unique([row[by] for row in rows], return_inverse=True)
    training = np.random.default_rng(seed).random(len(rows)) < train
    parts = [np.flatnonzero(training & (owner == number)) for number in range(len(owners))]
    x, y = torch.from_numpy(inputs), torch.from_numpy(classes)
    clients = [ClientData(x[part], y[part]) for part in parts if len(part)]
    held_out = ClientData(x[~training], y[~training])
    return FederatedDataset(
        dict(enumerate(clients)), held_out if len(held_out) else None, len(names)
    )


def made_up(seed: int) -> list[dict[str, str]]:
    """Twenty clinics of different sizes whose patients' age and pressure tell two diagnoses."""
    draw = np.random.default_rng(seed)
    clinics = draw.choice(20, 2_000, p=(sizes := draw.lognormal(0, 1, 20)) / sizes.sum())
    numbers = draw.normal((55, 130), (15, 20), (2_000, 2))
    risk = (numbers - (55, 130)) @ (0.05, 0.08) + draw.normal(0, 1, 2_000)
    table = zip(clinics, numbers, np.where(risk > 0, "high", "normal"), strict=True)
    return [
        {"clinic": str(clinic), "age": str(age), "pressure": str(pressure), "diagnosis": kind}
        for clinic, (age, pressure), kind in table
    ]
