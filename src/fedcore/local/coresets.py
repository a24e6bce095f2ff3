"""A client's coreset for a phase; built once and kept where it does not depend on the model."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from torch import Tensor

from fedcore.coreset.build import build_coreset
from fedcore.coreset.proxies import STATIC
from fedcore.local.schedule import Samples
from fedcore.seeding import stream
from fedcore.types import Assignment, ClientData, ClientId, CoresetSpec


class Coresets:
    """Hands out coresets for the clients it was given."""

    def __init__(self, clients: Mapping[ClientId, ClientData]) -> None:
        """Bind the data; it stays here."""
        self._clients = clients
        self._kept: dict[tuple[ClientId, CoresetSpec], Samples] = {}

    def for_phase(
        self, assignment: Assignment, phase: int, gradients: Tensor | None = None
    ) -> Samples:
        """What phase number ``phase`` of an assignment trains on.

        Args:
            assignment: whose plan says how large a coreset, if any.
            phase: its number within the plan.
            gradients: [m, d] last-layer gradients of the phase before, if they were collected.
        """
        spec = assignment.plan.phases[phase].coreset
        if spec is None:
            return Samples.everything(len(self._clients[assignment.client_id]))
        if gradients is None:
            return self._static(assignment, spec)
        # Distances between gradients of this round's model (section 4.3, networks).
        path = ("coreset", assignment.round_number, assignment.client_id)
        return self._build(assignment, spec, gradients, *path)

    def _static(self, assignment: Assignment, spec: CoresetSpec) -> Samples:
        """By distances between inputs (section 4.3, convex models).

        They are the same in every round, and so is the coreset: distances are computed once
        per client and budget, and what is kept over rounds is the answer, not the m x m matrix.
        """
        key = (assignment.client_id, spec)
        if key not in self._kept:
            inputs = self._clients[assignment.client_id].take(slice(None))[0].float()
            path = ("coreset", assignment.client_id)
            self._kept[key] = self._build(assignment, spec, inputs, *path)
        return self._kept[key]

    def _build(
        self, assignment: Assignment, spec: CoresetSpec, points: Tensor, *path: str | int
    ) -> Samples:
        labels = self._clients[assignment.client_id].labels
        coreset = build_coreset(points, labels, spec, stream(assignment.seed, *path))
        indices = coreset.indices.cpu().numpy().astype(np.int64)
        weights = coreset.weights.cpu().numpy().astype(np.float64)
        return Samples(indices, weights, spec.weighting)


def is_static(spec: CoresetSpec) -> bool:
    """Whether a coreset can be had without looking at the model."""
    return spec.proxy == STATIC
