"""What a phase trains on: everything, or a coreset; kept over rounds where it cannot change."""

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
from fedcore.compiled import have_numba
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


@dataclass(frozen=True, slots=True)
class Choice:
    """Samples of a phase that a call of ``make`` will choose.

    ``anywhere``: on any thread. Not so where stand-ins lie on a GPU: a thread that touches it
    while another records a graph spoils the recording. ``kept``: chosen before, and at hand.
    """

    make: Callable[[], Samples]
    anywhere: bool = True
    kept: bool = False


class Coresets:
    """Hands out samples for the phases of the clients it was given."""

    def __init__(self, clients: Mapping[ClientId, ClientData]) -> None:
        """Bind the data; it stays here."""
        self._clients = clients
        self._kept: dict[tuple[ClientId, CoresetSpec], Samples] = {}
        self._kept_samples = 0
        self._lock = threading.Lock()

    def for_phase(
        self, assignment: Assignment, phase: int, watched: Watched | None = None
    ) -> Samples:
        """What phase number ``phase`` of an assignment trains on.

        Args:
            assignment: whose plan says how large a coreset, if any.
            phase: its number within the plan.
            watched: gradients from the phase before, if they were collected.
        """
        return self.prepare(assignment, phase, watched).make()

    def prepare(self, assignment: Assignment, phase: int, watched: Watched | None = None) -> Choice:
        """The same, still to be made; what has to come from a device is fetched here."""
        spec = assignment.plan.phases[phase].coreset
        client = assignment.client_id
        if spec is None:
            return Choice(partial(Samples.everything, len(self._clients[client])))
        if not asks_nothing_of_the_model(spec):
            try:
                candidates = self._candidates(assignment, spec, watched)
            except NotFinite:
                # The model has diverged here, and the answer will be left out of the average. It
                # is given all the same, after as many steps, so that the others' are not lost.
                spec = replace(spec, selector="uniform-plain", proxy=NONE)
                return Choice(partial(self._by_inputs, assignment, spec))
            # A new one every round, because gradients change.
            make = partial(self._build, assignment, spec, candidates)
            return Choice(make, candidates.space.factors[0].device.type == "cpu")
        kept = (client, spec) in self._kept
        return Choice(partial(self._by_inputs, assignment, spec), kept=kept)

    def missing(self, assignment: Assignment, phase: int) -> int:
        """Samples among which a coreset of inputs, to be kept then, has yet to be chosen."""
        spec = assignment.plan.phases[phase].coreset
        if spec is None or spec.proxy == NONE or not asks_nothing_of_the_model(spec):
            return 0
        known = (assignment.client_id, spec) in self._kept
        return 0 if known else len(self._clients[assignment.client_id])

    def _by_inputs(self, assignment: Assignment, spec: CoresetSpec) -> Samples:
        client = assignment.client_id
        if spec.proxy == NONE:  # a random draw should change from round to round
            candidates = self._candidates(assignment, spec, None)
            return self._build(assignment, spec, candidates)
        # Distances between inputs are the same in every round, and so is the coreset: they are
        # computed once per client and budget, and what is kept is the answer, not a matrix.
        kept = self._kept.get((client, spec))
        if kept is None:
            candidates = self._candidates(assignment, spec, None)
            kept = self._build(assignment, spec, candidates, kept=True)
            self._keep(client, spec, kept)
        return kept

    def _keep(self, client: ClientId, spec: CoresetSpec, samples: Samples) -> None:
        with self._lock:
            self._kept[client, spec] = samples
            self._kept_samples += len(samples.indices)
            while self._kept_samples > MOST_KEPT and len(self._kept) > 1:
                oldest = next(iter(self._kept))
                self._kept_samples -= len(self._kept.pop(oldest).indices)

    def _candidates(
        self, assignment: Assignment, spec: CoresetSpec, watched: Watched | None
    ) -> Candidates:
        data = self._clients[assignment.client_id]
        space = self._space(data, spec, watched)
        labels = data.labels.to(space.factors[0].device)
        return Candidates(
            space,
            labels=labels,
            losses=None if watched is None else watched.gradients.losses.to(labels.device),
        )

    def _build(
        self,
        assignment: Assignment,
        spec: CoresetSpec,
        candidates: Candidates,
        *,
        kept: bool = False,
    ) -> Samples:
        # What is kept belongs to no round, so its stream does not either.
        path = ("coreset", assignment.client_id) if kept else assignment.path("coreset")
        generator = stream(assignment.seed, *path)
        coreset = build_coreset(candidates, spec.budget, spec.selector, generator, spec.options)
        return Samples(
            coreset.indices.cpu().numpy().astype(np.int64),
            coreset.weights.cpu().numpy().astype(np.float64),
            spec.weighting,
            None if spec.proxy == NONE else coreset.gradient_error,
        )

    def _space(self, data: ClientData, spec: CoresetSpec, watched: Watched | None) -> Metric:
        if spec.proxy == NONE:
            return Euclidean(torch.zeros(len(data), 1))
        if spec.proxy == STATIC:
            return Euclidean(data.take(slice(None))[0].reshape(len(data), -1))
        if watched is None:
            raise BadOption(GRADIENTS_FIRST)
        space = space_of(spec.proxy, watched.gradients, watched.weight, bias=watched.bias)
        # The compiled solver beats tensor operations on a GPU at a client's size, and what has
        # to travel is small: one residual per sample.
        return space.cpu() if have_numba() else space


def asks_nothing_of_the_model(spec: CoresetSpec) -> bool:
    """Whether a coreset can be had without a pass of the model over the samples."""
    if spec.proxy == NONE:
        return True
    needs_losses = getattr(plugins.load("selector", spec.selector), "NEEDS_LOSSES", False)
    return spec.proxy == STATIC and not needs_losses
