"""``fit``: the simulator's own steps on a client, with a clock in them.

The same plan and seed give the simulator's answer to the last bit, as long as there is time. Where
there is not, the coreset shrinks after the first epoch, and no step is begun that would be late.
"""

from dataclasses import replace
from typing import Any

import torch
from flwr.app import Context, Message
from torch import nn

from fedcore.arrays import batches
from fedcore.client.coresets import Choose, Coresets, Watched
from fedcore.client.executors.sequential import SequentialExecutor
from fedcore.client.schedule import Samples
from fedcore.coreset.proxies import NONE
from fedcore.flower.turn import WALL, Clock, Turn
from fedcore.flower.wire import SHIFT
from fedcore.task import Task
from fedcore.types import Assignment, ClientData, ClientId, TrainingSettings

CHUNK = 4096  # samples of a dataset at a time


def fit(
    model: nn.Module,
    data: Any,
    msg: Message,
    context: Context,
    *,
    learning_rate: float,
    batch_size: int,
    clock: Clock | None = WALL,
) -> Message:
    """Train ``model``, from the parameters in ``msg``, as the order there says; gives the answer.

    ``data`` is a pair (inputs, labels), a dataset or a ``ClientData``. Without a ``clock`` the plan
    is followed however long it takes.
    """
    turn = Turn(msg, context, clock or WALL)
    told = turn.order.assignment
    for name, record in msg.content.array_records.items():
        if name == SHIFT:
            told = replace(told, shift=record.to_torch_state_dict())
        else:
            model.load_state_dict(record.to_torch_state_dict())
    task = Task(model)
    params = task.initial_params()
    if not isinstance(data, ClientData):
        parts = batches(data, CHUNK, next(iter(params.values())).dtype)
        data = ClientData(*(torch.cat(part) for part in zip(*parts, strict=True)))
    clients = {told.client_id: data}
    timed = _Timed(clients, turn, bound=clock is not None)
    executor = SequentialExecutor(task, clients, TrainingSettings(learning_rate, batch_size))
    executor.may_step, executor._coresets = timed.may_step, timed
    (update,) = executor.run(params, [told])
    timed.stepped()
    model.load_state_dict(update.params, strict=False)
    turn.said.loss_sum, turn.said.loss_square_sum = update.loss_sum, update.loss_square_sum
    turn.said.loss_count = update.loss_count if update.loss_sum else 0  # cut before they were noted
    turn.chosen(update.coreset_size or 0, update.gradient_error, update.fell_back)
    turn.examples = len(data)
    return turn.reply(model.state_dict())


class _Timed(Coresets):
    """Coresets as large as there is time when they are due, and a clock asked before each step."""

    def __init__(self, clients: dict[ClientId, ClientData], turn: Turn, *, bound: bool) -> None:
        super().__init__(clients)
        self._turn, self._bound = turn, bound
        self._samples, self._step_began = 0, 0.0

    def begin(self, assignment: Assignment, phase: int, watched: Watched | None = None) -> Choose:
        """Begin when it is due, which is when the speed is known."""
        if not self._bound or assignment.plan.phases[phase].coreset is None:
            return super().begin(assignment, phase, watched)
        return lambda: self._late(assignment, phase, watched)

    def may_step(self, samples: int) -> bool:
        """Whether there is time for a step; notes how long the one before took."""
        self.stepped()
        if self._bound and not self._turn.go_on():
            return False
        self._samples, self._step_began = samples, self._turn.clock.steady()
        return True

    def _late(self, assignment: Assignment, phase: int, watched: Watched | None) -> Samples:
        self.stepped()
        began, plan = self._turn.clock.steady(), assignment.plan
        own, size = plan.phases[phase], len(self._clients[assignment.client_id])
        spec = self._turn.late_spec(own, size, grow=False)
        after = (replace(own, coreset=spec), *plan.phases[phase + 1 :])
        plan = replace(plan, phases=(*plan.phases[:phase], *after))
        samples = super().begin(replace(assignment, plan=plan), phase, watched)()
        if spec.proxy != NONE:
            self._turn.selection = self._turn.clock.steady() - began
        return samples

    def stepped(self) -> None:
        """Note the step that is over now, if there was one."""
        if self._samples:
            self._turn.stepped(self._samples, self._turn.clock.steady() - self._step_began)
        self._samples = 0
