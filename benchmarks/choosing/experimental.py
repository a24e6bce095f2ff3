"""What no plan can say, for arms that are only tried: choices that go by the model as it moves.

Linear models in compiled epochs, with a look at all samples between them that is not charged: what
these arms gain is an upper bound of what they would gain at a price.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any
from unittest import mock

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from benchmarks.choosing.arms import EPOCH_BY_EPOCH, Arm
from fedcore.client.coresets import Coresets
from fedcore.client.executors.linear import LinearExecutor
from fedcore.client.schedule import Samples, schedule
from fedcore.coreset.build import build_coreset
from fedcore.coreset.candidates import Candidates
from fedcore.coreset.metric import Euclidean, OuterProduct
from fedcore.coreset.proxies import HeadGradients
from fedcore.seeding import stream
from fedcore.task import Task
from fedcore.types import (
    Assignment,
    ClientData,
    ClientId,
    Generator,
    LocalUpdate,
    Params,
    Phase,
    TrainingSettings,
)

Floats = NDArray[np.float32]
LEARNT = 0.9  # a coreset's mean loss, as a share of everything's, below which it is left
UNIFORM = 0.5  # share of a draw by losses that is uniform, which bounds weights by 2 m / b


def arranged(arm: Arm) -> ExitStack:
    """What has to be in place while an arm runs."""
    around = ExitStack()
    if arm.proxy == "remembered":
        around.enter_context(mock.patch.object(Coresets, "by_losses", by_last_losses))
    if arm.form in EPOCH_BY_EPOCH:

        def choose(
            name: str, task: Task, clients: Any, settings: TrainingSettings, **_: Any
        ) -> Any:
            return EpochByEpoch(task, clients, settings, arm.form)

        around.enter_context(mock.patch("fedcore.sim.world.choose_executor", choose))
    return around


def by_last_losses(
    self: Coresets, assignment: Assignment, phase: Phase, look: Callable[[Tensor], HeadGradients]
) -> Samples:
    """b draws by p_j = (1 + L_j / mean L) / 2m, each of weight 1 / (b p_j).

    L_j is the loss at which the client met j last; of those it has not met, the mean of the others.
    """
    assert phase.coreset is not None
    client, budget = assignment.client_id, phase.coreset.budget
    size = len(self._clients[client])
    losses = self.losses.get(client, torch.full((size,), torch.nan)).clone()
    mean = float(losses.nanmean())
    known = torch.nan_to_num(losses, nan=mean).double().numpy() if mean > 0 else np.ones(size)
    chances = UNIFORM / size + (1 - UNIFORM) * known / known.sum()
    draws = stream(assignment.seed, *assignment.path("coreset"))
    indices, times = np.unique(draws.choice(size, budget, p=chances), return_counts=True)
    chosen = torch.from_numpy(indices)
    losses[chosen] = look(chosen).losses.cpu()  # as the first epoch meets them: nothing is charged
    self.losses[client] = losses
    return Samples(indices, times / (budget * chances[indices]), total=size)


class EpochByEpoch(LinearExecutor):
    """One compiled epoch at a time, with all losses and gradients known before each."""

    def __init__(self, task: Task, clients: Any, settings: TrainingSettings, form: str) -> None:
        super().__init__(task, clients, settings, threads=1)
        self._form = form
        self._first: dict[tuple[ClientId, int], Samples] = {}

    def _train(self, params: Params, assignments: Sequence[Assignment]) -> list[LocalUpdate]:
        from fedcore.client.executors.linear_kernel import train_chain

        (assignment,) = assignments
        data = self._clients[assignment.client_id]
        assert self._chain is not None
        flat = torch.cat([value.flatten() for value in params.values()])
        outputs, inputs = next(iter(params.values())).shape
        w, weight, bias = flat.numpy(), flat[:-outputs].view(outputs, inputs), flat[-outputs:]
        x, y = data.x.flatten(1).numpy(), data.labels.numpy()
        rate = self._settings.learning_rate_at(assignment.base_version)
        none = np.empty((0, 0), np.float32)
        rule = w.copy(), np.empty(0, np.float32), none, np.array([rate, 0, 1, 0, 0, np.inf])
        seen = none, none, np.empty(0, np.float32), np.zeros(2)
        steps = 0
        for number, samples in enumerate(
            self._epochs(assignment, data, weight.numpy(), bias.numpy())
        ):
            draws = stream(assignment.seed, *assignment.path("shuffle", number))
            tape = schedule(samples, 1, self._settings.batch_size, draws)
            own = x, y, tape.index, tape.coefficient
            train_chain(w, self._chain, own, rule, (0, 0, 0), seen)
            steps += len(tape.index)
        trained = zip(params, (weight, bias), strict=True)
        return [LocalUpdate(assignment.client_id, dict(trained), len(data), steps=steps)]

    def _epochs(
        self, assignment: Assignment, data: ClientData, weight: Floats, bias: Floats
    ) -> Iterator[Samples]:
        """What each epoch trains on, by the parameters as they are when it is asked for."""
        phase = assignment.plan.phases[-1]
        assert phase.coreset is not None
        draws = stream(assignment.seed, *assignment.path("coreset"))
        budget, learnt = phase.coreset.budget, False
        first = None if self._form == "anew" else self._by_inputs(assignment, data, budget)
        for _ in range(phase.epochs):
            residuals, losses = seen(data, weight, bias)
            if first is None:
                space = OuterProduct(residuals, data.x.flatten(1), bias=True)
                yield chosen(Candidates(space, data.labels), budget, "kmedoids", draws)
                continue
            mean = np.average(losses[first.indices], weights=first.weights)
            learnt = learnt or bool(mean < LEARNT * losses.mean())
            nothing = Candidates(Euclidean(torch.zeros(len(data), 1)))
            drawn = chosen(nothing, budget, "uniform-plain", draws)
            yield drawn if learnt else first

    def _by_inputs(self, assignment: Assignment, data: ClientData, budget: int) -> Samples:
        key = assignment.client_id, budget
        if key not in self._first:
            draws = stream(assignment.seed, "coreset", assignment.client_id)
            space = Euclidean(data.x.flatten(1))
            self._first[key] = chosen(Candidates(space), budget, "kmedoids", draws)
        return self._first[key]


def chosen(candidates: Candidates, budget: int, selector: str, draws: Generator) -> Samples:
    coreset = build_coreset(candidates, budget, selector, draws)
    return Samples(coreset.indices.numpy(), coreset.weights.numpy())


def seen(data: ClientData, weight: Floats, bias: Floats) -> tuple[Tensor, NDArray[np.float64]]:
    """dL/da [m, C] and L [m] of all samples."""
    scores = data.x.flatten(1) @ torch.from_numpy(weight).T + torch.from_numpy(bias)
    logs = scores.log_softmax(1)
    hits = torch.nn.functional.one_hot(data.labels, scores.shape[1])
    losses = -logs.gather(1, data.labels[:, None])[:, 0]
    return logs.exp() - hits, losses.double().numpy()
