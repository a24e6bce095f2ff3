"""``fedcore.simulate``: your clients, your model, any strategy, in one call."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from typing import Any

import torch
from torch import Tensor, nn

from fedcore.config import resolve
from fedcore.data._clients import LazyClients
from fedcore.data._samples import as_samples
from fedcore.errors import BadOption
from fedcore.sim.federation import check_dataset, federate
from fedcore.sim.history import History
from fedcore.sim.rounds import build_strategy, simulate_rounds
from fedcore.task import Task
from fedcore.types import (
    ClientData,
    ClientId,
    FederatedDataset,
    RoundRecord,
    RunKey,
    Strategy,
)


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
    given = {**options, "stragglers": stragglers, "seed": seed}
    experiment = resolve(given, lambda benchmark, preset: {})
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
            scores = trial(client.take(slice(0, 1))[0])
            if not isinstance(scores, Tensor) or scores.dim() != 2:
                raise BadOption("model must map a batch of inputs to scores [batch, classes]")
            return scores.shape[1]
    return 1
