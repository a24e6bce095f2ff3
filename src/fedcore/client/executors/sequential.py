"""The plain executor, one step after another: what a real client runs, and every other's twin."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch

from fedcore.client.executors.blockwise import BlockwiseExecutor
from fedcore.client.job import Job, loss_sums
from fedcore.client.step import Batch, Memory, StepRule, step
from fedcore.coreset.proxies import HeadGradients
from fedcore.seeding import stream
from fedcore.task import BATCH_NORM, trained_names
from fedcore.types import Assignment, LocalUpdate, Params


class SequentialExecutor(BlockwiseExecutor):
    """Trains every assignment in turn, where the parameters lie that it is given."""

    may_step: Callable[[int], bool] | None = None  # asked before a step of so many samples

    def _train(self, params: Params, assignments: Sequence[Assignment]) -> list[LocalUpdate]:
        (assignment,) = assignments
        device = next(iter(params.values())).device
        data = self._clients[assignment.client_id].to(device)
        sends = self._task.terms.batch_norm == "average"
        if self._task.terms.batch_norm in BATCH_NORM:
            params = self._task.begin(params)
        job = Job(assignment, self._task, data, self._settings, self._coresets)
        with torch.random.fork_rng([device] if device.type == "cuda" else []):
            # What a model draws while it trains, as dropout does, has a stream of its own.
            draws = stream(assignment.seed, *assignment.path("model"))
            torch.manual_seed(int(draws.integers(1 << 63)))
            answer = train_plainly(params, job, self.may_step)
        now = {n: v.clone() for n, v in self._task.statistics().items()} if sends else {}
        return [replace(answer, params={**answer.params, **now})]


def train_plainly(
    params: Params, job: Job, may_step: Callable[[int], bool] | None = None
) -> LocalUpdate:
    """Do what a job says until it is done or may not; ``params`` lie where its data do."""
    plan, shift = job.assignment.plan, job.assignment.shift
    if shift is not None:
        shift = {name: shift[name].to(value.device) for name, value in params.items()}
    rate = job.settings.learning_rate_at(job.assignment.base_version)
    memory = Memory.blank(job.settings, {n: v[None] for n, v in params.items()})
    trained = None
    if plan.trained_share < 1:
        names = trained_names(params, plan.trained_share)
        trained = {name: float(name in names) for name in params}
    rule = StepRule(rate, plan.prox_mu, params, plan.step_scale, shift, memory, trained)
    seen: HeadGradients | None = None
    while (now := job.next(params, seen)) is not None:
        losses, parts, order = [], [], []
        for index, coefficient in zip(now.index, now.coefficient, strict=True):
            real = coefficient > 0  # the rest is padding
            if may_step is not None and not may_step(int(real.sum())):
                return job.answer(params)
            chosen = torch.from_numpy(index[real])
            x, y = job.data.take(chosen)
            batch = Batch(x, y, torch.from_numpy(coefficient[real]).to(y.device))
            params, own, part = step(job.task, params, batch, rule, watch=now.watch)
            losses.append(own)
            order.append(chosen)
            parts += [] if part is None else [part]
        if now.first_epoch:
            job.noted.append(loss_sums(torch.cat(losses[: now.first_epoch])))
        # One epoch on everything meets every sample once: put the rows back in sample order.
        seen = HeadGradients.gather(parts, torch.cat(order)) if parts else None
    return job.answer(params)
