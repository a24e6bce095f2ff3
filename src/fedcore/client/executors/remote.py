"""A cohort on the machines of a Ray cluster: actors, each of which trains its own clients.

Ray pickles what it sends, so a cluster is trusted. An actor keeps nothing that an answer goes by:
one that dies is started again, loads its clients, and trains what it was asked.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from fedcore.client.coresets import Clients
from fedcore.client.executors.by_name import choose_device, choose_executor
from fedcore.errors import BadOption
from fedcore.sources.clients import LazyClients, sizes_of
from fedcore.task import Task
from fedcore.types import Assignment, ClientData, ClientId, LocalUpdate, Params, SelectionTime
from fedcore.types import TrainingSettings as Settings

Answer = tuple[list[LocalUpdate], dict[ClientId, Tensor], SelectionTime]


def ray_cluster(address: str = "") -> Any:
    """Ray, joined to the cluster at ``address``, at $RAY_ADDRESS, or to one of this machine."""
    try:
        import ray
    except ImportError:
        raise BadOption("Ray is missing; install FedCore with its extra 'ray'") from None
    try:
        ray.init(address=address or None, ignore_reinit_error=True, log_to_driver=False)
    except (ConnectionError, ValueError, RuntimeError) as error:
        why = str(error).strip().split("\n")[0]
        raise BadOption(f"no Ray cluster at {address!r} ({why}); check its address") from None
    return ray


class Trainer:
    """What an actor holds: the executor that suits its machine, and some clients."""

    def __init__(self, task: Task, clients: Clients, settings: Settings, threads: int) -> None:
        torch.set_num_threads(1)
        device = choose_device("auto", "auto")
        known = task, clients, settings
        self._executor = choose_executor("auto", *known, threads=threads, device=device)

    def train(
        self, params: Params, assignments: Sequence[Assignment], memory: Mapping[ClientId, Tensor]
    ) -> Answer:
        """Answers, what clients remember now, and what choosing coresets took."""
        self._executor.memory.clear()
        self._executor.memory.update(memory)
        spent = self._executor.selection
        spent.work = spent.waited = 0.0
        return self._executor.run(params, assignments), dict(self._executor.memory), spent


class RayExecutor:
    """Trains a cohort on all actors of a cluster: one for each GPU, or for so many ``threads``."""

    def __init__(
        self, task: Task, clients: Clients, settings: Settings, threads: int, device: torch.device
    ) -> None:
        self._ray, self._sizes = ray_cluster(), sizes_of(clients)
        self.memory: dict[ClientId, Tensor] = {}
        self.selection = SelectionTime()
        self.expect = lambda assignments: None
        threads, gpu = threads or 1, device.type == "cuda"
        there = self._ray.cluster_resources()
        count = int(there.get("GPU", 1) if gpu else there["CPU"] / threads)
        count = max(1, min(count, len(self._sizes)))
        needs = {"num_cpus": threads, "num_gpus": int(gpu), "max_restarts": -1}
        remote = self._ray.remote(max_task_retries=-1, **needs)(Trainer)
        self._actors, self._kept = [], []
        for first in range(count):
            own = clients  # of those that are loaded on demand, an actor loads its own alone
            if not isinstance(clients, LazyClients):
                ids = self._sizes.ids[first::count]
                own = {one: ClientData(*clients[one].take(slice(None))) for one in ids}
            self._kept.append(self._ray.put(own))  # else one that is started again has none
            self._actors.append(remote.remote(task, self._kept[-1], settings, threads))

    def run(self, params: Params, assignments: Sequence[Assignment]) -> list[LocalUpdate]:
        """Train each on the actor that has its client."""
        shares: list[list[Assignment]] = [[] for _ in self._actors]
        for one in assignments:
            shares[self._sizes.place(one.client_id) % len(shares)].append(one)
        sent, waiting = self._ray.put({name: v.cpu() for name, v in params.items()}), []
        for actor, share in zip(self._actors, shares, strict=True):
            ids = {one.client_id for one in share} & self.memory.keys()
            known = {client: self.memory[client] for client in ids}
            waiting += [actor.train.remote(sent, share, known)] if share else []
        home = next(iter(params.values())).device
        found: dict[ClientId, LocalUpdate] = {}
        for answers, memory, spent in self._ray.get(waiting):
            self.memory.update(memory)
            self.selection.work += spent.work
            self.selection.waited += spent.waited
            for one in answers:
                trained = {name: value.to(home) for name, value in one.params.items()}
                found[one.client_id] = replace(one, params=trained)
        return [found[one.client_id] for one in assignments]

    def close(self) -> None:
        """Let go of the actors."""
        for actor in self._actors:
            self._ray.kill(actor)
