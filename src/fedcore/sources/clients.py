"""Clients that are loaded when asked for, so that memory follows the cohort, not the fleet."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedcore.arrays import as_labels
from fedcore.errors import BadData, blaming
from fedcore.sources import torch_data
from fedcore.types import ClientData, ClientId


class ClientSizes(Mapping[ClientId, int]):
    """Samples of each client: ``counts`` in one array, in the order of ``ids``."""

    def __init__(self, ids: Iterable[ClientId], counts: ArrayLike) -> None:
        self.counts: NDArray[np.int64] = np.asarray(counts, dtype=np.int64)
        numbers = range(len(self.counts))
        self.ids: Sequence[ClientId] = numbers
        self._places: Mapping[ClientId, int] | None = None
        # Nearly all datasets number their clients; then a number is its own place.
        if ids != numbers and (known := tuple(ids)) != tuple(numbers):
            self.ids = known
            self._places = {client: place for place, client in enumerate(known)}

    @classmethod
    def of(cls, sizes: Mapping[ClientId, int]) -> "ClientSizes":
        """The same sizes in this form."""
        if isinstance(sizes, ClientSizes):
            return sizes
        return cls(sizes, np.fromiter(sizes.values(), np.int64, len(sizes)))

    def place(self, client: ClientId) -> int:
        """Where a client stands in the arrays."""
        if self._places is not None:
            return self._places[client]
        if client not in self.ids:
            raise KeyError(client)
        return client

    def __getitem__(self, client: ClientId) -> int:
        return int(self.counts[self.place(client)])

    def __iter__(self) -> Iterator[ClientId]:
        return iter(self.ids)

    def __len__(self) -> int:
        return len(self.ids)


class LazyClients(Mapping[ClientId, ClientData]):
    """Clients 0 to n - 1; ``load`` gives their samples, or Dataset, on any thread, always alike."""

    def __init__(self, sizes: ArrayLike, load: Callable[[ClientId], Any]) -> None:
        counts = as_labels("sizes", sizes, "number per client").numpy()
        if (empty := counts < 1).any():
            client = int(empty.argmax())
            raise BadData(f"client {client} has a size of {counts[client]}; leave it out")
        self.sizes = ClientSizes(range(len(counts)), counts)
        self._load = load
        self.costly = False  # whether everything is read for a score only if somebody asks for it
        self._wanted: frozenset[ClientId] = frozenset()
        self._held: dict[ClientId, ClientData] = {}

    def hold(self, clients: Iterable[ClientId]) -> None:
        """Keep the samples of these clients once they are loaded; let go of all others."""
        self._wanted = frozenset(clients)
        self._held = {client: data for client, data in self._held.items() if client in self._wanted}

    def map(self, function: Callable[[ClientId, ClientData], ClientData]) -> "LazyClients":
        """The same clients, with ``function`` applied to what is loaded."""
        return LazyClients(self.sizes.counts, lambda client: function(client, self[client]))

    def __getitem__(self, client: ClientId) -> ClientData:
        promised = self.sizes[client]
        if (held := self._held.get(client)) is not None:
            return held
        with blaming(f"loading client {client}"):
            data = torch_data.opened(f"client {client}", self._load(client))
        if not isinstance(data, ClientData):
            must = f"client {client} must be loaded as ClientData(inputs, labels)"
            raise BadData(f"{must}, got {type(data).__name__}")
        if len(data) != promised:
            given = f"but its size was given as {promised}"
            raise BadData(f"client {client} has {len(data)} samples, {given}")
        if client in self._wanted:
            self._held[client] = data
        return data

    def __iter__(self) -> Iterator[ClientId]:
        return iter(self.sizes)

    def __len__(self) -> int:
        return len(self.sizes)


def is_streamed(clients: Mapping[ClientId, ClientData]) -> bool:
    """Whether clients are read batch by batch, going by the first."""
    return isinstance(next(iter(clients.values())), torch_data.Streamed)


def sizes_of(clients: Mapping[ClientId, ClientData]) -> ClientSizes:
    """Samples of each client, without loading any that are loaded on demand."""
    if isinstance(clients, LazyClients):
        return clients.sizes
    return ClientSizes.of({client: len(data) for client, data in clients.items()})
