"""What ``select_coreset`` is given, checked: whatever cannot be used is named in one sentence."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedcore import plugins
from fedcore.coreset.metric import Euclidean, Metric, OuterProduct
from fedcore.errors import BadData, BadOption

# What to do about labels that are no numbers.
NUMBER_THEM = "; number the classes, as numpy.unique(labels, return_inverse=True) does"


def real_array(name: str, values: Any, hint: str = "") -> Tensor | NDArray[Any]:
    """``values`` as a dense tensor, or else as an array, of real numbers.

    Args:
        name: what to call them.
        values: a tensor, an array, or what NumPy makes one of.
        hint: what to do about values that are no numbers.
    """
    if isinstance(values, Tensor):
        if values.layout != torch.strided:
            raise BadData(
                f"{name} must be a dense tensor, got one of layout {values.layout}; "
                "call .to_dense() on it"
            )
        if values.is_complex():
            raise BadData(f"{name} must be real numbers, got {values.dtype}{hint}")
        return values.detach()
    try:
        array = np.asarray(values)
    except (TypeError, ValueError, RuntimeError):
        raise BadData(
            f"{name} must be one array of numbers, got a {type(values).__name__} that does not "
            "make one; its rows must be of one length"
        ) from None
    if array.dtype.kind not in "fiub":
        raise BadData(f"{name} must be numbers, got {array.dtype}{hint}")
    return array


def as_tensor(name: str, values: Any, hint: str = "") -> Tensor:
    """The same as a tensor, whichever way the numbers lie in memory."""
    array = real_array(name, values, hint)
    if isinstance(array, Tensor):
        return array
    kind = array.dtype.newbyteorder("=")
    if kind.kind == "u" and kind.itemsize > 1:  # torch computes with no other unsigned numbers
        kind = np.dtype(np.int64)
    elif kind.kind == "f" and kind.itemsize > 8:
        kind = np.dtype(np.float64)
    # A tensor shares an array's memory, so an array that may not be written is copied.
    array = np.require(array, dtype=kind, requirements=["C", "W"])
    return torch.from_numpy(array)


def as_space(gradients: Any) -> Metric:
    """The space that ``gradients`` span: a row a sample, a number a sample, or a space already."""
    if isinstance(gradients, Euclidean | OuterProduct):
        space: Metric = gradients
    else:
        rows = real_array("gradients", gradients)
        if rows.ndim == 1:  # one number per sample
            rows = rows[:, None]
        try:
            space = Euclidean(rows)
        except ValueError as error:
            raise BadData(str(error).replace("points", "gradients", 1)) from None
    if len(space) == 0:
        raise BadData("gradients must hold at least one sample, got none")
    return space


def whole_number(name: str, value: Any, least: int, what: str = "") -> int:
    """``value``, if it is a whole number of at least ``least``; a truth value is none."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer):
        raise BadOption(f"{name} must be a whole number{what}, got {value!r}")
    if value < least:
        raise BadOption(f"{name} must be at least {least}, got {value}")
    return int(value)


def time_limit(seconds: Any) -> float | None:
    """``seconds``, if they are a number of at least 0; without end is no limit."""
    if seconds is None:
        return None
    number = isinstance(seconds, int | float | np.integer | np.floating)
    if not number or isinstance(seconds, bool) or not seconds >= 0:
        raise BadOption(
            f"seconds must be a number of at least 0, or None for no limit, got {seconds!r}"
        )
    return None if math.isinf(seconds) else float(seconds)


def positions(start: Any, count: int) -> Tensor | None:
    """Positions of samples to begin with, each from 0 to ``count`` - 1."""
    if start is None:
        return None
    try:
        tensor = as_tensor("start", start)
    except BadData as error:
        raise BadOption(f"{error}; give the indices of a coreset") from None
    if tensor.ndim == 1 and len(tensor) == 0:
        return None
    whole = not tensor.is_floating_point() and tensor.dtype != torch.bool
    if tensor.ndim != 1 or not whole:
        raise BadOption(
            "start must be a row of whole numbers, such as the indices of a coreset, got shape "
            f"{tuple(tensor.shape)} of {tensor.dtype}"
        )
    outside = tensor[(tensor < 0) | (tensor >= count)]
    if len(outside):
        raise BadOption(
            f"start must hold positions of samples, from 0 to {count - 1}, got {int(outside[0])}"
        )
    return tensor.to(torch.int64)


def classes_of(labels: Any, space: Metric) -> Tensor | None:
    """Labels as int64 [n] beside the space; floating-point numbers do if they are whole."""
    if labels is None:
        return None
    tensor = _per_sample("labels", as_tensor("labels", labels, NUMBER_THEM), space)
    if tensor.is_floating_point():
        broken = (tensor != tensor.round()) | ~torch.isfinite(tensor)
        if bool(broken.any()):
            sample = int(broken.nonzero()[0])
            raise BadData(
                f"labels must be whole numbers, got {tensor[sample].item()} for sample {sample}"
            )
    return tensor.to(torch.int64)


def losses_of(losses: Any, space: Metric) -> Tensor | None:
    """Losses [n] beside the space; NaN is none, for it cannot be compared."""
    if losses is None:
        return None
    tensor = _per_sample("losses", as_tensor("losses", losses), space)
    missing = torch.isnan(tensor)
    if bool(missing.any()):
        raise BadData(f"losses must be numbers, got nan for sample {int(missing.nonzero()[0])}")
    return tensor


def check_selector(selector: Any, labels: Tensor | None) -> None:
    """Refuse a selector that does not exist, or that looks at labels where there are none.

    A selector says that it looks at them by ``NEEDS_LABELS = True``.
    """
    if not isinstance(selector, str):
        raise BadOption(
            f"selector must be a name or the path of a .py file, got {selector!r}; "
            f"there are {', '.join(plugins.names('selector'))}"
        )
    module = plugins.load("selector", selector)
    if not callable(getattr(module, "select", None)):
        raise BadOption(
            f"selector {selector!r} must have a function select(candidates, budget, generator)"
        )
    if labels is None and getattr(module, "NEEDS_LABELS", False):
        raise BadOption(f"selector {selector!r} needs labels; pass labels=, or use 'kmedoids'")


def _per_sample(name: str, tensor: Tensor, space: Metric) -> Tensor:
    if tensor.shape != (len(space),):
        raise BadData(
            f"{name} must be one value per sample ({len(space)}), got shape {tuple(tensor.shape)}"
        )
    return tensor.to(space.factors[0].device)
