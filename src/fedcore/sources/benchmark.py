"""From a benchmark's name to its dataset module: ``synthetic-1-1`` is ``synthetic`` and ``1-1``."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from fedcore import plugins
from fedcore.errors import BadOption, UnknownPlugin
from fedcore.types import FederatedDataset

# Arguments of every dataset that have options of their own, which --data would silently override.
OWN = {"seed": "use --data-seed (or --seed of 'fedcore data stats')", "data_dir": "use --data-dir"}


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A dataset with the options its name implies, and the hyper-parameters that go with it."""

    name: str
    module: ModuleType
    options: Mapping[str, Any]

    def hyperparameters(self, preset: str) -> Mapping[str, Any]:
        """Options of an experiment that ``preset`` sets for this dataset."""
        found: Mapping[str, Any] = self.module.hyperparameters(preset, **self.options)
        return found

    def load(
        self, *, seed: int, data_dir: Path | None, options: Mapping[str, Any]
    ) -> FederatedDataset:
        """Load the data, with the user's ``options`` over those of the name."""
        dataset: FederatedDataset = self.module.load(**self._arguments(seed, data_dir, options))
        return dataset

    @property
    def counts_test(self) -> bool:
        """Whether the paper's Table 1 counts test samples of this dataset too."""
        return hasattr(self.module, "client_sizes")

    def client_sizes(
        self, *, seed: int, data_dir: Path | None, options: Mapping[str, Any]
    ) -> list[int]:
        """Samples per client as Table 1 counts them, found without loading all data if possible."""
        if not self.counts_test:
            dataset = self.load(seed=seed, data_dir=data_dir, options=options)
            return [len(data) for data in dataset.clients.values()]
        sizes: list[int] = self.module.client_sizes(**self._arguments(seed, data_dir, options))
        return sizes

    def _arguments(
        self, seed: int, data_dir: Path | None, options: Mapping[str, Any]
    ) -> dict[str, Any]:
        accepted = [key for key in inspect.signature(self.module.load).parameters if key not in OWN]
        for key in options:
            if key in OWN:
                raise BadOption(
                    f"data must not hold {key!r}, which is an option itself: {OWN[key]}"
                )
            if key not in accepted:
                raise BadOption(plugins.unknown("data option", key, accepted, see=""))
        return {"seed": seed, "data_dir": data_dir, **self.options, **options}


def no_suffix(dataset: str, suffix: str) -> dict[str, Any]:
    """The options in the name of a dataset that has no variants: none, or a refusal."""
    if suffix:
        raise BadOption(
            f"benchmark must be {dataset!r}, got '{dataset}-{suffix}'; it has no variants, "
            "only options such as --data clients=100"
        )
    return {}


def find(name: str) -> Benchmark:
    """The benchmark called ``name``."""
    for dataset in sorted(plugins.names("dataset"), key=len, reverse=True):
        if name == dataset or name.startswith(f"{dataset}-"):
            module = plugins.load("dataset", dataset)
            return Benchmark(name, module, module.parse(name[len(dataset) + 1 :]))
    raise UnknownPlugin(plugins.unknown("benchmark", name, benchmark_names()))


def benchmark_names() -> list[str]:
    """The benchmarks that have a name of their own."""
    modules = (plugins.load("dataset", name) for name in plugins.names("dataset"))
    return [name for module in modules for name in module.BENCHMARKS]
