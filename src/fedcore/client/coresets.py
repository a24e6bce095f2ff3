"""What phases train on: everything, or coresets, chosen on threads beside the training.

What is chosen depends on the assignment alone, not on threads, their timing or the device that
trains: stand-ins are brought to main memory first, where the solver beats a GPU as well.
"""

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from torch import Tensor

from fedcore.client.schedule import Samples, above_threshold
from fedcore.coreset.build import PLAIN, build_coreset, module_of
from fedcore.coreset.candidates import Candidates
from fedcore.coreset.metric import Euclidean, Metric, NotFinite
from fedcore.coreset.proxies import NONE, REMEMBERED, STATIC, HeadGradients, space_of
from fedcore.errors import BadOption
from fedcore.seeding import stream
from fedcore.types import Assignment, ClientData, ClientId, CoresetSpec, Phase, SelectionTime

GRADIENTS_FIRST = (
    "a plan must put a coreset that goes by gradients right behind one epoch on everything, or "
    "behind a forward pass; see strategies/fedcore.py"
)
# Samples up to which a choice is mostly Python, which threads only take out of each other's hands,
# and the training's: so many of them make such choices.
SMALL, FEW = 512, 2
# Samples of kept coresets, all together (16 bytes each): above it the oldest are built again.
MOST_KEPT = 4_000_000

Choose = Callable[[], Samples]
Clients = Mapping[ClientId, ClientData]
Key = tuple[ClientId, CoresetSpec | None]
Path = tuple[str | int, ...]  # of a random stream


@dataclass(frozen=True, slots=True)
class Watched:
    """Last-layer gradients of a pass over everything, and the layer at the end of that pass."""

    gradients: HeadGradients
    weight: Tensor
    bias: bool


class Coresets:
    """Hands out samples for the phases of the clients it was given, and keeps the time of it."""

    def __init__(self, clients: Clients, threads: int = 0) -> None:
        """Bind the data, and how many threads choose; 0 makes a choice where it is taken."""
        self._clients = clients
        # One core each, beside a training that has the others; who has not asked is overruled.
        ask, bound = torch.get_num_threads, torch.set_num_threads
        make = partial(ThreadPoolExecutor, initializer=lambda: (ask(), bound(1)))
        self._workers = [make(min(threads, FEW)), make(threads)] if threads else []  # few; many
        self._lock = threading.Lock()
        self._kept: dict[Key, Samples] = {}
        self._kept_samples = 0
        self._expected: dict[Key, Future[Samples]] = {}  # choices of inputs that are under way
        self.time = SelectionTime()
        self._waiting = 0  # trainings that stand still, and since when one does
        self._since = 0.0
        self.losses: dict[ClientId, Tensor] = {}  # that clients remember, and keep to themselves

    def expect(self, assignments: Iterable[Assignment]) -> None:
        """Begin what these will ask for and inputs alone decide, the largest first."""
        if not self._workers:
            return
        pairs = [(one, phase) for one in assignments for phase in range(len(one.plan.phases))]
        for pair in sorted(pairs, key=lambda pair: -self._missing(*pair)):
            if self._missing(*pair):
                self.begin(*pair)

    def missing(self, assignment: Assignment) -> int:
        """Samples among which this has to wait for a choice, of those made of inputs."""
        return sum(self._missing(assignment, n) for n in range(len(assignment.plan.phases)))

    def begin(self, assignment: Assignment, phase: int, watched: Watched | None = None) -> Choose:
        """Begin to choose what a phase trains on; call the answer to have it."""
        spec = assignment.plan.phases[phase].coreset
        if spec is None:
            return partial(Samples.everything, len(self._clients[assignment.client_id]))
        # A spec that came before in the plan is to be drawn anew.
        earlier = sum(one.coreset == spec for one in assignment.plan.phases[:phase])
        path = assignment.path("coreset", *([earlier] if earlier else []))
        if asks_nothing_of_the_model(spec):
            watched = None
        elif watched is None:
            raise BadOption(GRADIENTS_FIRST)
        choose = partial(self._chosen, assignment, spec, watched, path)
        key = assignment.client_id, spec
        # A plain draw takes less than handing it to a thread.
        if not self._workers or key in self._kept or spec.proxy == NONE:
            return lambda: self._waited(lambda: self._worked(choose))
        running = self._expected.get(key)
        if running is None:
            # Who never asked for a number of threads gets the number set last, by a worker.
            torch.get_num_threads()
            workers = self._workers[len(self._clients[assignment.client_id]) > SMALL]
            running = workers.submit(self._worked, choose)
            if self._missing(assignment, phase):
                self._expected[key] = running
                running.add_done_callback(lambda _: self._expected.pop(key, None))
        return lambda: self._waited(running.result)

    def by_losses(
        self, assignment: Assignment, phase: Phase, look: Callable[[Tensor], HeadGradients]
    ) -> Samples:
        """The samples of largest remembered loss, as FedBalancer's rules have it.

        What is not remembered is looked at; the server is told the least and a percentile alone.
        """
        client, losses = assignment.client_id, self.losses.get(assignment.client_id)
        everything = torch.arange(len(self._clients[client]))
        losses = look(everything).losses.cpu() if losses is None else losses.clone()
        draws = stream(assignment.seed, *assignment.path("coreset"))
        samples = above_threshold(losses.numpy(), phase, draws)
        chosen = torch.from_numpy(samples.indices)
        losses[chosen] = look(chosen).losses.cpu()
        self.losses[client], known = losses, losses.double()
        told = {"least": known.min(), "percentile": torch.quantile(known, 0.8)}
        return replace(samples, told=told)

    def close(self) -> None:
        """Drop the choices that no thread has begun; those under way end by themselves."""
        for workers in self._workers:
            workers.shutdown(wait=False, cancel_futures=True)

    def _missing(self, assignment: Assignment, phase: int) -> int:
        """Samples among which a coreset of inputs, to be kept then, has yet to be chosen."""
        client, spec = assignment.client_id, assignment.plan.phases[phase].coreset
        if spec is None or not _lasts(spec) or (client, spec) in self._kept:
            return 0
        return len(self._clients[client])

    def _chosen(
        self, assignment: Assignment, spec: CoresetSpec, watched: Watched | None, path: Path
    ) -> Samples:
        """By gradients, or at random, anew every round; by inputs once per client and spec."""
        client = assignment.client_id
        kept = self._kept.get((client, spec))
        if kept is not None:
            return kept
        try:
            candidates = _candidates(self._clients[client], spec, watched)
        except NotFinite:
            if watched is None:
                raise
            # Diverged: an answer is given, and left out of the average, so that others' count.
            spec = replace(spec, selector=PLAIN, proxy=NONE)
            candidates = _candidates(self._clients[client], spec, None)
        if not _lasts(spec):
            return build_samples(assignment, spec, candidates, path)
        samples = build_samples(assignment, spec, candidates, ("coreset", client))
        with self._lock:
            self._kept[client, spec] = samples
            self._kept_samples += len(samples.indices)
            while self._kept_samples > MOST_KEPT and len(self._kept) > 1:
                self._kept_samples -= len(self._kept.pop(next(iter(self._kept))).indices)
        return samples

    def _worked(self, choose: Choose) -> Samples:
        began = time.thread_time()
        try:
            return choose()
        finally:
            with self._lock:
                self.time.work += time.thread_time() - began

    def _waited(self, wait: Choose) -> Samples:
        with self._lock:
            if self._waiting == 0:
                self._since = time.perf_counter()
            self._waiting += 1
        try:
            return wait()
        finally:
            with self._lock:
                self._waiting -= 1
                if self._waiting == 0:
                    self.time.waited += time.perf_counter() - self._since


