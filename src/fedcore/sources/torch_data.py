"""Clients that are torch Datasets: small ones read in one block, others batch by batch.

A block is what the fast executors train on. Of a client above ``HELD`` bytes, or with a collate
function of its own, which may pad every batch to another length, samples are read as steps ask
for them, so that its batches are those that a training loop of the user's own would make.
"""

import math
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset, default_collate

from fedcore.arrays import as_samples, as_tensor
from fedcore.compiled import say_once
from fedcore.errors import BadData, BadOption, FedCoreError, failed
from fedcore.types import ClientData

HELD = 2**26  # bytes of a client's inputs up to which they are read in one block
MOST_OPENED = 1000  # clients that are opened to measure a model on everything
CHUNK = 128  # samples read at a time for their labels alone
GIVEN = (Dataset, DataLoader)
_reading = threading.Lock()  # a Dataset may hold an open file, which threads must not share


@dataclass(frozen=True, slots=True)
class Streamed(ClientData):
    """Samples that are read when they are taken.

    ``x`` [0, ...] is what inputs look like; ``y`` [m] holds the labels met so far, -1 elsewhere.
    """

    owner: str = ""
    dataset: Any = None
    collate: Callable[[list[Any]], Any] = default_collate
    check: Callable[[Any], ClientData] | None = None

    @property
    def ragged(self) -> bool:
        """Whether batches may differ in shape."""
        return self.collate is not default_collate

    @property
    def labels(self) -> Tensor:
        """Labels of all samples; those that nobody has met are read."""
        for part in torch.split((self.y < 0).nonzero()[:, 0], CHUNK):
            self.take(part)
        return self.y

    def bytes_of(self, samples: int) -> int:
        """What so many inputs take in memory."""
        return samples * math.prod(self.x.shape[1:]) * self.x.element_size()

    def take(self, index: Tensor | slice) -> tuple[Tensor, Tensor]:
        """Read some samples, collated as one batch."""
        rows = range(len(self))[index] if isinstance(index, slice) else index.tolist()
        if isinstance(index, slice) and index == slice(None) and self.bytes_of(len(self)) > HELD:
            large = f"{self.owner} is read batch by batch, for its {len(self):,} samples are large"
            instead = "use another proxy than 'input', and executor 'auto' or 'sequential'"
            raise BadOption(f"{large}; {instead}")
        if not rows:
            return self.x, self.y[:0]
        data = _read(self.owner, self.dataset, list(rows), self.collate)
        data = self.check(data) if self.check else data
        x, y = data.x.to(self.y.device), data.y.to(self.y.device)
        self.y[index] = y
        return x, y

    def to(self, device: torch.device) -> "Streamed":
        """The same samples, to be put on another device as they are read."""
        return replace(self, x=self.x.to(device), y=self.y.to(device))


def size_of(owner: str, given: Any) -> int:
    """How many samples a client has that must be a Dataset, or a loader of one."""
    dataset: Any = given.dataset if isinstance(given, DataLoader) else given
    if isinstance(dataset, IterableDataset):
        what = f"{owner} is an IterableDataset, whose samples have no numbers to draw them by"
        raise BadData(f"{what}; give a map-style Dataset")
    if not isinstance(given, GIVEN):
        instead = "wrap arrays in TensorDataset(inputs, labels)"
        raise BadData(f"{owner} must be a torch Dataset as others are, got {_a(given)}; {instead}")
    try:
        return len(dataset)
    except TypeError:
        what = f"{owner} is {_a(dataset)} without a length"
        raise BadData(f"{what}; define __len__, its number of samples") from None
    except Exception as error:
        raise failed(f"the length of {owner}", error) from error


def stream(owner: str, given: Any) -> Streamed:
    """A Dataset to be read batch by batch; of a loader, its dataset and collate function."""
    size, collate = size_of(owner, given), default_collate
    if isinstance(given, DataLoader):
        if given.batch_size is None and given.batch_sampler is None:
            raise BadData(f"{owner} is a DataLoader without batches; give its .dataset")
        sampler: Any = getattr(given.batch_sampler, "sampler", given.sampler)
        drawn = len(sampler) if hasattr(sampler, "__len__") else size
        if drawn != size:
            what = f"{owner} is a DataLoader that draws {drawn} of {size} samples"
            raise BadData(f"{what}; give torch.utils.data.Subset(dataset, indices)")
        say_once("of a DataLoader its dataset and collate function are used, not size and order")
        given, collate = given.dataset, given.collate_fn
    if size == 0:
        raise BadData(f"{owner} has no samples; leave it out")
    first = _read(owner, given, [0], collate)
    labels = torch.full((size,), -1)
    return Streamed(first.x[:0], labels, owner=owner, dataset=given, collate=collate)


def opened(owner: str, given: Any) -> Any:
    """The samples of a Dataset, in one block where that may be; what is none stays as it is."""
    if not isinstance(given, GIVEN):
        return given
    data = stream(owner, given)
    if data.ragged or data.bytes_of(len(data)) > HELD:
        return data
    return ClientData(*data.take(slice(None)))


def as_client(owner: str, given: Any, floating: torch.dtype) -> ClientData:
    """``as_samples``, of a Dataset too."""
    given = opened(owner, given)
    if not isinstance(given, Streamed):
        return as_samples(owner, given, floating)
    convert = partial(as_samples, owner, floating=floating)
    return replace(given, x=convert((given.x, given.y[:0])).x, check=convert)


def _read(owner: str, dataset: Any, rows: list[int], collate: Callable[[Any], Any]) -> ClientData:
    """So many samples as one batch, or a refusal in a sentence."""
    many = getattr(dataset, "__getitems__", None)  # torch's own way to ask for several at once
    try:
        with _reading, torch.random.fork_rng(devices=[]):
            # What augmentation draws follows from the batch, on whichever thread it is read.
            torch.default_generator.manual_seed(rows[0])
            batch = collate(many(rows) if many else [dataset[row] for row in rows])
    except FedCoreError:
        raise
    except Exception as error:
        pad = "; give a DataLoader whose collate_fn pads them" if "equal size" in str(error) else ""
        raise failed(f"reading {owner} ({_a(dataset)})", error, pad) from error
    if not isinstance(batch, tuple | list) or len(batch) != 2:
        what = f"samples of {owner} must be pairs (input, label), got {_a(batch)}"
        raise BadData(f"{what}; give a DataLoader whose collate_fn makes a pair of a batch")
    inputs = as_tensor(f"inputs of {owner}", batch[0])
    kind = inputs.dtype if inputs.is_floating_point() else torch.float32
    data = as_samples(owner, (inputs, batch[1]), kind)
    if len(data) != len(rows):
        raise BadData(f"{owner} gave {len(data)} samples where {len(rows)} were asked for")
    return data


def _a(value: Any) -> str:
    return f"a {type(value).__name__}"
