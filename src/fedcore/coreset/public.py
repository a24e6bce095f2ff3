"""``fedcore.select_coreset`` and ``fedcore.coreset_for``: coresets outside federated learning."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from fedcore.coreset.build import build_coreset
from fedcore.coreset.candidates import Candidates
from fedcore.coreset.collect import head_gradients
from fedcore.coreset.metric import Euclidean, Metric, OuterProduct
from fedcore.coreset.proxies import LAST_LAYER_INPUT, PROXIES, STATIC, space_of
from fedcore.errors import BadData, BadOption
from fedcore.task import Task
from fedcore.types import Coreset

Gradients = Tensor | NDArray[Any] | Metric


def select_coreset(
    gradients: Gradients,
    budget: int,
    *,
    labels: Tensor | NDArray[Any] | None = None,
    losses: Tensor | NDArray[Any] | None = None,
    selector: str = "kmedoids",
    seed: int = 0,
    start: Tensor | NDArray[Any] | None = None,
    seconds: float | None = None,
    assignment: bool = False,
) -> Coreset[Any]:
    """The best weighted subset of at most ``budget`` samples, given their gradients.

    Args:
        gradients: [n, d] one gradient (or embedding) per sample, NumPy or torch, on any device;
            or a space such as ``OuterProduct(residuals, inputs)``.
        budget: how many to keep; n or more keeps all, each with weight one.
        labels: [n] classes, for selectors that look at them.
        losses: [n] losses, for ``loss-topk``.
        selector: a name ('fedcore list' shows them) or a path to a .py file.
        seed: of selectors that draw.
        start: indices of an earlier coreset to begin with (k-medoids).
        seconds: wall-clock limit (k-medoids); the best answer so far when it is spent.
        assignment: whether to say which chosen sample stands for each sample.

    Returns:
        Sorted ``indices``, their ``weights`` (Σ = n), the k-medoids ``objective`` where the
        selector has one, and the relative ``gradient_error`` of the weighted sum; NumPy arrays
        for NumPy arrays, otherwise tensors on the device of the gradients.

    >>> found = select_coreset(np.array([[0.0], [1], [2], [10], [11], [12]]), 2)
    >>> found.indices.tolist(), found.weights.tolist()
    ([1, 4], [3.0, 3.0])
    """
    space = _space(gradients)
    _check_budget(budget)
    candidates = Candidates(
        space,
        labels=_per_sample("labels", labels, space),
        losses=_per_sample("losses", losses, space),
        start=None if start is None else torch.as_tensor(start),
        seconds=seconds,
    )
    found = build_coreset(candidates, int(budget), selector, np.random.default_rng(seed))
    found = replace(found, assignment=found.assignment if assignment else None)
    return found if isinstance(gradients, Tensor | Euclidean | OuterProduct) else _numpy(found)


def _numpy(found: Coreset) -> Coreset[NDArray[Any]]:
    kept = None if found.assignment is None else found.assignment.numpy()
    return Coreset(
        found.indices.numpy(), found.weights.numpy(), found.objective, found.gradient_error, kept
    )


def coreset_for(
    model: nn.Module,
    dataset: Dataset[Any] | tuple[Any, Any],
    budget: int,
    *,
    proxy: str = LAST_LAYER_INPUT,
    head: str | None = None,
    batch_size: int = 256,
    **options: Any,
) -> Coreset[Any]:
    """A coreset of a dataset for a torch classifier as it stands.

    One forward pass over the data, and the gradient of the last linear layer's output: what
    comes before that layer is never differentiated.

    Args:
        model: maps a batch of inputs to class scores; its mode and parameters stay as they are.
        dataset: a torch dataset of (input, label), or a pair of arrays.
        budget: how many samples to keep.
        proxy: what stands in for gradients; 'fedcore compare --help' lists them.
        head: name of the last linear layer, if it is not the last ``nn.Linear``.
        batch_size: of the forward passes.
        **options: of ``select_coreset``.
    """
    if proxy not in PROXIES:
        raise BadOption(f"proxy must be one of {', '.join(PROXIES)}, got {proxy!r}")
    if proxy == STATIC:
        inputs, labels = zip(*_batches(dataset, batch_size), strict=True)
        return select_coreset(
            torch.cat(inputs).flatten(1), budget, labels=torch.cat(labels), **options
        )
    task = Task(model, head)
    params = dict(model.named_parameters())
    device = next(iter(params.values())).device
    labels_seen: list[Tensor] = []

    def moved() -> Iterator[tuple[Tensor, Tensor]]:
        for x, y in _batches(dataset, batch_size):
            labels_seen.append(y)
            yield x.to(device), y.to(device)

    seen = head_gradients(task, params, moved())
    space = space_of(proxy, seen, task.head_weight(params).detach(), bias=task.head_has_bias)
    options = {"labels": torch.cat(labels_seen), "losses": seen.losses, **options}
    return select_coreset(space, budget, **options)


def _space(gradients: Gradients) -> Metric:
    if isinstance(gradients, Euclidean | OuterProduct):
        space: Metric = gradients
    else:
        rows = gradients if isinstance(gradients, Tensor) else np.asarray(gradients)
        if not isinstance(rows, Tensor) and rows.dtype.kind not in "fiub":
            raise BadData(f"gradients must be numbers, got {rows.dtype}")
        if rows.ndim == 1:  # one number per sample
            rows = rows[:, None]
        try:
            space = Euclidean(rows)
        except ValueError as error:
            raise BadData(str(error).replace("points", "gradients", 1)) from None
    if len(space) == 0:
        raise BadData("gradients must hold at least one sample, got none")
    return space


def _check_budget(budget: Any) -> None:
    if isinstance(budget, bool) or not isinstance(budget, int | np.integer):
        raise BadOption(f"budget must be a whole number of samples, got {budget!r}")
    if budget < 1:
        raise BadOption(f"budget must be at least 1, got {budget}")


def _per_sample(name: str, values: Any, space: Metric) -> Tensor | None:
    if values is None:
        return None
    tensor = torch.as_tensor(values)
    if tensor.shape != (len(space),):
        raise BadData(
            f"{name} must be one value per sample ({len(space)}), got shape {tuple(tensor.shape)}"
        )
    return tensor.to(space.factors[0].device)


def _batches(dataset: Any, batch_size: int) -> Iterator[tuple[Tensor, Tensor]]:
    if isinstance(dataset, tuple):
        x, y = (torch.as_tensor(part) for part in dataset)
        if len(x) != len(y):
            raise BadData(f"dataset has {len(x)} inputs but {len(y)} labels; each needs one")
        for start in range(0, len(y), batch_size):
            yield x[start : start + batch_size], y[start : start + batch_size]
    else:
        for x, y in DataLoader(dataset, batch_size=batch_size):
            yield x, torch.as_tensor(y)
