"""Whether a deployment's clients learn what the simulator's do: ``fit`` and ``on_time`` against it.

    python -m benchmarks.deployment.accuracy [--benchmark mnist] [--data DIR] [--out FILE]

The simulator's server, fleet, cohorts and plans; what a client does is once the simulator's, once
``fit`` and once ``on_time`` with the plainest loop. Orders and answers are Flower's messages,
without a network; a device's clock moves by 1 / c for every sample that its model sees.
"""

from __future__ import annotations

import argparse
import copy
import json
import logging
import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, Metadata, RecordDict
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.deployment.accuracy_table import table
from fedcore.cli.grid import prepare, runs_of
from fedcore.config import Experiment, resolve
from fedcore.flower import fit, on_time
from fedcore.flower.turn import Clock
from fedcore.flower.warm import warm
from fedcore.flower.wire import ORDER, Order, order_text, read_report
from fedcore.seeding import stream
from fedcore.server.clock import VirtualClock
from fedcore.sim.federation import Federation
from fedcore.sim.world import World, build_strategy, build_world, simulate_rounds
from fedcore.sources.benchmark import find
from fedcore.types import Assignment, LocalUpdate, Params, SelectionTime

WAYS = ("simulator", "fit", "on_time")
NOON = 1_700_000_000.0
LAST = 5  # rounds whose accuracy is averaged: the last one alone is noisy


class Deployed:
    """An executor whose clients are Flower handlers, each on a clock of its own."""

    def __init__(self, way: str, federation: Federation, experiment: Experiment, world: World):
        self.selection, self.memory = SelectionTime(), dict[int, torch.Tensor]()
        self.reports: list[Any] = []
        self._fits, self._federation, self._experiment = way == "fit", federation, experiment
        self._deadline, self._profiles = world.fleet.deadline, world.server.profiles
        self._contexts: dict[int, Context] = defaultdict(_context)

    def expect(self, assignments: Sequence[Assignment]) -> None:
        """Nothing is done ahead."""

    def close(self) -> None:
        """Nothing is held."""

    def run(self, params: Params, assignments: Sequence[Assignment]) -> list[LocalUpdate]:
        """One client after another."""
        return [self._answer(params, assignment) for assignment in assignments]

    def _answer(self, params: Params, told: Assignment) -> LocalUpdate:
        model, client = copy.deepcopy(self._federation.task.model), told.client_id
        model.load_state_dict(dict(params), strict=False)
        now, met, profile = 0.0, 0, self._profiles[client]
        look = told.plan.phases[0].forward_price if self._fits and told.plan.phases else None

        def moves(_: nn.Module, entered: tuple[Any, ...]) -> None:
            nonlocal now, met
            # A pass that only looks comes first, where there is one, and costs less.
            price = look if look is not None and met < profile.num_samples else 1.0
            met += len(entered[0])
            now += price * len(entered[0]) / profile.capability

        model.register_forward_pre_hook(moves)
        clock = Clock(wall=lambda: NOON + now, steady=lambda: now)
        order = Order(told, self._deadline, 0.0, ticket=client)
        msg, context = _message(order, model), self._contexts[client]
        reply = (self._fit if self._fits else self._loop)(model, told, msg, context, clock)
        report, examples = read_report(reply.content.metric_records["metrics"])
        assert report.handler_seconds <= self._deadline, "a client was late"
        self.reports.append(report)
        trained = reply.content.array_records["arrays"].to_torch_state_dict()
        return LocalUpdate(
            client,
            {name: trained[name] for name in params},
            examples,
            base_version=told.base_version,
            steps=report.steps,
        )

    def _fit(
        self, model: nn.Module, told: Assignment, msg: Message, context: Context, clock: Clock
    ) -> Message:
        data, one = self._federation.dataset.clients[told.client_id], self._experiment
        return fit(
            model,
            data,
            msg,
            context,
            learning_rate=one.learning_rate,
            batch_size=one.batch_size,
            clock=clock,
        )

    def _loop(
        self, model: nn.Module, told: Assignment, msg: Message, context: Context, clock: Clock
    ) -> Message:
        x, y = self._federation.dataset.clients[told.client_id].take(slice(None))
        draws = torch.Generator()
        draws.manual_seed(int(stream(told.seed, *told.path("loader")).integers(1 << 62)))
        loader = DataLoader(
            TensorDataset(x, y), self._experiment.batch_size, shuffle=True, generator=draws
        )
        batches = on_time(loader, model, msg, context, clock=clock)
        optimiser = torch.optim.SGD(model.parameters(), lr=self._experiment.learning_rate)
        for inputs, labels in batches:
            optimiser.zero_grad()
            loss = nn.functional.cross_entropy(model(inputs), labels)
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
        return batches.reply(model.state_dict())


