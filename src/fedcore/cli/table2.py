"""The pieces of the paper's Table 2: which runs there are, in which order, and where each lies."""

from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from fedcore.config import Experiment, Options, resolve
from fedcore.sources.benchmark import find
from fedcore.values import at_least, convert, each, one_of, percentages, read_option

# In the order in which results are wanted
BENCHMARKS = ("mnist", "shakespeare", "synthetic-0-0", "synthetic-0.5-0.5", "synthetic-1-1")
STRATEGIES = ("fedavg", "fedavg-ds", "fedprox", "fedcore")
# What is set beside the preset; nothing goes by benchmark. 'best' is our own strategy, and what is
# chained repeats a defect that the paper's figures go by.
WAYS: dict[str, dict[str, Any]] = {
    "paper": {"preset": "paper"},
    "authors-code": {"preset": "authors-code"},
    "authors-code-chained": {"preset": "authors-code", "first_round": "chained"},
    "best": {"preset": "paper"},
}


@dataclass(frozen=True, slots=True)
class Piece:
    """One run of one strategy, in a folder of its own."""

    way: str
    benchmark: str
    stragglers: float
    strategy: str
    seed: int

    @property
    def path(self) -> Path:
        """Where it lies, in the folder of all."""
        seed, level = f"seed-{self.seed}", f"{self.stragglers:g}"
        return Path(self.way, self.benchmark, seed, self.strategy, level)

    def experiment(self, options: Options) -> Experiment:
        """All options of this run, with ``options`` over those of the preset."""
        own = {"benchmark": self.benchmark, "strategies": self.strategy, "seed": self.seed}
        given = {**own, "stragglers": self.stragglers, **WAYS[self.way], **options}
        return resolve(given, lambda name, preset: find(name).hyperparameters(preset))


def pieces_of(only: str, stragglers: str, seeds: str, preset: str) -> list[list[Piece]]:
    """The pieces asked for, FedAvg's of all levels together; seeds count from the preset's."""
    names = convert("only", only, tuple[str, ...])
    presets = convert("preset", preset, tuple[str, ...])
    levels = convert("stragglers", stragglers, tuple[float, ...])
    each(one_of(*BENCHMARKS))("only", names)
    each(one_of(*WAYS))("preset", presets)
    percentages("stragglers", levels)
    count = read_option("seeds", seeds, int)
    at_least(1, 1000)("seeds", count)
    units = []
    for further, way, benchmark in product(range(count), WAYS, BENCHMARKS):
        if way not in presets or benchmark not in names:
            continue
        first, *_ = find(benchmark).hyperparameters(WAYS[way]["preset"]).get("seed", (0,))
        of = partial(Piece, way, benchmark, seed=first + further)
        if way != "best":
            units.append([of(stragglers=level, strategy="fedavg") for level in levels])
        others = ("tempo",) if way == "best" else STRATEGIES[1:]
        units += [[of(stragglers=s, strategy=name)] for s, name in product(levels, others)]
    return units
