"""The vectorised executor: a cohort trained side by side, in blocks that memory can hold.

Equal to ``SequentialExecutor`` up to the rounding of float32 sums. Clients are sorted by how much
they train on before they are cut into blocks, so that those of a block finish together.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from fedcore.client.coresets import Coresets, Watched
from fedcore.client.executors.blockwise import BlockwiseExecutor
from fedcore.client.executors.stacked_model import form_of
from fedcore.client.executors.steps import LONGEST_RUN, Pool, Steps, Tape
from fedcore.client.job import LOOK_CHUNK, Job, loss_sums
from fedcore.client.schedule import NOTHING, BatchSchedule
from fedcore.coreset.proxies import HeadGradients, head_gradients
from fedcore.task import Task
from fedcore.types import Assignment, ClientData, LocalUpdate, Params, TrainingSettings

CROWD = 0.75  # compact when fewer than this share of the slots are still at work


class VectorisedExecutor(BlockwiseExecutor):
    """Trains clients in blocks; on a CPU blocks run side by side, one core each."""

    def _train(self, params: Params, assignments: Sequence[Assignment]) -> list[LocalUpdate]:
        data = [self._clients[assignment.client_id] for assignment in assignments]
        return self._of_this_thread(self._new_block).train(params, assignments, data)

    def _new_block(self) -> "Block":
        task, pool = self._task.on(self._device), Pool(self._device)
        steps = Steps(form_of(task), pool, self._settings, record=self._device.type == "cuda")
        return Block(task, self._settings, self._coresets, pool, steps)


@dataclass(slots=True)
class _Client:
    """A job in a slot: how far it is on its tape, how long it rests."""

    job: Job
    slot: int
    rows: slice  # of its samples in the pool
    tape: BatchSchedule = NOTHING
    position: int = 0  # below 0: so many steps of the others until it goes on
    trained: Params = field(default_factory=dict)  # where it ended

    @property
    def remaining(self) -> int:
        """Steps left on the present tape, or of rest."""
        return len(self.tape.index) - self.position


@dataclass(slots=True)
class Block:
    """Clients in slots; finished ones leave, and the others move up when it pays."""

    task: Task
    settings: TrainingSettings
    coresets: Coresets
    pool: Pool
    steps: Steps

    def train(
        self, params: Params, assignments: Sequence[Assignment], data: Sequence[ClientData]
    ) -> list[LocalUpdate]:
        """Train every assignment from ``params``; answers lie where those do."""
        pairs = zip(assignments, data, strict=True)
        jobs = [Job(told, self.task, own, self.settings, self.coresets) for told, own in pairs]
        names = [assignment.client_id for assignment in assignments]
        placed = self.pool.fill([job.needed() for job in jobs], names)
        clients = []
        for slot, (job, (rows, own)) in enumerate(zip(jobs, placed, strict=True)):
            job.data = own
            clients.append(_Client(job, slot, rows))
        present, slots = clients, len(clients)
        self.steps.start(params, assignments)
        self._look([one for one in clients if one.job.assignment.plan.phases[0].forward_price])
        while True:
            ended = [client for client in present if not self._is_busy(client)]
            if ended:
                copies = self.steps.copies_of([client.slot for client in ended], like=params)
                for client, copy in zip(ended, copies, strict=True):
                    client.trained = copy
                present = [client for client in present if not client.trained]
            if not present:
                met = self.steps.met.cpu()  # at the end: the next tape would wait for it
                for client in clients:
                    client.job.noted.append(loss_sums(met[client.rows]))
                return [client.job.answer(client.trained) for client in clients]
            if len(present) <= CROWD * slots:
                self.steps.keep([client.slot for client in present])
                slots = len(present)
                for slot, client in enumerate(present):
                    client.slot = slot
            self._run(present)

    def _look(self, clients: Sequence[_Client]) -> None:
        """One pass for all who begin with one, since all begin with the same model."""
        if not clients:
            return
        every = torch.cat([torch.arange(one.rows.start, one.rows.stop) for one in clients])
        alone = self.pool.device.type == "cpu"  # where what a chunk leaves should fit a cache
        pieces = torch.split(every.to(self.pool.device), LOOK_CHUNK * (1 if alone else 32))
        batches = ((self.pool.x[rows], self.pool.y[rows]) for rows in pieces)
        seen = head_gradients(self.task, self.steps.views[0], batches)
        weight = self.task.head_weight(self.steps.views[0]).detach().to("cpu", copy=True)
        parts = [torch.split(v.cpu(), [len(one.job.data) for one in clients]) for v in seen]
        for client, *own in zip(clients, *parts, strict=True):
            client.job.looked = Watched(HeadGradients(*own), weight, self.task.head_has_bias)

    def _is_busy(self, client: _Client) -> bool:
        """Whether a client has steps to take or to rest; one at the end of its tape goes on."""
        if client.remaining:
            return True
        seen = self.steps.seen(client.rows, self.task.head_width) if client.tape.watch else None
        now = client.job.next(self.steps.views[client.slot], seen)
        client.tape = now or NOTHING
        client.position = -client.tape.rest
        return now is not None

    def _run(self, present: Sequence[_Client]) -> None:
        """Step until the first client comes to the end of its tape or of its rest."""
        count = min(client.remaining for client in present)
        watching = any(client.tape.watch for client in present)
        if any(client.position >= 0 for client in present):
            count = min(count, LONGEST_RUN)
            self._step(present, count, self.task.head_width if watching else None)
        # Where nobody has anything to do, the first to end its rest need not wait for steps.
        for client in present:
            client.position += count

    def _step(self, present: Sequence[_Client], count: int, watch: int | None) -> None:
        """Take ``count`` steps with everybody who has a tape; who has none sees its own sample.

        Another's might overflow, and 0 · NaN is NaN.
        """
        batch = self.settings.batch_size
        coefficient = np.zeros((count, self.steps.width, batch), np.float32)
        rows = np.zeros((count, 2, self.steps.width, batch), np.int64)
        rows[:, 1] = len(self.pool.x)
        order = np.arange(count * batch).reshape(count, batch)
        for client in present:
            slot = client.slot
            rows[:, 0, slot] = client.rows.start
            if client.position >= 0:
                coming = slice(client.position, client.position + count)
                coefficient[:, slot] = own = client.tape.coefficient[coming]
                rows[:, 0, slot] += client.tape.index[coming]
                # The j-th loss of an epoch has the j-th row: a draw may hold a sample twice.
                early = slice(max(0, client.tape.first_epoch - client.position))
                place = client.rows.start + client.position * batch + order[early]
                rows[early, 1, slot] = np.where(own[early] > 0, place, len(self.pool.x))
        self.steps.run(Tape(torch.from_numpy(rows), torch.from_numpy(coefficient)), watch)
