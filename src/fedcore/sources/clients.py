"""Clients that are loaded when asked for, so that memory follows the cohort, not the fleet.

Small torch Datasets are read in one block. Of those above ``HELD`` bytes, or with a collate
function, which may pad, steps read their batches.
"""

import math
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar
from zlib import crc32

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset, default_collate

from fedcore.arrays import as_collated, as_labels, as_samples
from fedcore.bundle import parts_of
from fedcore.compiled import say_once
from fedcore.errors import BadData, BadOption, blaming, failed
from fedcore.types import ClientData, ClientId

V = TypeVar("V")
GIVEN = (Dataset, DataLoader)
HELD = 2**26  # bytes of a client's inputs up to which they are read in one block
_reading = threading.Lock()  # a Dataset may hold an open file, which threads must not share


class ByClient(Mapping[ClientId, V]):
    """Something of every client, looked up when it is asked for."""

    ids: Sequence[ClientId]

    def __iter__(self) -> Iterator[ClientId]:
        return iter(self.ids)

    def __len__(self) -> int:
        return len(self.ids)


class ClientSizes(ByClient[int]):
    """Samples of each client: ``counts`` in one array, in the order of ``ids``."""

    def __init__(self, ids: Iterable[ClientId], counts: ArrayLike) -> None:
        self.counts: NDArray[np.int64] = np.asarray(counts, dtype=np.int64)
        numbers = range(len(self.counts))
        self.ids = numbers
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


class LazyClients(ByClient[ClientData]):
    """Clients 0 to n - 1; ``load`` gives their samples, or Dataset, on any thread, always alike."""

    def __init__(self, sizes: ArrayLike, load: Callable[[ClientId], Any]) -> None:
        counts = as_labels("sizes", sizes, "number per client").numpy()
        if (empty := counts < 1).any():
            client = int(empty.argmax())
            raise BadData(f"client {client} has a size of {counts[client]}; leave it out")
        self.sizes, self.ids = ClientSizes(range(len(counts)), counts), range(len(counts))
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
            data = opened(f"client {client}", self._load(client))
        if not isinstance(data, ClientData):
            must = f"client {client} must be loaded as ClientData(inputs, labels)"
            raise BadData(f"{must}, got {type(data).__name__}")
        if len(data) != promised:
            given = f"but its size was given as {promised}"
            raise BadData(f"client {client} has {len(data)} samples, {given}")
        if client in self._wanted:
            self._held[client] = data
        return data


def is_streamed(clients: Mapping[ClientId, ClientData]) -> bool:
    """Whether clients are read batch by batch, going by the first."""
    return isinstance(next(iter(clients.values())), Streamed)


def sizes_of(clients: Mapping[ClientId, ClientData]) -> ClientSizes:
    """Samples of each client, without loading any that are loaded on demand."""
    if isinstance(clients, LazyClients):
        return clients.sizes
    return ClientSizes.of({client: len(data) for client, data in clients.items()})


@dataclass(frozen=True, slots=True)
class Streamed(ClientData):
    """Samples that are read when they are taken.

    ``x`` [0, ...] is what inputs look like; ``y`` holds labels met so far, -1 or NaN elsewhere.
    """

    owner: str = ""
    dataset: Any = None
    collate: Callable[[list[Any]], Any] = default_collate
    check: Callable[[Any], ClientData] | None = None

    @property
    def large(self) -> bool:
        """Whether all inputs are too much for a block."""
        parts = parts_of(self.x).values()
        row = sum(math.prod(part.shape[1:]) * part.element_size() for part in parts)
        return len(self) * row > HELD

    @property
    def labels(self) -> Tensor:
        """Labels of all samples; those that nobody has met are read."""
        unmet = torch.isnan(self.y) if self.y.is_floating_point() else self.y < 0
        for part in torch.split(unmet.reshape(len(self), -1).any(1).nonzero()[:, 0], 128):
            self.take(part)
        return self.y

    def take(self, index: Tensor | slice) -> tuple[Tensor, Tensor]:
        """Read some samples, collated as one batch."""
        if isinstance(index, slice) and index == slice(None) and self.large:
            large = f"{self.owner} is read batch by batch, for its {len(self):,} samples are large"
            raise BadOption(f"{large}; use executor 'sequential', and no proxy 'input'")
        rows = range(len(self))[index] if isinstance(index, slice) else index.tolist()
        if not rows:
            return self.x, self.y[:0]
        data = _read(self.owner, self.dataset, list(rows), self.collate)
        data = (self.check(data) if self.check else data).to(self.y.device)
        if data.y.shape[1:] == self.y.shape[1:]:  # a collate function may pad each batch otherwise
            self.y[index] = data.y
        return data.x, data.y

    def to(self, device: torch.device) -> "Streamed":
        """The same samples, to be put on another device as they are read."""
        return replace(self, x=self.x.to(device), y=self.y.to(device))


