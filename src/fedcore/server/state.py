"""What the server knows between two events, and how that is written down."""

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from fedcore.records import Snapshot
from fedcore.types import Assignment, ClientId, ClientProfile, LocalUpdate, Params

# (client, base version, repeat, shift, deadline) -> what the client was told, made again
Assign = Callable[..., tuple[Assignment, ClientProfile]]


@dataclass(frozen=True, slots=True)
class Job:
    """Work that a client was given and has not answered yet."""

    assignment: Assignment
    profile: ClientProfile
    copies: int  # how often it was drawn
    base: Params  # the model it starts from
    sequence: int  # how many were asked before it: of two that answer at once, they come first
    arrives: float = math.nan  # seconds from the last merge on, once a virtual clock has it
    answer: LocalUpdate | None = None  # where it is known before it is due
    sent: float = 0.0  # seconds since the run's start
    started: float = 0.0  # likewise, its work: when it has the model
    away: float = 0.0  # seconds of its time for which the client is away
    lost: float | None = None  # seconds of its own after which the client drops out
    deadline: float | None = None  # seconds that it may take, once it was handed out


@dataclass(frozen=True, slots=True)
class ServerState:
    """The model w, and all that strategy and sampler have to remember."""

    params: Params
    version: int = 0  # how many merges made it
    tensors: Params = field(default_factory=dict)  # a strategy's own
    clients: Mapping[ClientId, Params] = field(default_factory=dict)  # what it keeps of each
    sampler: Params = field(default_factory=dict)  # a sampler's memory
    seen: Params = field(default_factory=dict)  # what a controller of deadlines goes by
    jobs: tuple[Job, ...] = ()  # what is in flight
    time: float = 0.0  # virtual seconds since the run's start
    # Of simulations alone, to go on from: what clients keep to themselves, and no server sees.
    on_clients: Mapping[ClientId, Tensor] = field(default_factory=dict)
    unsent: Mapping[ClientId, Tensor] = field(default_factory=dict)  # likewise: ``compression``


def to_snapshot(state: ServerState) -> Snapshot:
    """All that a later process needs to go on from ``state``."""
    groups: dict[str, Mapping[Any, Tensor]] = {"param": state.params, "state": state.tensors}
    groups |= {"sampler": state.sampler, "memory": state.on_clients, "seen": state.seen}
    groups |= {f"client/{client}": kept for client, kept in state.clients.items()}
    groups["unsent"], jobs = state.unsent, []
    for number, job in enumerate(state.jobs):
        told = job.assignment
        groups[f"base/{told.base_version}"] = job.base  # one model for all jobs of a version
        groups[f"shift/{number}"] = told.shift or {}
        scalars = None
        if job.answer is not None:
            groups[f"answer/{number}"] = job.answer.params
            groups[f"payload/{number}"] = job.answer.payload or {}
            scalars = asdict(replace(job.answer, params={}, payload=None))
            del scalars["params"]
        who = told.client_id, told.base_version, told.repeat
        times = job.sent, job.started, job.away, job.lost, job.deadline
        jobs.append([*who, job.copies, job.arrives, scalars, *times])
    tensors = {f"{group}/{name}": v for group, own in groups.items() for name, v in own.items()}
    return Snapshot(tensors, {"version": state.version, "jobs": jobs, "time": state.time})


def from_snapshot(saved: Snapshot, device: torch.device, assign: Assign) -> ServerState:
    """The state that was saved, with its model on ``device``."""

    def group(prefix: str) -> dict[str, Tensor]:
        found = ((name.removeprefix(prefix), v) for name, v in saved.tensors.items())
        return {name[1:]: value.to(device) for name, value in found if name.startswith("/")}

    owners = {int(name.split("/")[1]) for name in saved.tensors if name.startswith("client/")}
    bases: dict[int, Params] = {}
    jobs = []
    for number, job in enumerate(saved.meta["jobs"]):
        client, version, repeat, copies, arrives, scalars, *times = job
        base = bases.setdefault(version, group(f"base/{version}"))
        told, profile = assign(client, version, repeat, group(f"shift/{number}") or None, times[-1])
        answer = None
        if scalars is not None:
            payload = group(f"payload/{number}") or None
            answer = LocalUpdate(params=group(f"answer/{number}"), **scalars | {"payload": payload})
        jobs.append(Job(told, profile, copies, base, number, arrives, answer, *times))
    return ServerState(
        params=group("param"),
        version=saved.meta["version"],
        tensors=group("state"),
        clients={client: group(f"client/{client}") for client in sorted(owners)},
        sampler={name: value.cpu() for name, value in group("sampler").items()},
        seen={name: value.cpu() for name, value in group("seen").items()},
        jobs=tuple(jobs),
        time=saved.meta["time"],
        on_clients={int(client): value.cpu() for client, value in group("memory").items()},
        unsent={int(client): value.cpu() for client, value in group("unsent").items()},
    )
