"""What a phase trains on: everything, or a coreset; kept over rounds where it cannot change.

Stand-ins are brought to main memory before anything is chosen among them, so that a coreset does
not depend on the device that trains: at a client's size the compiled solver beats a GPU as well.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from torch import Tensor

from fedcore import plugins
from fedcore.client.schedule import Samples
from fedcore.coreset.build import build_coreset
from fedcore.coreset.candidates import Candidates
from fedcore.coreset.metric import Euclidean, Metric, NotFinite
from fedcore.coreset.proxies import NONE, STATIC, HeadGradients, space_of
from fedcore.errors import BadOption
from fedcore.seeding import stream
from fedcore.types import Assignment, ClientData, ClientId, CoresetSpec

GRADIENTS_FIRST = (
    "a plan must put a coreset that goes by gradients right behind one epoch on everything, or "
    "behind a forward pass; see strategies/fedcore.py"
)
# Samples of kept coresets, all together (16 bytes each): above it the oldest are built again.
MOST_KEPT = 4_000_000


@dataclass(frozen=True, slots=True)
class Watched:
    """Last-layer gradients of a pass over everything, and the layer at the end of that pass."""

    gradients: HeadGradients
    weight: Tensor
    bias: bool


class Coresets:
    """Hands out samples for the phases of the clients it was given."""

    def __init__(self, clients: Mapping[ClientId, ClientData]) -> None:
        """Bind the data; it stays here."""
        self._clients = clients
        self._kept: dict[tuple[ClientId, CoresetSpec | None], Samples] = {}
        self._kept_samples = 0
        self._lock = threading.Lock()

    def prepare(
        self, assignment: Assignment, phase: int, watched: Watched | None = None
    ) -> Callable[[], Samples]:
        """What chooses the samples of phase number ``phase``, on any thread.

        Args:
            assignment: whose plan says how large a coreset, if any.
            phase: its number within the plan.
            watched: gradients from the phase before, if they were collected; fetched here.
        """
        spec = assignment.plan.phases[phase].coreset
        if spec is None:
            return partial(Samples.everything, len(self._clients[assignment.client_id]))
        if asks_nothing_of_the_model(spec):
            return partial(self._by_inputs, assignment, spec)
        try:
            candidates = self._candidates(assignment, spec, watched)
        except NotFinite:
            # The model has diverged here, and the answer will be left out of the average. It
            # is given all the same, after as many steps, so that the others' are not lost.
            spec = replace(spec, selector="uniform-plain", proxy=NONE)
            return partial(self._by_inputs, assignment, spec)
        # A new one every round, because gradients change.
        return partial(_build, assignment, spec, candidates, assignment.path("coreset"))

    def is_kept(self, assignment: Assignment, phase: int) -> bool:
        """Whether a coreset of inputs was chosen before, and is at hand."""
        return (assignment.client_id, assignment.plan.phases[phase].coreset) in self._kept

    def missing(self, assignment: Assignment, phase: int) -> int:
        """Samples among which a coreset of inputs, to be kept then, has yet to be chosen."""
        spec = assignment.plan.phases[phase].coreset
        if spec is None or spec.proxy == NONE or not asks_nothing_of_the_model(spec):
            return 0
        return 0 if self.is_kept(assignment, phase) else len(self._clients[assignment.client_id])

    def _by_inputs(self, assignment: Assignment, spec: CoresetSpec) -> Samples:
        """A random draw, another one in every round; or what distances between inputs say.

        The latter are the same in every round, and so is the coreset: it is computed once per
        client and spec, from a stream that belongs to no round, and kept.
        """
        client = assignment.client_id
        kept = self._kept.get((client, spec))
        if kept is not None:
            return kept
        candidates = self._candidates(assignment, spec, None)
        if spec.proxy == NONE:
            return _build(assignment, spec, candidates, assignment.path("coreset"))
        samples = _build(assignment, spec, candidates, ("coreset", client))
        with self._lock:
            self._kept[client, spec] = samples
            self._kept_samples += len(samples.indices)
            while self._kept_samples > MOST_KEPT and len(self._kept) > 1:
                oldest = next(iter(self._kept))
                self._kept_samples -= len(self._kept.pop(oldest).indices)
        return samples

    def _candidates(
        self, assignment: Assignment, spec: CoresetSpec, watched: Watched | None
    ) -> Candidates:
        data = self._clients[assignment.client_id]
        losses = None if watched is None else watched.gradients.losses.cpu()
        return Candidates(_space(data, spec, watched), labels=data.labels.cpu(), losses=losses)


def _space(data: ClientData, spec: CoresetSpec, watched: Watched | None) -> Metric:
    if spec.proxy == NONE:
        return Euclidean(torch.zeros(len(data), 1))
    if spec.proxy == STATIC:
        return Euclidean(data.take(slice(None))[0].cpu().reshape(len(data), -1))
    if watched is None:
        raise BadOption(GRADIENTS_FIRST)
    return space_of(spec.proxy, watched.gradients, watched.weight, bias=watched.bias).cpu()


def _build(
    assignment: Assignment, spec: CoresetSpec, candidates: Candidates, path: tuple[str | int, ...]
) -> Samples:
    generator = stream(assignment.seed, *path)
    coreset = build_coreset(candidates, spec.budget, spec.selector, generator, spec.options)
    return Samples(
        coreset.indices.numpy().astype(np.int64),
        coreset.weights.numpy().astype(np.float64),
        spec.weighting,
        None if spec.proxy == NONE else coreset.gradient_error,
        getattr(coreset, "fell_back", False),
    )


def asks_nothing_of_the_model(spec: CoresetSpec) -> bool:
    """Whether a coreset can be had without a pass of the model over the samples."""
    if spec.proxy == NONE:
        return True
    needs_losses = getattr(plugins.load("selector", spec.selector), "NEEDS_LOSSES", False)
    return spec.proxy == STATIC and not needs_losses
