"""An experiment's options: one frozen record, the same for TOML, command line and Python.

Every option is one field here, with its help, its check and its default. Values are looked up in
this order: command line, TOML file, the preset's hyper-parameters for the benchmark, the preset,
the default below, which follows the paper's text.
"""

import dataclasses
import tomllib
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from fedcore import compression, plugins, values
from fedcore.coreset.proxies import PROXIES
from fedcore.errors import BadOption
from fedcore.losses import LOSSES, METRICS, loss_of, metrics_of
from fedcore.rates import SCHEDULES
from fedcore.server.merge import AGGREGATIONS
from fedcore.task import BATCH_NORM
from fedcore.types import Weighting
from fedcore.values import MANY, above_zero, at_least, below_one, distinct, one_of, option

Options = Mapping[str, Any]
# Choices of the authors' repository where it departs from their text: docs/deviations.md.
_AUTHORS: dict[str, Any] = {"selection": "uniform-by-round", "aggregation": "samples"}
_AUTHORS |= {"capability": "size-linked", "capability_std": 0.25, "weighting": "normalised"}
_AUTHORS |= {"selector": "kmedoids-per-class", "below_one_pass": "sit-out"}
# Our own best (docs/choosing.md), where the paper's text says the rest.
_OURS: dict[str, Any] = {"strategies": ("tempo",), "deadline": "auto", "stragglers": (30.0,)}
PRESETS: dict[str, Options] = {"paper": {}, "authors-code": _AUTHORS, "recommended": _OURS}

# Server optimisers, and what each is called where it is around FedAvg.
SERVER_OPTIMISERS = {"none": "fedavg", "momentum": "fedavgm"}
SERVER_OPTIMISERS |= {name: f"fed{name}" for name in ("adam", "yogi", "adagrad")}

# What datasets set in their ``hyperparameters``; a default below is for data of the user's own.
SET_BY_BENCHMARK = {"rounds", "epochs", "batch_size", "learning_rate", "model", "data_seed"}
SET_BY_BENCHMARK |= {"clients_per_round", "fedprox_mu", "evaluate_samples"}

