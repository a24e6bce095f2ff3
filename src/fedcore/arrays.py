"""What users hand in - arrays, datasets, loaders - as tensors, or a refusal in one sentence."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import BatchSampler, DataLoader, Dataset, IterableDataset, SequentialSampler

from fedcore.bundle import Bundle, Inputs, parts_of
from fedcore.errors import BadData, BadOption, blaming
from fedcore.types import ClientData

FORMS = "a pair (inputs, labels), a torch dataset, a DataLoader or an iterator of batches"
# What to do about labels that are no numbers.
NUMBER_THEM = "; number the classes, as numpy.unique(labels, return_inverse=True) does"


def as_tensor(name: str, values: Any, hint: str = "") -> Tensor:
    """``values`` as a dense tensor of numbers; ``hint``: what to do where they are none."""
    if isinstance(values, Tensor):
        if values.is_quantized:
            raise BadData(f"{name} must not be quantised, got {values.dtype}; call .dequantize()")
        if values.layout != torch.strided or values.is_nested:
            got = "nested" if values.is_nested else str(values.layout)
            raise BadData(f"{name} must be a dense tensor, got a {got} one; call .to_dense() on it")
        if values.is_meta:
            raise BadData(f"{name} must hold numbers, got a tensor on the meta device; load them")
        if values.is_complex():
            raise BadData(f"{name} must be real numbers, got {values.dtype}{hint}")
        if not (values.is_floating_point() or values.is_signed()) and values.element_size() > 1:
            return values.long()  # torch computes with no unsigned numbers but bytes
        return values.detach() if values.requires_grad else values
    if np.ma.is_masked(values):
        raise BadData(f"{name} must all be there, got some that are masked; drop or fill those")
    try:
        array = np.asarray(values)
    except (TypeError, ValueError, RuntimeError):
        got = f"got a {type(values).__name__} that does not make one"
        must = f"{name} must be one array of numbers, {got}; its rows must be of one length"
        raise BadData(must) from None
    kind = array.dtype.newbyteorder("=")
    if kind.kind not in "fiub":
        hint = "; call .toarray() on it" if hasattr(values, "toarray") else hint  # of SciPy's
        raise BadData(f"{name} must be numbers, got {array.dtype}{hint}")
    if kind.kind == "u" and kind.itemsize > 1:
        kind = np.dtype(np.int64)
    elif kind.kind == "f" and kind.itemsize > 8:
        kind = np.dtype(np.float64)
    if min(array.strides, default=0) < 0:  # backwards, which torch refuses of a single row, too
        array = array.copy()
    # A tensor shares an array's memory, so an array that may not be written is copied.
    return torch.from_numpy(np.require(array, dtype=kind, requirements=["C", "W"]))


def as_labels(name: str, values: Any, each: str = "class per sample") -> Tensor:
    """Whole numbers, such as classes, as int64 [n]; floating-point numbers do if they are whole."""
    labels = as_tensor(name, values, NUMBER_THEM if "class" in each else "")
    if labels.ndim != 1:
        raise BadData(f"{name} must be one {each}, got shape {tuple(labels.shape)}")
    if labels.is_floating_point():
        broken = ((labels != labels.round()) | ~(labels.abs() < 2**53)).nonzero()
        if len(broken):
            got = f"got {labels[broken[0]].item()} for sample {int(broken[0])}"
            raise BadData(f"{name} must be whole numbers, {got}")
    return labels.to(torch.int64)


def as_positions(name: str, values: Any, count: int) -> Tensor:
    """Positions among ``count`` samples as int64; a mask is none."""
    found = as_labels(name, values, "position each")
    outside = found[(found < 0) | (found >= count)]
    if len(outside) or as_tensor(name, values).dtype == torch.bool:
        wrong = int(outside[0]) if len(outside) else "a mask"
        raise BadData(f"{name} must be positions of samples, from 0 to {count - 1}, got {wrong}")
    return found


def as_inputs(name: str, values: Any, floating: torch.dtype) -> Inputs:
    """A tensor with a row a sample; or a Bundle of a dict in any order, or of a tuple of arrays."""
    if isinstance(values, Bundle):
        values = values.parts
    elif isinstance(values, tuple) and {type(part) for part in values} <= {Tensor, np.ndarray}:
        values = dict(enumerate(values))
    if not isinstance(values, Mapping):
        found = as_tensor(name, values)
        if found.ndim == 0:
            raise BadData(f"{name} must have a row for every sample, got a single number")
        return found.to(floating) if found.is_floating_point() else found
    every = sorted(values.items(), key=lambda item: (isinstance(item[0], str), item[0]))
    parts = {key: as_inputs(f"{key!r} in {name}", part, floating) for key, part in every}
    rows = {key: len(part) for key, part in parts.items() if isinstance(part, Tensor)}
    if len(set(rows.values())) != 1 or len(rows) < len(parts):
        raise BadData(f"{name} must be arrays with a row for every sample each, got {rows}")
    return Bundle(parts)


def as_targets(name: str, values: Any, floating: torch.dtype) -> Any:
    """What a loss of any kind takes: finite numbers as ``floating``, whole ones as int64."""
    found = as_inputs(name, values, floating)
    if isinstance(found, Bundle) or not bool(torch.isfinite(found).all()):
        raise BadData(f"{name} must be one array of finite numbers; clean or drop the others")
    return found if found.is_floating_point() else found.long()


def as_samples(
    owner: str, given: ClientData | tuple[Any, Any], floating: torch.dtype, *, classes: bool = True
) -> ClientData:
    """The same as tensors, fractions as ``floating``; labels as int64, or targets of any kind."""
    rows = given.rows if isinstance(given, ClientData) else None
    pair = (given.x, given.y) if isinstance(given, ClientData) else given
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise BadData(f"{owner} must be a pair (inputs, labels) of arrays, got {_describe(pair)}")
    x = as_inputs(f"inputs of {owner}", pair[0], floating)
    named = f"labels of {owner}", pair[1]
    y = as_labels(*named) if classes else as_targets(*named, floating)
    if len(x) != len(y):
        raise BadData(f"{owner} has {len(x)} inputs but {len(y)} labels; each needs one")
    rows = None if rows is None else as_positions(f"rows of {owner}", rows, len(y))
    return ClientData(x, y, rows)


def check_alike(owner: str, inputs: Inputs, first_owner: str, first: Inputs) -> None:
    """Refuse inputs of another sample shape or type than the ``first``, naming their owner."""
    if _kind(inputs) != _kind(first):
        others = f"but {first_owner} of {_kind(first)}; all need the same"
        raise BadData(f"{owner} has inputs of {_kind(inputs)}, {others}")


def batches(
    dataset: Any, batch_size: int, dtype: torch.dtype = torch.float32, *, classes: bool = True
) -> Iterator[tuple[Inputs, Tensor]]:
    """Inputs and labels of all samples of ``FORMS``, in order; fractions become ``dtype``."""
    seen = 0
    for batch in _raw(dataset, batch_size, dtype, classes=classes):
        data = as_samples("a batch of the dataset", batch, dtype, classes=classes)
        for part in parts_of(data.x).values():
            broken = (~torch.isfinite(part)).nonzero()
            if len(broken):
                sample = seen + int(broken[0, 0])
                raise BadData(f"inputs must be finite {dtype} numbers, but sample {sample} is not")
        seen += len(data)
        if len(data):
            yield data.x, data.y
    if seen == 0:
        raise BadData("dataset must hold at least one sample, got none")


def _raw(dataset: Any, batch_size: int, dtype: torch.dtype, *, classes: bool) -> Iterator[Any]:
    """Batches as they come, not all of them checked."""
    arrays = isinstance(dataset, list) and {type(part) for part in dataset} <= {Tensor, np.ndarray}
    pair = isinstance(dataset, tuple) or (arrays and dataset)
    items = isinstance(dataset, Dataset) or hasattr(dataset, "__getitem__")
    refused = isinstance(dataset, Mapping | str | bytes | Tensor | np.ndarray)
    if refused or (pair and len(dataset) != 2) or not (items or isinstance(dataset, Iterable)):
        raise BadData(f"dataset must be {FORMS}, got {_describe(dataset)}")
    if pair:
        data = as_samples("the dataset", dataset, dtype, classes=classes)
        for start in range(0, len(data), batch_size):
            yield data.take(slice(start, start + batch_size))
        return
    if isinstance(dataset, DataLoader):
        _check_loader(dataset)
    elif items:
        # With a generator of its own the loader draws nothing from the caller's.
        dataset = DataLoader(dataset, batch_size=batch_size, generator=torch.Generator())
    with blaming(f"dataset (a {type(dataset).__name__})"):
        yield from (as_collated(batch, getattr(dataset, "collate_fn", None)) for batch in dataset)


def as_collated(batch: Any, collate: Any) -> Any:
    """A batch with several inputs as a tuple: torch's own collate function makes a list of them."""
    usual = collate is torch.utils.data.default_collate and isinstance(batch, list)
    return [tuple(batch[0]), *batch[1:]] if usual and isinstance(batch[0], list) else batch


