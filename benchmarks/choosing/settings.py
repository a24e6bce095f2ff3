"""What the study runs: parts, their cells, and the experiment that each cell is."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.choosing.arms import ARMS, Arm, Prices, fits
from fedcore.config import Experiment, resolve
from fedcore.coreset.proxies import LAST_LAYER_INPUT, STATIC
from fedcore.sources.benchmark import find

PRICES = Path(__file__).parents[1] / "results" / "selection-price.json"
SLACK = 1 + 1e-9  # of the deadline, so that rounding takes no sample away


@dataclass(frozen=True)
class Cell:
    """One run: an arm under everything that the study varies."""

    arm: str
    share: float
    epochs: int
    schedule: str
    condition: str
    seed: int


@dataclass(frozen=True)
class Part:
    """Arms and conditions on one benchmark."""

    benchmark: str
    model: str
    arms: tuple[str, ...]
    shares: tuple[float, ...]
    epochs: tuple[int, ...]
    schedules: tuple[str, ...]
    conditions: tuple[str, ...]
    seeds: tuple[int, ...]
    rounds: int
    learning_rate: float
    options: Mapping[str, Any] = field(default_factory=dict)
    fewer_seeds: Mapping[str, int] = field(default_factory=dict)  # of arms that take long

    @property
    def prices(self) -> Prices:
        """As benchmarks/results/selection-price.json has them."""
        rows = json.loads(PRICES.read_text("utf-8"))
        price = next(row["price"] for row in rows if row["model"] == self.model)
        return Prices(STATIC if self.model == "logistic" else LAST_LAYER_INPUT, price)

    def settings(self) -> Iterator[tuple[str, str, int, float]]:
        """Everything but arm and seed: (condition, schedule, epochs, share)."""
        return itertools.product(self.conditions, self.schedules, self.epochs, self.shares)

    def cells(self) -> list[Cell]:
        """All runs, those of one condition and seed together and in a mixed order.

        With E = 1 a draw per round, a draw per epoch and a partial epoch are one thing.
        """
        found: list[Cell] = []
        for seed, condition in itertools.product(self.seeds, self.conditions):
            some = [
                Cell(arm, share, epochs, schedule, condition, seed)
                for other, schedule, epochs, share in self.settings()
                for arm in self.arms
                if other == condition
                and fits(ARMS[arm], self.prices, share, epochs)
                and not (epochs == 1 and arm in ("random-epochs", "partial"))
                and self.seeds.index(seed) < self.fewer_seeds.get(arm, len(self.seeds))
            ]
            random.Random(len(found)).shuffle(some)  # pieces of equal length take equally long
            found += some
        return found


MAIN = tuple(ARMS)[:9]
PARTS: dict[str, Part] = {
    "synthetic": Part(
        benchmark="synthetic-1-1",
        model="logistic",
        arms=(*MAIN, "medoids-kept", "fedcore", "fedcore-drawn"),
        shares=(0.05, 0.1, 0.3, 0.5),
        epochs=(1, 5, 10),
        schedules=("constant", "cosine"),
        conditions=("clean", "noise-20", "noise-40", "fivefold", "imbalance"),
        seeds=(0, 1, 2, 3, 4),
        rounds=30,
        learning_rate=0.003,  # the best of most methods in docs/stragglers.md
    ),
    "mnist": Part(
        benchmark="mnist",
        model="cnn",
        arms=("random", "random-epochs", "partial", "medoids", "medoids-unweighted"),
        shares=(0.1, 0.3),
        epochs=(10,),
        schedules=("constant",),
        conditions=("clean", "noise-40", "fivefold"),
        seeds=(0, 1, 2),
        rounds=30,
        learning_rate=0.1,  # likewise
        options={"evaluate_samples": 5000},
    ),
    "mnist-fedcore": Part(
        benchmark="mnist",
        model="cnn",
        arms=("fedcore", "fedcore-drawn"),
        shares=(0.3,),
        epochs=(10,),
        schedules=("constant",),
        conditions=("clean", "noise-40", "fivefold"),
        seeds=(0, 1, 2),
        rounds=30,
        learning_rate=0.1,
        options={"evaluate_samples": 5000},
    ),
    "better": Part(
        benchmark="synthetic-1-1",
        model="logistic",
        arms=(
            *("random", "random-epochs", "partial", "medoids-kept", "tempered", "clipped"),
            *("mixture", "remembered", "anew", "stopped"),
        ),
        shares=(0.1, 0.3),
        epochs=(5,),
        schedules=("constant",),
        conditions=("clean", "noise-40", "fivefold", "imbalance"),
        seeds=(100, 101, 102, 103, 104),
        rounds=30,
        learning_rate=0.003,
        fewer_seeds={"anew": 3},
    ),
}

# MNIST at the step size of the paper's preset, in parts that fit what there is: a run with a tenth
# of the time takes some 11 minutes of a core.
GENTLE = {
    f"mnist-gentle{longer}{of}": replace(
        PARTS["mnist"], learning_rate=0.03, shares=(share,), conditions=(condition,)
    )
    for longer, share in (("", 0.1), ("-longer", 0.3))
    for of, condition in (("", "clean"), ("-noise", "noise-40"), ("-fivefold", "fivefold"))
}
PARTS |= GENTLE


def experiment_of(part: Part, cell: Cell, counts: np.ndarray, **machine: Any) -> Experiment:
    """The experiment of a cell on clients that hold ``counts`` samples.

    Speeds are c_i = m_i / mean m, as `size-linked` has them at the right spread, so a deadline of
    share x E x mean m gives everybody share x E x m_i samples of time.
    """
    spread, mean = float(counts.std()), float(counts.mean())
    options = {
        "benchmark": part.benchmark,
        "strategies": ("fedavg",),  # whose place the arm takes
        "seed": (cell.seed,),
        "rounds": part.rounds,
        "epochs": cell.epochs,
        "learning_rate": part.learning_rate,
        "schedule": cell.schedule,
        "capability": "size-linked",
        "capability_std": spread / mean,
        "capability_floor": 1e-9,
        "deadline": cell.share * cell.epochs * mean * SLACK,
        **part.options,
        **machine,
    }
    return resolve(options, lambda name, preset: find(name).hyperparameters(preset))


def arm_of(cell: Cell) -> Arm:
    return ARMS[cell.arm]
