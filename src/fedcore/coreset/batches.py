"""Batches of inputs and labels out of whatever holds them: arrays, a dataset, a loader."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import BatchSampler, DataLoader, Dataset, IterableDataset, SequentialSampler

from fedcore.coreset.checks import NUMBER_THEM, as_tensor, real_array
from fedcore.errors import BadData, BadOption

FORMS = "a pair (inputs, labels), a torch dataset, a DataLoader or an iterator of batches"


def batches(
    dataset: Any, batch_size: int, dtype: torch.dtype = torch.float32
) -> Iterator[tuple[Tensor, Tensor]]:
    """Inputs and int64 labels of all samples, in order, some at a time.

    Args:
        dataset: a pair of arrays; a torch dataset, or a sequence, of (input, label); a DataLoader
            that does not shuffle, or another iterator of batches, which come as they are.
        batch_size: samples a batch, where batches are made here.
        dtype: what floating-point inputs become; whole numbers, such as symbols, stay what they
            are.
    """
    seen = 0
    for batch in _raw(dataset, batch_size):
        if not isinstance(batch, tuple | list) or len(batch) != 2:
            raise BadData(f"dataset must give pairs (input, label), got {_describe(batch)}")
        x, y = _inputs(batch[0], dtype, seen), _labels(batch[1])
        if x.ndim == 0 or len(x) != len(y):
            raise BadData(
                f"dataset has a batch with inputs of shape {tuple(x.shape)} but {len(y)} labels; "
                "each input needs one"
            )
        seen += len(y)
        if len(y):
            yield x, y
    if seen == 0:
        raise BadData("dataset must hold at least one sample, got none")


def _raw(dataset: Any, batch_size: int) -> Iterator[Any]:
    """Batches as they come, unchecked."""
    if isinstance(dataset, tuple) or _is_pair(dataset):
        yield from _slices(dataset, batch_size)
    elif isinstance(dataset, DataLoader):
        _check_order(dataset)
        yield from dataset
    elif isinstance(dataset, Mapping | str | bytes | Tensor | np.ndarray):
        raise BadData(f"dataset must be {FORMS}, got {_describe(dataset)}")
    elif isinstance(dataset, Dataset) or hasattr(dataset, "__getitem__"):
        # With a generator of its own the loader draws nothing from the caller's.
        yield from DataLoader(dataset, batch_size=batch_size, generator=torch.Generator())
    elif isinstance(dataset, Iterable):
        yield from dataset
    else:
        raise BadData(f"dataset must be {FORMS}, got {_describe(dataset)}")


def _is_pair(dataset: Any) -> bool:
    """Whether a list is [inputs, labels]; a list of two samples is a dataset of two."""
    if not isinstance(dataset, list) or len(dataset) != 2:
        return False
    return all(isinstance(part, Tensor | np.ndarray) for part in dataset)


def _slices(dataset: Any, batch_size: int) -> Iterator[tuple[Any, Any]]:
    if len(dataset) != 2:
        raise BadData(f"dataset must be {FORMS}, got a tuple of {len(dataset)}")
    x, y = real_array("inputs", dataset[0]), real_array("labels", dataset[1], NUMBER_THEM)
    for name, part in (("inputs", x), ("labels", y)):
        if part.ndim == 0:
            raise BadData(f"{name} must have a row for every sample, got a single number")
    if len(x) != len(y):
        raise BadData(f"dataset has {len(x)} inputs but {len(y)} labels; each needs one")
    for start in range(0, len(y), batch_size):
        yield x[start : start + batch_size], y[start : start + batch_size]


def _check_order(loader: DataLoader[Any]) -> None:
    """Refuse a loader whose order is not that of its dataset: indices would name nobody."""
    if isinstance(loader.dataset, IterableDataset):
        return
    sampler: Any = loader.batch_sampler or loader.sampler
    if type(sampler) is BatchSampler:
        sampler = sampler.sampler
    if not isinstance(sampler, SequentialSampler):
        raise BadOption(
            "dataset must keep its order for indices to mean something, got a DataLoader with a "
            f"{type(sampler).__name__}; give its .dataset, or a loader with shuffle=False"
        )


def _inputs(values: Any, dtype: torch.dtype, seen: int) -> Tensor:
    x = as_tensor("inputs", values)
    if not x.is_floating_point():
        return x
    x = x.to(dtype)
    finite = torch.isfinite(x)
    if not bool(finite.all()):
        row = int((~finite.reshape(len(x), -1)).any(dim=1).nonzero()[0]) if x.ndim else 0
        raise BadData(f"inputs must be finite {dtype} numbers, but sample {seen + row} is not")
    return x


def _labels(values: Any) -> Tensor:
    y = as_tensor("labels", values, NUMBER_THEM)
    if y.is_floating_point():
        raise BadData(f"labels must be whole numbers, got {y.dtype}; cast them if they are classes")
    if y.ndim != 1:
        raise BadData(f"labels must be one class per sample, got shape {tuple(y.shape)}")
    return y.to(torch.int64)


def _describe(value: Any) -> str:
    length = f" of {len(value)}" if isinstance(value, tuple | list) else ""
    return f"a {type(value).__name__}{length}"