def asks_nothing_of_the_model(spec: CoresetSpec) -> bool:
    """Whether a coreset can be had without a pass of the model over the samples."""
    return spec.proxy in (NONE, REMEMBERED) or _lasts(spec)


def _lasts(spec: CoresetSpec) -> bool:
    """Whether inputs alone decide, so that a choice holds for all rounds."""
    return spec.proxy == STATIC and not needs_losses(spec.selector)


def needs_losses(selector: str) -> bool:
    """Whether a selector goes by losses."""
    return bool(getattr(module_of(selector), "NEEDS_LOSSES", False))


def _candidates(data: ClientData, spec: CoresetSpec, watched: Watched | None) -> Candidates:
    space: Metric
    if spec.proxy == NONE:
        space = Euclidean(torch.zeros(len(data), 1))
    elif spec.proxy == STATIC:
        x = data.take(slice(None))[0]
        x = x if isinstance(x, Tensor) else x.flat()
        space = Euclidean(x.cpu().reshape(len(data), -1))
    else:
        assert watched is not None
        space = space_of(spec.proxy, watched.gradients, watched.weight, bias=watched.bias)
    losses = None if watched is None else watched.gradients.losses
    labels = None  # a plain draw asks for none, and they may have to be read
    if spec.selector != PLAIN and data.y.dim() == 1 and not data.y.is_floating_point():
        labels = data.labels.cpu()
    return Candidates(space, labels=labels, losses=losses)


def build_samples(
    assignment: Assignment, spec: CoresetSpec, candidates: Candidates, path: Path
) -> Samples:
    """Choose as ``spec`` says, from the random stream of that ``path``."""
    generator = stream(assignment.seed, *path)
    coreset = build_coreset(candidates, spec.budget, spec.selector, generator, spec.options)
    return Samples(
        coreset.indices.numpy().astype(np.int64),
        coreset.weights.numpy().astype(np.float64),
        spec.weighting,
        None if spec.proxy == NONE else coreset.gradient_error,
        coreset.fell_back,
        len(candidates) if coreset.sums_in_the_mean else None,
    )