def size_of(owner: str, given: Any) -> int:
    """How many samples a client has that must be a Dataset, or a loader of one."""
    dataset: Any = given.dataset if isinstance(given, DataLoader) else given
    if not isinstance(given, GIVEN) or isinstance(dataset, IterableDataset):
        what = f"{owner} must be a map-style torch Dataset, got a {type(dataset).__name__}"
        raise BadData(f"{what}; wrap arrays in TensorDataset(inputs, labels)")
    with blaming(f"the length of {owner}"):
        return len(dataset)


def opened(owner: str, given: Any) -> Any:
    """The samples of a Dataset, in one block where that may be; what is none stays as it is."""
    if not isinstance(given, GIVEN):
        return given
    size, collate = size_of(owner, given), default_collate
    if isinstance(given, DataLoader):
        sampler = getattr(given.batch_sampler, "sampler", given.sampler)
        if given.batch_sampler is None or getattr(sampler, "__len__", lambda: size)() != size:
            what = f"{owner} is a DataLoader without batches, or that leaves out samples"
            raise BadData(f"{what}; give its .dataset, or a torch.utils.data.Subset of it")
        say_once("of a DataLoader its dataset and collate function are used, not size and order")
        given, collate = given.dataset, given.collate_fn
    like = _read(owner, given, [0], collate)
    unmet = math.nan if like.y.is_floating_point() else -1
    labels = torch.full((size, *like.y.shape[1:]), unmet, dtype=like.y.dtype)
    data = Streamed(like.x[:0], labels, None, owner, given, collate)
    alone = data.large or collate is not default_collate
    return data if alone else ClientData(*data.take(slice(None)))


def as_client(owner: str, given: Any, floating: torch.dtype, *, classes: bool = True) -> ClientData:
    """``as_samples``, of a Dataset too."""
    given = opened(owner, given)
    convert = partial(as_samples, owner, floating=floating, classes=classes)
    if isinstance(given, Streamed):
        like = convert((given.x, given.y[:0]))
        whole = torch.full_like(given.y, -1, dtype=torch.int64)
        y = given.y.to(like.y.dtype) if like.y.is_floating_point() else whole
        return replace(given, x=like.x, y=y, check=convert)
    return convert(given)


def _read(owner: str, dataset: Any, rows: list[int], collate: Callable[[Any], Any]) -> ClientData:
    """So many samples as one batch, or a refusal in a sentence."""
    many = getattr(dataset, "__getitems__", None)  # torch's own way to ask for several at once
    try:
        with _reading, torch.random.fork_rng(devices=[]):
            # What augmentation draws follows from the batch, on whichever thread it is read.
            torch.default_generator.manual_seed(crc32(f"{owner}, {rows[0]}".encode()))
            samples = many(rows) if many else [dataset[row] for row in rows]
            batch = as_collated(collate(samples), collate)
    except Exception as error:
        pad = "; give a DataLoader whose collate_fn pads them" if "equal size" in str(error) else ""
        raise failed(f"reading {owner} (a {type(dataset).__name__})", error, pad) from error
    if not isinstance(batch, tuple | list) or len(batch) != 2:
        what = f"samples of {owner} must be pairs (input, label), got a {type(batch).__name__}"
        raise BadData(f"{what}; give a DataLoader whose collate_fn makes a pair of a batch")
    kept = torch.float64 if getattr(batch[0], "dtype", None) == torch.float64 else torch.float32
    data = as_samples(owner, (batch[0], batch[1]), kept, classes=False)
    if len(data) != len(rows):
        raise BadData(f"{owner} gave {len(data)} samples where {len(rows)} were asked for")
    return data
