"""Chains of linear layers in compiled loops on threads; the plain loop's answers up to rounding."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.utils import parameters_to_vector
from torch.overrides import TorchFunctionMode

from fedcore.client.coresets import Clients
from fedcore.client.executors.blockwise import BlockwiseExecutor
from fedcore.client.executors.sequential import train_plainly
from fedcore.client.job import Job, waits_for_gradients
from fedcore.compiled import have_numba
from fedcore.coreset.proxies import HeadGradients
from fedcore.task import Task, has_hooks, trained_names
from fedcore.types import Assignment, LocalUpdate, Params, TrainingSettings

# Of every layer inputs, outputs, biases, kind of activation, and what that leaves of a < 0
Chain = NDArray[np.float32]
KINDS = {"relu": 0, "leaky_relu": 0, "tanh": 1, "sigmoid": 2, "silu": 3, "gelu": 4}
SHAPES = ("flatten", "view", "reshape")


class _Calls(TorchFunctionMode):
    """Notes the names of what is called, what it is given, and what it gives."""

    def __init__(self) -> None:
        super().__init__()
        self.made: list[tuple[str, list[Any], Any]] = []

    def __torch_function__(self, called: Any, types: Any, args: Any = (), named: Any = None) -> Any:
        output, given = called(*args, **(named or {})), [*args, *(named or {}).values()]
        self.made.append((called.__name__, given or [None], output))
        return output


def chain_of(task: Task, clients: Clients) -> Chain | None:
    """What a model calls when two samples go through it, None if that is anything but a chain."""
    task, example = task.on(torch.device("cpu")), next(iter(clients.values()))
    params, now = task.initial_params(), example.take(slice(0, 2))[0].cpu()
    try:
        with torch.no_grad(), torch.random.fork_rng([]), _Calls() as calls:
            scores = task.logits(params, now)
    except Exception:  # whatever it is, other executors meet it too
        return None
    used, chain, fits = [], [], have_numba() and not has_hooks(task.model)
    for name, (before, *given), output in calls.made:
        if name in ("size", "dim", "__len__", "__get__") and not isinstance(output, Tensor):
            continue  # a question of shape
        more = [value for value in given if value is not None and not isinstance(value, bool)]
        if name == "linear" and before.dim() == 2:
            used += more
            chain.append([more[0].shape[1], len(more[0]), sum(map(len, more[1:])), 0, 1])
        elif name in KINDS and chain and chain[-1][3:] == [0, 1] and "tanh" not in more:
            chain[-1][3:] = KINDS[name], *(more if name == "leaky_relu" else [name != "relu"])
        elif name not in SHAPES or output.shape != before.flatten(1).shape:
            fits = fits and (name, more) == ("dropout", [0])
        fits, now = fits and before is now, output
    same = [(id(v), v.dtype) for v in params.values()] == [(id(v), torch.float32) for v in used]
    return np.array(chain, np.float32) if fits and same and now is scores else None


class LinearExecutor(BlockwiseExecutor):
    """Trains clients of a model that is such a chain in compiled loops, on the CPU."""

    def __init__(
        self, task: Task, clients: Clients, settings: TrainingSettings, *, threads: int = 1
    ) -> None:
        """Bind all; ``threads`` train clients and choose coresets, 0: one per core."""
        super().__init__(task, clients, settings, threads=threads)
        self._chain = chain_of(task, clients)

    def _rank(self, assignment: Assignment) -> tuple[int, ...]:
        """Who has a coreset, then who gets one first, the largest; of each the longest first."""
        missing = self._coresets.missing(assignment)
        work = assignment.plan.work(len(self._clients[assignment.client_id]))
        return missing > 0, -missing, -work

    def _train(self, params: Params, assignments: Sequence[Assignment]) -> list[LocalUpdate]:
        (assignment,) = assignments
        data = self._clients[assignment.client_id].to(next(iter(params.values())).device)
        task = self._of_this_thread(lambda: self._task.on(torch.device("cpu")))
        job = Job(assignment, task, data, self._settings, self._coresets)
        weights = [value for value in params.values() if value.dim() > 1]
        # Of one layer, what goes by gradients is as ever: published results keep their last digit.
        gradients = waits_for_gradients(assignment.plan) or self._settings.measure_full_gradient
        unseen = gradients and (len(weights) == 1 or task.head_weight(params) is not weights[-1])
        plainly = unseen or self._settings.adam
        return [train_plainly(params, job) if plainly else self._compiled(params, job)]

    def _compiled(self, params: Params, job: Job) -> LocalUpdate:
        from fedcore.client.executors.linear_kernel import train_chain

        plan, shift, how = job.assignment.plan, job.assignment.shift, self._settings
        chain = self._chain
        assert chain is not None  # as ``choose_executor`` has found
        flat = parameters_to_vector(params.values()).cpu()
        parts = torch.split(flat, [value.numel() for value in params.values()])
        views = {n: part.view(params[n].shape) for n, part in zip(params, parts, strict=True)}
        names = trained_names(params, plan.trained_share)
        others = [value for name, value in views.items() if name not in names]
        left = sum(value.dim() > 1 for value in others), sum(value.numel() for value in others)
        w, added = flat.numpy(), np.empty(0, np.float32)
        if shift is not None:
            added = parameters_to_vector([shift[name] for name in params]).cpu().numpy()
        at_once = how.plain and (len(chain) == 1 or (plan.prox_mu == 0 and shift is None))
        memory = np.zeros((0 if at_once else 2, len(w)), np.float32)
        rates = how.learning_rate_at(job.assignment.base_version), plan.prox_mu, plan.step_scale
        numbers = np.array([*rates, how.momentum, how.weight_decay, how.clip_norm or np.inf])
        rule = w.copy(), added, memory, numbers
        samples, labels = job.data.take(slice(None))
        x = samples.flatten(1).to("cpu", torch.float32).contiguous().numpy()
        if x.shape[1] != chain[0, 0]:
            return train_plainly(params, job)  # which says what is wrong with them
        y, seen = labels.to("cpu", torch.int64).numpy(), None
        while (now := job.next(views, seen)) is not None:
            room, steps = (len(x), len(now.index)) if now.watch else (0, now.first_epoch)
            shapes = (room, int(chain[-1, 1])), (room, int(chain[-1, 0])), room
            residuals, inputs, losses = (np.empty(shape, np.float32) for shape in shapes)
            tape = x, y, now.index, np.ascontiguousarray(now.coefficient)
            sums, found = np.zeros(2), (residuals, inputs, losses)
            train_chain(w, chain, tape, rule, (steps, *left), (*found, sums))
            if now.first_epoch:
                job.noted.append(torch.from_numpy(sums))
            seen = HeadGradients(*map(torch.from_numpy, found)) if now.watch else None
        return job.answer({name: view.to(params[name].device) for name, view in views.items()})