def _context() -> Context:
    return Context(run_id=1, node_id=1, node_config={}, state=RecordDict(), run_config={})


def _message(order: Order, model: nn.Module) -> Message:
    """A message as a node gets it; outside a run, Flower makes none without its metadata."""
    metadata = Metadata(1, "m", 1, 1, "", "", created_at=NOON, ttl=1e10, message_type="train")
    config = ConfigRecord({ORDER: order_text(order)})
    content = RecordDict({"arrays": ArrayRecord(model.state_dict()), "config": config})
    return Message(content=content, metadata=metadata)  # type: ignore[call-overload, no-any-return]


def accuracies(way: str, federation: Federation, experiment: Experiment) -> dict[str, Any]:
    """Test accuracy after every round of one run, and how often a plain draw had to do."""
    (run,) = runs_of(experiment)
    size = len(federation.dataset.clients)
    strategy = build_strategy("fedcore", experiment, federation.proxy, size)
    world = build_world(federation, experiment, run, strategy)
    deployed = Deployed(way, federation, experiment, world)
    if way != "simulator":
        world.server.clock = VirtualClock(deployed, world.fleet.deadline)
    found = [record.test_accuracy or 0.0 for record, _ in simulate_rounds(world)]
    reports = deployed.reports
    return {
        "last": statistics.fmean(found[-LAST:]),
        "coresets": sum(report.coreset_size > 0 for report in reports),
        "plain": sum(report.fell_back for report in reports),
        "cut": sum(report.cut_short for report in reports),
    }


def compare(given: dict[str, Any], seeds: Sequence[int]) -> dict[str, list[dict[str, Any]]]:
    """All three ways on the same fleets."""
    told = {"strategies": ("fedcore",), "stragglers": (30.0,), "device": "cpu", **given}
    one = resolve(told, lambda name, preset: find(name).hyperparameters(preset))
    found: dict[str, list[dict[str, Any]]] = {way: [] for way in WAYS}
    for seed in seeds:
        own = replace(one, seed=(seed,))
        federation = prepare(own)[seed]
        for way in WAYS:
            found[way].append(accuracies(way, federation, own))
            print(seed, way, found[way][-1], flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--benchmark", default="synthetic-1-1")
    parser.add_argument("--data", help="where the files of a dataset are")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--clients-per-round", type=int, default=10)
    parser.add_argument("--evaluate-samples", type=int, default=2000)
    parser.add_argument("--out", type=Path)
    told = vars(parser.parse_args())
    seeds, out, data = range(told.pop("seeds")), told.pop("out"), told.pop("data")
    shared = Path(__file__).parents[3] / "shared" / "data"
    if data or shared.is_dir():
        told["data_dir"] = data or str(shared)
    logging.disable(logging.WARNING)  # a line for every plain draw
    print(warm(), flush=True)  # else all coresets of k-medoids would be plain draws
    found = compare(told, list(seeds))
    print(table(found))
    if out is not None:
        told.pop("data_dir", None)  # a place on this machine
        out.write_text(json.dumps({"settings": told, "runs": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
