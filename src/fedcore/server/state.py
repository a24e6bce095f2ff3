"""What the server knows between two events, and how that is written down."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from fedcore.records import Snapshot
from fedcore.types import Assignment, ClientId, ClientProfile, Params


@dataclass(frozen=True, slots=True)
class Job:
    """Work that a client was given and has not answered yet.

    Attributes:
        assignment: what it was told.
        profile: who it is.
        copies: how often it was drawn.
        base: the model it starts from.
        sequence: how many were asked before it; of two that answer at once, it comes first.
        arrives: seconds from the last merge to its answer, once a virtual clock has it.
    """

    assignment: Assignment
    profile: ClientProfile
    copies: int
    base: Params
    sequence: int
    arrives: float | None = None


@dataclass(frozen=True, slots=True)
class ServerState:
    """The model, and all that strategy and sampler have to remember.

    Attributes:
        params: w, the global model.
        version: how many merges made it.
        tensors: a strategy's own, by name.
        clients: what a strategy keeps of clients, as far as it has met them.
        sampler: a sampler's memory, by name.
        jobs: what is in flight.
    """

    params: Params
    version: int = 0
    tensors: Params = field(default_factory=dict)
    clients: Mapping[ClientId, Params] = field(default_factory=dict)
    sampler: Params = field(default_factory=dict)
    jobs: tuple[Job, ...] = ()


def to_snapshot(state: ServerState) -> Snapshot:
    """All that a later process needs to go on from ``state``."""
    groups: dict[str, Params] = {
        "param": state.params,
        "state": state.tensors,
        "sampler": state.sampler,
        **{f"client/{client}": own for client, own in state.clients.items()},
    }
    jobs = []
    for number, job in enumerate(state.jobs):
        told = job.assignment
        groups[f"base/{told.base_version}"] = job.base  # one model for all jobs of a version
        groups[f"shift/{number}"] = told.shift or {}
        jobs.append([told.client_id, told.base_version, told.repeat, job.copies, job.arrives])
    tensors = {
        f"{group}/{name}": value for group in groups for name, value in groups[group].items()
    }
    return Snapshot(tensors, {"version": state.version, "jobs": jobs})


# (client, base version, repeat, shift) -> what the client was told, made again
Assign = Callable[[ClientId, int, int, Params | None], tuple[Assignment, ClientProfile]]


def from_snapshot(saved: Snapshot, device: torch.device, assign: Assign) -> ServerState:
    """The state that was saved, with its model on ``device``."""

    def group(prefix: str) -> dict[str, Tensor]:
        found = ((name.removeprefix(prefix), v) for name, v in saved.tensors.items())
        return {name[1:]: value.to(device) for name, value in found if name.startswith("/")}

    owners = {int(name.split("/")[1]) for name in saved.tensors if name.startswith("client/")}
    bases: dict[int, Params] = {}
    jobs = []
    for number, (client, version, repeat, copies, arrives) in enumerate(saved.meta["jobs"]):
        base = bases.setdefault(version, group(f"base/{version}"))
        told, profile = assign(client, version, repeat, group(f"shift/{number}") or None)
        jobs.append(Job(told, profile, copies, base, number, arrives))
    return ServerState(
        params=group("param"),
        version=saved.meta["version"],
        tensors=group("state"),
        clients={client: group(f"client/{client}") for client in sorted(owners)},
        sampler={name: value.cpu() for name, value in group("sampler").items()},
        jobs=tuple(jobs),
    )