DEVICES, OF_PROXY = ("auto", "cpu", "cuda"), ("auto", *PROXIES)
FIRST, GRADIENTS = ("parallel", "chained"), ("free", "exact")
BELOW = ("auto", "static-coreset", "forward", "random", "sit-out")
SPEEDS = ("normal", "phones", "size-linked", "equal")
EXECUTORS = ("auto", "sequential", "compiled", "vectorised", "ray")
PANELS = ("Job", "Training", "Fleet", "Method")
_job, _training, _fleet, _method = (partial(option, panel) for panel in PANELS)


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """What to run; see the help of each option. ``vars`` of it are all of them by name."""

    clients_per_round: int = _fleet(10, "Clients K drawn for a round.", at_least(1, MANY))
    selection: str = _fleet("proportional", "How they are drawn: a sampler; see 'fedcore list'.")
    first_round: str = _fleet("parallel", "'chained': a defect of their code.", one_of(*FIRST))
    capability: str = _fleet("normal", "Law of speeds; 'normal' is N(1, std^2).", one_of(*SPEEDS))
    capability_std: float = _fleet(0.5, "Std of speeds; the paper's variance is 0.25.", at_least(0))
    capability_floor: float = _fleet(0.1, "Least speed; slower draws are drawn again.", above_zero)
    speeds: str | None = _fleet(None, "CSV file: client, samples_per_second[, download, upload].")
    speed_size_correlation: float = _fleet(
        0.0, "Of drawn speeds and amounts of data: 1, the more data the faster.", at_least(-1, 1)
    )
    deadline: float | str = _fleet(
        0.0,
        "Seconds of a round, or who sets them, such as 'auto' (see 'fedcore list'): then times are "
        "in deadlines at --stragglers, 30 if not given; 0: as --stragglers says.",
    )
    download: float = _fleet(0.0, "Bytes a second that a link brings; 0: no limit.", at_least(0))
    upload: float = _fleet(0.0, "Bytes a second that it sends out; 0: no limit.", at_least(0))
    compress: str = _fleet(
        "none",
        "What clients send: topk:0.01, 8bit or topk:0.01+8bit of their moves, the rest later.",
        compression.read,
    )
    mean_on: float = _fleet(0.0, "Deadlines for which clients are there, in the mean.", at_least(0))
    mean_off: float = _fleet(0.0, "And for which they are then away; 0: never.", at_least(0))
    dropout: float = _fleet(0.0, "Probability to drop out in the middle of a job.", at_least(0, 1))

    benchmark: str = _job("synthetic-1-1", "Dataset, or a .py file of one; see 'fedcore list'.")
    preset: str = _job("paper", "Defaults: the paper's, its code's, or our own.", one_of(*PRESETS))
    strategies: tuple[str, ...] = _job(
        ("fedavg", "fedavg-ds", "fedprox", "fedcore", "tempo"), "Names, or own .py files.", distinct
    )
    stragglers: tuple[float, ...] = _job(
        (10.0, 30.0), "Percentages of clients that are late; or --deadline.", values.percentages
    )
    seed: tuple[int, ...] = _job(
        (0,),
        "Seed of cohorts, speeds, shuffles and initial model; several as 0,1,2. On the paper's "
        "Synthetic benchmarks 'authors-code' has seeds of its own.",
        values.seeds,
    )
    time_budget: float = _job(0.0, "Deadlines after which runs end; 0: --rounds.", at_least(0))

    rounds: int = _training(100, "Rounds of training.", at_least(1, MANY))
    epochs: int = _training(10, "Local epochs E a round asks for.", at_least(1, MANY))
    batch_size: int = _training(8, "Samples in a local step.", at_least(1, MANY))
    learning_rate: float = _training(
        0.01, "Step size; of several, as 0.01,0.1, each method has its own best.", above_zero
    )
    optimiser: str = _training("sgd", "Of clients, fresh in every round.", one_of("sgd", "adam"))
    momentum: float = _training(0.0, "Momentum of 'sgd'.", below_one)
    weight_decay: float = _training(0.0, "Times parameters, added to gradients.", at_least(0))
    clip_norm: float = _training(0.0, "Longest that a gradient may be; 0: any.", at_least(0))
    schedule: str = _training("constant", "How the learning rate falls.", one_of(*SCHEDULES))
    schedule_decay: float = _training(0.1, "Factor of 'step', rate of 'inverse-time'.", above_zero)
    schedule_every: int = _training(30, "Rounds between falls of 'step'.", at_least(1, MANY))
    model: str = _training("logistic", "Model; see 'fedcore list'.")
    loss: str = _training("cross-entropy", f"{', '.join(LOSSES)}, or a .py file with 'loss'.")
    metrics: tuple[str, ...] = _training((), f"{', '.join(METRICS)}, or .py files with 'metric'.")
    batch_norm: str = _training("refuse", "Its statistics.", one_of("refuse", *BATCH_NORM))
    precision: str = _training("float32", "Of forward passes.", one_of("float32", "bf16"))
    executor: str = _training("auto", "'auto' takes the fastest that fits.", one_of(*EXECUTORS))
    device: str = _training("auto", "'auto' is a GPU if there is one.", one_of(*DEVICES))
    threads: int = _training(0, "Threads that train clients; 0: one a core.", at_least(0, 1024))
    evaluate_every: int = _training(1, "Rounds between measurements.", at_least(1, MANY))
    patience: int = _training(
        0, "Measurements without a new best held-out accuracy that end a run; 0: none.", at_least(0)
    )
    evaluate_samples: int = _training(0, "Samples a round is measured on; 0: all.", at_least(0))

    aggregation: str = _method("mean", "Mean of answers: plain or by size.", one_of(*AGGREGATIONS))
    server_optimiser: str = _method("none", "Around every strategy.", one_of(*SERVER_OPTIMISERS))
    fedprox_mu: float = _method(0.1, "FedProx: its proximal term.", at_least(0))
    selector: str = _method("kmedoids", "FedCore: coreset method; see 'fedcore list'.")
    proxy: str = _method("auto", "FedCore: what stands in for gradients.", one_of(*OF_PROXY))
    weighting: str = _method("scaled", "FedCore: how weights enter a batch.", one_of(*Weighting))
    below_one_pass: str = _method("auto", "FedCore: for whom no full pass fits.", one_of(*BELOW))
    forward_price: float = _method(1 / 3, "Of a forward pass, in trained samples.", at_least(0))
    gradients: str = _method("free", "FedCore: of epoch 1, or a pass after.", one_of(*GRADIENTS))
    measure_full_gradient: bool = _method(False, "FedCore: coresets' error on all layers (slow).")
    prox_mu: float = _method(0.0, "FedCore: a proximal term as well.", at_least(0))
    coreset_epochs: int = _method(
        0, "FedCore: fewest epochs on a coreset, which is then larger; 0: all.", at_least(0, MANY)
    )
    catch_up: float = _method(1.0, "FedCore, FedProx: largest factor of slow steps.", at_least(1))
    selection_price: float = _method(
        0.0, "FedCore: price of choosing, in trained samples per sample of a client.", at_least(0)
    )

    data_dir: str | None = _job(None, "Place of data; else $FEDCORE_DATA, else the user's cache.")
    targets: tuple[float, ...] = _job(
        (), "Accuracies to time, as 0.8,0.9; none: 90, 95, 99 % of the best.", values.accuracies
    )
    data_seed: int = _job(0, "Seed of the dataset itself.", at_least(0, values.LARGEST_LEGACY_SEED))
    # Options of their own, of the dataset and of strategies, selector and model.
    data: Options = field(default_factory=dict)
    method: Options = field(default_factory=dict)
    # Step sizes to try for every method, where ``learning_rate`` is given as several.
    learning_rates: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        """Check every value, so that nothing starts with a bad one, and what must go together."""
        if self.seconds and self.stragglers:
            what = f"deadline is {self.seconds:g} and stragglers are {list(self.stragglers)}"
            raise BadOption(f"{what}; give one of them, since each says what the other is")
        if bool(self.mean_on) != bool(self.mean_off):
            given = f"mean_on is {self.mean_on:g} and mean_off is {self.mean_off:g}"
            raise BadOption(f"{given}; clients that come and go need both, others neither")
        drawn = self.speeds is None and self.capability in ("normal", "phones")
        if self.speed_size_correlation and not drawn:
            what = f"speed_size_correlation is {self.speed_size_correlation:g}"
            instead = "leave it out, or take capability normal or phones without a file of speeds"
            raise BadOption(f"{what}, but speeds are not drawn; {instead}")
        at_least(0)("deadline", self.seconds)
        for item in dataclasses.fields(self):
            check, value = item.metadata.get("check"), getattr(self, item.name)
            if check and not (self.seconds and item.name == "stragglers"):
                check(item.name, value)
        named = (("model", self.model), ("selector", self.selector), ("sampler", self.selection))
        for kind, name in (*named, *self.controllers):
            if not name.endswith(".py") and name not in plugins.names(kind):
                raise BadOption(plugins.unknown(kind, name, plugins.names(kind)))
        metrics_of(self.metrics)
        if loss_of(self.loss) is not None and self.learning_rates:
            rates = f"got {len(self.learning_rates)} with loss {self.loss!r}; give one"
            raise BadOption(f"learning_rate is chosen by an accuracy, {rates}")
        if self.momentum and self.optimiser != "sgd":
            given = f"got {self.momentum:g} with {self.optimiser!r}; leave out one of them"
            raise BadOption(f"momentum is an option of optimiser 'sgd', {given}")
        for key in self.method:
            if key in self.__dataclass_fields__:
                use = f"use --{key.replace('_', '-')}"
                raise BadOption(f"method must not hold {key!r}, which is an option itself: {use}")

    @property
    def seconds(self) -> float:
        """Seconds of every round, where they are given; else 0."""
        return 0.0 if isinstance(self.deadline, str) else self.deadline

    @property
    def controllers(self) -> list[tuple[str, str]]:
        """Kind and name of who sets deadlines, if anybody does."""
        return [("deadline", self.deadline)] if isinstance(self.deadline, str) else []

    def check_method(self, *others: tuple[str, str]) -> None:
        """Refuse own options that none of the plug-ins named here, or of ``others``, takes."""
        around = SERVER_OPTIMISERS[self.server_optimiser]
        named = ("selector", self.selector), ("sampler", self.selection), ("strategy", around)
        plugins.check_taken(self.method, (*named, *self.controllers, *others), vars(self))

    @property
    def most_rounds(self) -> int:
        """Rounds after which a run ends at the latest."""
        return MANY if self.time_budget else self.rounds


