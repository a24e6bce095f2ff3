"""``fedcore.partition``: who holds which samples, of data that come in one piece."""

import inspect
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fedcore.arrays import NUMBER_THEM, as_labels, as_samples, as_tensor
from fedcore.bundle import joined
from fedcore.errors import BadData, BadOption, blaming
from fedcore.sources.clients import as_client
from fedcore.types import ClientData, FederatedDataset, Generator
from fedcore.values import MANY, above_zero, below_one, convert, one_of, whole_number

Parts = list[NDArray[np.int64]]
WAYS = ("iid", "dirichlet", "shards", "by")
RULES = ("clients", "how", "alpha", "shards", "least")
TRIES = 1000


def partition(
    labels: Any,
    clients: int | None = None,
    how: Any = "dirichlet",
    *,
    alpha: float = 0.5,
    shards: int = 2,
    least: int = 1,
    seed: int = 0,
) -> Parts:
    """The places of each client's samples, sorted: every sample is somebody's, once.

    Args:
        labels: [n] classes; with 'by', whatever tells owners apart, such as user ids.
        clients: how many; with 'by', one for each value that there is.
        how: 'iid', equal parts of a shuffle; 'dirichlet', of every class shares ~ Dir(α, ..., α)
            (Hsu et al. 2019); 'shards', each ``shards`` slices of what is sorted by class (McMahan
            et al. 2017); 'by', everybody's own; or a partitioner of Flower Datasets by 'label'.
        alpha: of Dirichlet: the smaller, the fewer classes a client has.
        shards: slices for each client.
        least: fewest samples of a client; Dirichlet draws again until everybody has them.
        seed: of the draws.

    Examples:
        >>> [part.tolist() for part in partition([3, 3, 7, 3], how="by")]
        [[0, 1, 3], [2]]
    """
    if hasattr(how, "load_partition"):
        with blaming(f"partitioning by {type(how).__name__}"):
            from datasets import Dataset

            columns = {"label": np.asarray(labels), "place": np.arange(len(labels))}
            how.dataset = Dataset.from_dict(columns)
            return [np.sort(how.load_partition(n)["place"]) for n in range(how.num_partitions)]
    one_of(*WAYS)("how", how)
    fewest = whole_number("least", least, 0)
    if how == "by":
        return _checked(_places(_owners(labels)), fewest)
    given = as_tensor("labels", labels, NUMBER_THEM)
    numbered = how == "iid" and given.ndim  # it goes by no label, so targets of any shape do
    classes = as_labels("labels", torch.arange(len(given)) if numbered else given).numpy()
    count = whole_number("clients", clients, 1, MANY)
    if count * fewest > len(classes):
        what = f"{count} clients of {fewest} samples or more need {count * fewest}"
        raise BadOption(f"{what}, but there are {len(classes)}; ask for fewer clients")
    draw = np.random.default_rng(whole_number("seed", seed, 0))
    if how == "iid":
        parts = np.array_split(draw.permutation(len(classes)), count)
    elif how == "shards":
        each = whole_number("shards", shards, 1, max(1, len(classes) // count))
        order = draw.permutation(len(classes))
        slices = np.array_split(order[np.argsort(classes[order], kind="stable")], count * each)
        dealt = draw.permutation(count * each).reshape(count, each)
        parts = [np.concatenate([slices[one] for one in own]) for own in dealt]
    else:
        above_zero("alpha", alpha := convert("alpha", alpha, float))
        own = _places(np.unique(classes, return_inverse=True)[1])
        drawn = (_dirichlet(own, count, alpha, draw) for _ in range(TRIES))
        parts = next((one for one in drawn if min(map(len, one)) >= fewest), [])
        if not parts:
            what = f"no draw of {TRIES} gave {count} clients {fewest} samples or more each"
            raise BadOption(f"{what} at alpha {alpha:g}; take a larger alpha or fewer clients")
    return _checked(parts, fewest)


def partitioned(samples: Callable[..., Any]) -> Callable[..., FederatedDataset]:
    """``load`` of a dataset file, from a function that gives all samples in one piece.

    ``samples`` gives (training, held-out): pairs (inputs, labels), the first with the owners of
    samples behind them where there are any; without held-out data, a share ``held_out`` of the
    samples is. Its own keyword parameters and those of ``partition`` are what ``--data`` may set.
    """
    if not callable(samples):
        raise BadOption(f"samples must be a function that gives all samples, got {type(samples)}")
    own = inspect.signature(samples).parameters
    rules = list(inspect.signature(partition).parameters.values())[1:]

    def load(*, seed: int = 0, held_out: float = 0.2, **given: Any) -> FederatedDataset:
        for name in given.keys() - every.keys():
            raise BadOption(f"there is no option {name!r} here; there are {', '.join(every)}")
        known = {"seed": whole_number("seed", seed, 0), **given}
        found = samples(**{name: value for name, value in known.items() if name in own})
        try:
            (x, y, *owners), test = found
        except (TypeError, ValueError):
            form = "(inputs, labels) or (inputs, labels, owners), and held-out data or None"
            raise BadData(f"samples must give {form}, got a {type(found).__name__}") from None
        data = as_samples("training data", (x, y), torch.float32, classes=False)
        places = np.arange(len(data))
        if test is None:
            below_one("held_out", convert("held_out", held_out, float))
            away = np.random.default_rng(seed).random(len(data)) < held_out
            places, outside = np.flatnonzero(~away), torch.from_numpy(np.flatnonzero(away))
            test = data.take(outside) if len(outside) else None
        rest = {name: value for name, value in given.items() if name not in own}
        by = _owners(owners[0]) if owners and rest.get("how") == "by" else data.labels.numpy()
        if len(by) != len(data):
            raise BadData(f"training data has {len(data)} inputs but {len(by)} owners")
        parts = partition(by[places], seed=seed, **{"clients": 100, **rest})
        rows = [torch.from_numpy(places[part]) for part in parts]
        clients = {n: ClientData(data.x, data.y, part) for n, part in enumerate(rows)}
        if test is not None:
            test = as_samples("held-out data", test, torch.float32, classes=False)
        labels = torch.cat([one.labels.flatten() for one in (data, test) if one is not None])
        classes = bool((labels == labels.round()).all()) and 0 <= labels.max() < MANY
        return FederatedDataset(clients, test, 1 + int(labels.max()) if classes else 1)

    named = [p.replace(kind=p.KEYWORD_ONLY) for p in (*own.values(), *rules)]
    fixed = [p for p in inspect.signature(load).parameters.values() if p.kind is p.KEYWORD_ONLY]
    every = {p.name: p for p in (*named, *fixed)}
    load.__signature__ = inspect.Signature(list(every.values()))  # type: ignore[attr-defined]
    return load


def dealt(dataset: FederatedDataset, rules: dict[str, Any]) -> FederatedDataset:
    """The training samples of a dataset, dealt out anew; to as many clients, unless it is said."""
    read = partial(as_client, floating=torch.float32, classes=False)
    given = [read(f"client {n}", own) for n, own in dataset.clients.items()]
    x, y = joined(own.take(slice(None)) for own in given)
    parts = partition(y, **{"clients": len(given), **rules})
    clients = {n: ClientData(x, y, torch.from_numpy(part)) for n, part in enumerate(parts)}
    return replace(dataset, clients=clients, sizes=())


def _places(numbers: NDArray[np.int64]) -> Parts:
    """Where each number from 0 on stands; by sorting once, for there may be a million of them."""
    return np.split(np.argsort(numbers, kind="stable"), np.cumsum(np.bincount(numbers))[:-1])


def _dirichlet(classes: Parts, count: int, alpha: float, draw: Generator) -> Parts:
    parts: list[list[NDArray[np.int64]]] = [[] for _ in range(count)]
    drawn = [(draw.permutation(own), draw.dirichlet(np.full(count, alpha))) for own in classes]
    # Ends are rounded from a phase of each class's own, so that a client expects its share: rounded
    # alike, classes with less than a sample for each would favour the same clients.
    for (own, shares), phase in zip(drawn, draw.random(len(classes)), strict=True):
        ends = np.floor(np.cumsum(shares) * len(own) + phase).astype(int)
        for part, piece in zip(parts, np.split(own, ends[:-1]), strict=True):
            part.append(piece)
    return [np.concatenate(part) for part in parts]


def _owners(labels: Any) -> NDArray[np.int64]:
    """Whose each sample is, from 0 on, by whatever tells owners apart."""
    with suppress(TypeError, ValueError):
        values = np.asarray(labels)
        if values.ndim == 1 and len(values):
            return np.unique(values, return_inverse=True)[1]
    raise BadData(f"labels must be one value of one kind per sample, got a {type(labels).__name__}")


def _checked(parts: Parts, fewest: int) -> Parts:
    if min(map(len, parts)) < fewest:
        small = int(np.argmin([len(part) for part in parts]))
        raise BadData(f"client {small} has {len(parts[small])} samples, below least={fewest}")
    return [np.sort(part) for part in parts]
