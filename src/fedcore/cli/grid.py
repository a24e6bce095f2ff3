"""Run the grid of an experiment - strategies, stragglers, step sizes, seeds - and write it down.

Needs neither typer nor rich, so that it also runs on machines that have torch and NumPy alone.
"""

import dataclasses
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from itertools import combinations, product
from pathlib import Path
from typing import Any

import torch

from fedcore import plugins
from fedcore.client.executors.by_name import choose_device, choose_executor
from fedcore.config import Experiment
from fedcore.coreset.build import selector_of
from fedcore.errors import BadOption
from fedcore.losses import loss_of, metrics_of
from fedcore.records import RunKey
from fedcore.report.output import NONE, OutputFolder
from fedcore.report.records import Runs, is_over
from fedcore.report.summary import spread, summary
from fedcore.server.state import to_snapshot
from fedcore.sim import world
from fedcore.sim.federation import Federation, federation_from_model
from fedcore.sim.fleet import fleet_of
from fedcore.sources.benchmark import find
from fedcore.sources.clients import sizes_of
from fedcore.task import Terms

log = logging.getLogger(__name__)

Tell = Callable[[RunKey, int, float], None]  # a run, its rounds that are done, and what share of it


def run_grid(
    experiment: Experiment,
    out: Path | None,
    *,
    overwrite: bool = False,
    resume: bool = False,
    tell: Tell = lambda run, done, share: None,
) -> tuple[dict[str, Any], Runs]:
    """Prepare, train and write, once all options are known good; gives summary and rounds."""
    # Steps are small: threads inside one cost more than they bring; clients have them (--threads).
    torch.set_num_threads(1)
    settings = dataclasses.asdict(experiment)
    folder = None
    if out is not None and not resume:
        folder = OutputFolder.create(out, settings, overwrite=overwrite)
    federations = prepare(experiment)
    grid = list(runs_of(experiment, world.levels_of(experiment, federations)))
    if out is not None and resume:
        folder = OutputFolder.resume(out, settings, grid)
        folder.begin()
    found = folder.runs if folder else {}
    most, budget = experiment.most_rounds, experiment.time_budget
    for run in grid:
        done, snapshot = folder.position(run, most) if folder else (0, None)
        past = found.get(run, [])[:done]
        over, passed = is_over(past, most), sum(record.time for record in past)
        tell(run, done, 1.0 if over else passed / budget if budget else done / most)
        if over:
            continue
        federation = federations[run.seed]
        with closing(world.train_run(federation, experiment, run, snapshot, past)) as rounds:
            if folder is not None and not folder.runs:
                folder.begin()  # an earlier job goes no sooner than the first run can begin
            for record, state in rounds:
                if folder is not None:
                    model = federation.task.saved(state.params) if record.ending else NONE
                    folder.add(record, run, partial(to_snapshot, state), model)
                else:
                    found.setdefault(run, []).append(record)
                passed += record.time
                share = passed / budget if budget else record.number / most
                tell(run, record.number, 1.0 if record.ending else share)
    data = spread(next(iter(federations.values())).dataset)
    return (folder.finish(data=data) if folder else summary(found, settings)), found


def prepare(experiment: Experiment) -> dict[int, Federation]:
    """Load data and model of every seed, and try all that a run would find out, before any does."""
    for one, other in combinations(experiment.strategies, 2):
        if plugins.title(one) == plugins.title(other):  # results go by it
            called = f"would both be called {plugins.title(one)!r}; rename one file"
            raise BadOption(f"strategies {one!r} and {other!r} {called}")
    device = choose_device(experiment.device, experiment.executor)
    named = (("strategy", name) for name in experiment.strategies)
    experiment.check_method(("model", experiment.model), *named)
    selector_of(experiment.selector, tuple(experiment.method.items()))
    place = Path(experiment.data_dir).expanduser() if experiment.data_dir else None
    benchmark, seed = find(experiment.benchmark), experiment.data_seed
    loaded = benchmark.load(seed=seed, data_dir=place, options=experiment.data)
    bf16, metrics = experiment.precision == "bf16", metrics_of(experiment.metrics)
    terms = Terms(loss_of(experiment.loss), experiment.batch_norm, bf16, metrics)
    build = partial(federation_from_model, loaded, experiment.model, method=experiment.method)
    federations = {seed: build(seed, terms=terms) for seed in experiment.seed}
    first = next(iter(federations.values()))
    dataset = first.dataset  # as tensors, which torch Datasets are not
    none = f"of which {experiment.benchmark!r} has none"
    for option in ("patience", "metrics"):
        if (value := getattr(experiment, option)) and dataset.test is None:
            raise BadOption(f"{option} {value} needs held-out data, {none}; leave it out")
    if experiment.learning_rates and (dataset.test is None or len(dataset.test) < 2):
        rates = ",".join(f"{rate:g}" for rate in experiment.learning_rates)
        raise BadOption(f"learning_rate {rates} needs held-out data to choose by, {none}; give one")
    asked, there = experiment.clients_per_round, len(dataset.clients)
    if experiment.selection != "proportional" and asked > there:  # the draw is without replacement
        few = f"clients_per_round is {asked}, but there are {there} clients"
        log.warning("%s: all of them train in every round", few)
    for name in experiment.strategies:
        strategy = world.build_strategy(name, experiment, first.proxy, there, first.model_bytes)
        world.check_fit(strategy, plugins.title(name), experiment, first)
    world.build_sampler(experiment)
    for level, seed in product(experiment.stragglers, experiment.seed):
        fleet_of(sizes_of(dataset.clients), experiment, level, seed)
    if experiment.executor == "compiled":  # the one executor that does not fit every model
        known = first.task, dataset.clients, world.training_of(experiment)
        choose_executor("compiled", *known, threads=1, device=device)
    return federations


def runs_of(experiment: Experiment, levels: Sequence[float] = ()) -> Iterator[RunKey]:
    """Every run of an experiment, all strategies of a level together."""
    benchmark = plugins.title(experiment.benchmark)
    rates, every = experiment.learning_rates or (None,), levels or experiment.stragglers
    for level, name, rate, seed in product(every, experiment.strategies, rates, experiment.seed):
        yield RunKey(benchmark, plugins.title(name), level, seed, rate)