def option_fields() -> dict[str, dataclasses.Field[Any]]:
    """The options that have a help text, by name, panel after panel."""
    shown = [item for item in dataclasses.fields(Experiment) if "help" in item.metadata]
    shown.sort(key=lambda item: PANELS.index(item.metadata["panel"]))
    return {item.name: item for item in shown}


def resolve(given: Options, hyperparameters: Callable[[str, str], Options]) -> Experiment:
    """Complete what was ``given`` by preset and benchmark, whose function it takes; check it."""
    preset = values.convert("preset", given.get("preset", Experiment.preset), str)
    one_of(*PRESETS)("preset", preset)
    benchmark = values.convert("benchmark", given.get("benchmark", Experiment.benchmark), str)
    own = hyperparameters(benchmark, "paper" if preset == "recommended" else preset)
    every = {**values.convert("hyperparameters", own, Options), **given}
    hints = typing.get_type_hints(Experiment)
    for key in every:
        if key not in hints:
            raise BadOption(plugins.unknown("option", key, hints, see="fedcore compare --help"))
    rates = every.get("learning_rate")
    if isinstance(rates, list | tuple) or (isinstance(rates, str) and "," in rates):
        rates = values.convert("learning_rate", rates, tuple[float, ...])
        values.each(above_zero)("learning_rate", rates)
        grid = rates if len(rates) > 1 else ()
        every |= {"learning_rate": rates[0], "learning_rates": grid}
    typed = {key: values.convert(key, value, hints[key]) for key, value in every.items()}
    if (deadline := typed.get("deadline")) and "stragglers" not in given:
        typed["stragglers"] = (30.0,) if isinstance(deadline, str) else ()
    return Experiment(**{**PRESETS[preset], **typed})


def read_toml(path: Path) -> dict[str, Any]:
    """The options in a TOML file; hyphens in keys read as underscores."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadOption(f"config {str(path)!r} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise BadOption(f"config {str(path)!r} is not valid TOML: {error}") from None
    options = {key.replace("-", "_"): value for key, value in content.items()}
    if len(options) < len(content):
        raise BadOption(f"config {str(path)!r} has an option twice, with hyphens and underscores")
    return options
