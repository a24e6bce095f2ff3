"""``fedcore.simulate``: your clients, your model, any strategy, in one call."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from typing import Any

import torch
from torch import Tensor, nn

from fedcore.config import resolve
from fedcore.errors import BadData, BadOption
from fedcore.sim.federation import check_dataset, federate
from fedcore.sim.history import History
from fedcore.sim.rounds import build_strategy, simulate_rounds
from fedcore.sources.clients import LazyClients
from fedcore.sources.samples import as_samples
from fedcore.task import Task
from fedcore.threads import one_thread_each
from fedcore.types import (
    ClientData,
    ClientId,
    FederatedDataset,
    RoundRecord,
    RunKey,
    Strategy,
)

OF_A_BENCHMARK = ("benchmark", "strategies", "model", "data", "data_dir", "data_seed")


@one_thread_each()
def simulate(
    clients: Sequence[tuple[Any, Any]] | LazyClients,
    model: nn.Module,
    *,
    test: tuple[Any, Any] | None = None,
    strategy: str | Strategy = "fedcore",
    stragglers: float = 30.0,
    seed: int = 0,
    head: str | None = None,
    on_round: Callable[[RoundRecord], None] | None = None,
    **options: Any,
) -> History:
    """Train ``model`` on ``clients`` whose speeds differ; rounds keep a virtual deadline.

    Args:
        clients: one (inputs, labels) pair per client, NumPy arrays or tensors; or ``LazyClients``
            for a fleet that memory cannot hold (then set ``evaluate_samples``). Inputs with a
            fraction get the type of the model's parameters.
        model: maps a batch of inputs to class scores; training starts from its parameters,
            which stay as they are.
        test: held-out (inputs, labels), for the test accuracy of every round.
        strategy: a name ('fedcore list' shows them), a path to a .py file, or a ``Strategy``.
        stragglers: percentage of clients that miss the deadline.
        seed: of cohorts, speeds and shuffles.
        head: name of the last linear layer, if it is not the last ``nn.Linear`` of the model.
        on_round: called with every round's record as it ends.
        **options: any option of ``fedcore compare``: rounds, epochs, learning_rate, ...

    Returns:
        The rounds and the trained parameters.
    """
    _check_arguments(clients, model, strategy, options)
    given = {**options, "stragglers": stragglers, "seed": seed}
    experiment = resolve(given, lambda benchmark, preset: {})
    for name, values in (("stragglers", experiment.stragglers), ("seed", experiment.seed)):
        if len(values) != 1:
            raise BadOption(f"{name} must be one number here, got {values}; call once for each")
    task = Task(model, head)  # its refusals come before anything is tried
    floating = _floating_type(model)
    members: Mapping[ClientId, ClientData]
    if isinstance(clients, LazyClients):
        members = clients.map(lambda n, data: as_samples(f"client {n}", data, floating))
    else:
        members = {n: as_samples(f"client {n}", pair, floating) for n, pair in enumerate(clients)}
    held_out = as_samples("the test set", test, floating) if test is not None else None
    classes = _count_classes(members.values(), task)
    dataset = check_dataset(FederatedDataset(members, held_out, classes))
    federation = federate(dataset, model, head)
    if isinstance(strategy, Strategy):
        name, method = "own", strategy
    else:
        name, method = strategy, build_strategy(strategy, experiment, federation.proxy)
    run = RunKey("own data", name, experiment.stragglers[0], experiment.seed[0])
    records: list[RoundRecord] = []
    params = federation.initial
    with closing(simulate_rounds(federation, experiment, run, strategy=method)) as rounds:
        for record, model_now in rounds:
            params = model_now
            records.append(record)
            if on_round is not None:
                on_round(record)
    return History(tuple(records), {**federation.task.frozen_params(), **params})


def _check_arguments(
    clients: object, model: object, strategy: object, options: Mapping[str, Any]
) -> None:
    if not isinstance(clients, Sequence | LazyClients):
        kind = type(clients).__name__
        raise BadData(
            f"clients must be a list of (inputs, labels) pairs or LazyClients, got {kind}"
        )
    if not isinstance(model, nn.Module):
        raise BadOption(f"model must be a torch nn.Module, got {type(model).__name__}")
    if not isinstance(strategy, str | Strategy):
        raise BadOption(f"strategy must be a name or a Strategy, got {type(strategy).__name__}")
    for name in options:
        if name in OF_A_BENCHMARK:
            raise BadOption(f"{name} is for benchmarks that FedCore loads; leave it out here")


def _floating_type(model: nn.Module) -> torch.dtype:
    """The type that inputs with a fraction must have for a model to take them."""
    found = (p.dtype for p in model.parameters() if p.is_floating_point())
    return next(found, torch.get_default_dtype())


@torch.no_grad()
def _count_classes(data: Iterable[ClientData], task: Task) -> int:
    """How many scores the model gives, found by trying a copy of it on one sample.

    A copy, because a model may change when it is called, and not as in training, because some
    layers then need more than one sample.
    """
    trial = copy.deepcopy(task.model).eval()
    for client in data:
        if len(client) > 0:
            sample = client.take(slice(0, 1))[0]
            try:
                scores = trial(sample)
            except (RuntimeError, ValueError, TypeError, IndexError) as error:
                kind = str(sample.dtype).removeprefix("torch.")
                raise BadOption(
                    f"model cannot take a batch of inputs {list(sample.shape)} of type {kind}: "
                    f"{str(error).splitlines()[0]}"
                ) from error
            if not isinstance(scores, Tensor) or scores.dim() != 2:
                raise BadOption("model must map a batch of inputs to scores [batch, classes]")
            return scores.shape[1]
    return 1