def _check_loader(loader: DataLoader[Any]) -> None:
    """Refuse a loader that leaves out samples, which weights count, or that changes their order."""
    sampler: Any = loader.sampler if loader.batch_sampler is None else loader.batch_sampler
    streamed = isinstance(loader.dataset, IterableDataset)
    dropped = loader.drop_last or getattr(sampler, "drop_last", False)
    if type(sampler) is BatchSampler:
        sampler = sampler.sampler
    if not streamed and not isinstance(sampler, SequentialSampler):
        got = f"got a DataLoader with a {type(sampler).__name__}; give its .dataset"
        must = "dataset must keep its order for indices to mean something"
        raise BadOption(f"{must}, {got}, or a loader with shuffle=False")
    if dropped or (not streamed and len(sampler) != len(loader.dataset)):  # type: ignore[arg-type]
        got = "got a DataLoader that leaves some out; give its .dataset"
        must = "dataset must give every sample, for weights count them all"
        raise BadOption(f"{must}, {got}, or a loader with drop_last=False")


def _kind(inputs: Inputs) -> str:
    kinds = [f"shape {list(x.shape[1:])} and type {x.dtype}" for x in parts_of(inputs).values()]
    names = [f"{name!r} of " if isinstance(inputs, Bundle) else "" for name in parts_of(inputs)]
    return ", ".join(map("".join, zip(names, kinds, strict=True))).replace("torch.", "")


def _describe(value: Any) -> str:
    length = f" of {len(value)}" if isinstance(value, tuple | list) else ""
    return f"a {type(value).__name__}{length}"
