"""From a benchmark's name to its dataset: ``synthetic-1-1`` is ``synthetic`` and ``1-1``."""

from contextlib import nullcontext
from types import ModuleType
from typing import NamedTuple

from fedcore import plugins
from fedcore.errors import BadData, BadOption, UnknownPlugin, blaming
from fedcore.plugins import Options
from fedcore.sources.files import DataDir
from fedcore.sources.partitions import RULES, dealt
from fedcore.types import FederatedDataset
from fedcore.values import LARGEST_LEGACY_SEED, whole_number

# Arguments of every dataset that have options of their own, which --data would silently override.
OWN = {"seed": "use --data-seed (or --seed of 'fedcore data stats')", "data_dir": "use --data-dir"}


class Benchmark(NamedTuple):
    """A dataset with the options its name implies, and the hyper-parameters that go with it."""

    name: str
    module: ModuleType
    options: Options

    def hyperparameters(self, preset: str) -> Options:
        """Options of an experiment that ``preset`` sets for this dataset, if it has any."""
        ask = getattr(self.module, "hyperparameters", None)
        of_any: Options = getattr(self.module, "HYPERPARAMETERS", {})
        return of_any if ask is None else ask(preset, **self.options)

    def load(self, *, seed: int, data_dir: DataDir, options: Options) -> FederatedDataset:
        """Load the data, with the user's ``options`` over those of the name."""
        whole_number("seed", seed, 0, LARGEST_LEGACY_SEED)
        load, rules = self.module.load, {}
        if "how" in options and not plugins.taken(load, {"how": 0}):
            rules = {"seed": seed, **{key: options[key] for key in RULES if key in options}}
            options = {key: value for key, value in options.items() if key not in RULES}
        for key in options:
            if key in OWN:
                raise BadOption(f"data must not hold {key!r}, an option itself: {OWN[key]}")
            if not plugins.taken(load, {key: 0}):
                if key in RULES:
                    raise BadOption(f"data option {key!r} is for how=iid, dirichlet or shards")
                accepted = sorted({*plugins.keywords(load), *RULES} - OWN.keys())
                raise BadOption(plugins.unknown("data option", key, accepted, see=""))
        every = {"seed": seed, "data_dir": data_dir, **self.options, **options}
        ours = self.module.__name__.startswith("fedcore.")  # whose failure is a defect, seen whole
        with nullcontext() if ours else blaming(f"load of dataset file {self.module.__file__!r}"):
            dataset = load(**plugins.taken(load, every))
            dataset = dealt(dataset, rules) if rules else dataset
        if isinstance(dataset, FederatedDataset):
            return dataset
        found = f"a fedcore FederatedDataset, got a {type(dataset).__name__}"
        raise BadData(f"load of dataset {self.name!r} must return {found}")


def find(name: str) -> Benchmark:
    """The benchmark called ``name``, or the one in a file of the user's own."""
    if name.endswith(".py"):
        plugins.function("dataset", name, "load")
        return Benchmark(plugins.title(name), plugins.load("dataset", name), {})
    for dataset in sorted(plugins.names("dataset"), key=len, reverse=True):
        if name == dataset or name.startswith((f"{dataset}-", f"{dataset}:")):
            module, suffix = plugins.load("dataset", dataset), name[len(dataset) + 1 :]
            if hasattr(module, "parse"):
                return Benchmark(name, module, module.parse(suffix))
            if suffix:
                what = f"benchmark must be {dataset!r}, got {name!r}; it has no variants"
                raise BadOption(f"{what}, only options such as --data clients=100")
            return Benchmark(name, module, {})
    raise UnknownPlugin(plugins.unknown("benchmark", name, benchmark_names()))


def benchmark_names() -> list[str]:
    """The benchmarks that have a name of their own."""
    known = {name: plugins.load("dataset", name) for name in plugins.names("dataset")}
    return [one for name, module in known.items() for one in getattr(module, "BENCHMARKS", (name,))]
