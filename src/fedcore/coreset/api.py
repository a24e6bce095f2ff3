"""``fedcore.select_coreset`` and ``fedcore.coreset_for``: coresets outside federated learning."""

import inspect
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils.data import Dataset

from fedcore import plugins
from fedcore.arrays import as_labels, as_positions, as_tensor, batches
from fedcore.bundle import Inputs, joined
from fedcore.coreset import proxies
from fedcore.coreset.build import build_coreset, module_of, selector_of
from fedcore.coreset.candidates import Candidates
from fedcore.coreset.metric import Euclidean, Metric, OuterProduct
from fedcore.coreset.proxies import LAST_LAYER, LAST_LAYER_INPUT, PROXIES, STATIC, HeadGradients
from fedcore.errors import BadData, BadOption
from fedcore.losses import CROSS_ENTROPY, loss_of
from fedcore.task import Loss, Task, Terms, naming, outputs_of
from fedcore.threads import one_thread_each
from fedcore.types import Coreset, Params
from fedcore.values import number_of, one_of, time_limit, whole_number

Gradients = Tensor | NDArray[Any] | Metric
Seen = tuple[HeadGradients, Tensor]


@one_thread_each()
def select_coreset(
    gradients: Gradients,
    budget: float,
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
        budget: how many to keep, or which share, as 0.1; n or more keeps all, with weight one.
        labels: [n] classes, for selectors that look at them.
        losses: [n] losses, for ``loss-topk`` and ``infobatch``.
        selector: a name ('fedcore list' shows them) or a path to a .py file.
        seed: of selectors that draw.
        start: indices of an earlier coreset to begin with (k-medoids).
        seconds: wall-clock limit (k-medoids): the best choice so far when it is spent, and then
            everybody's nearest chosen sample, for which it may take longer; at the worst, samples
            drawn at random.
        assignment: whether to say which chosen sample stands for each, where the selector knows.

    Returns:
        Sorted ``indices``, their ``weights`` (Σ = n), the k-medoids ``objective`` where the
        selector has one, and the relative ``gradient_error`` of the weighted sum; NumPy arrays
        for NumPy arrays, otherwise tensors on the device of the gradients.

    Examples:
        >>> found = select_coreset(np.array([[0.0], [1], [2], [10], [11], [12]]), 2)
        >>> found.indices.tolist(), found.weights.tolist()
        ([1, 4], [3.0, 3.0])
    """
    space = _space(gradients)
    size = number_of("budget", budget, len(space))
    candidates = Candidates(
        space,
        labels=None if labels is None else _beside(space, "labels", as_labels("labels", labels)),
        losses=None if losses is None else _beside(space, "losses", as_tensor("losses", losses)),
        start=_start(start, len(space)),
        seconds=time_limit("seconds", seconds),
    )
    _check_selector(selector, candidates.labels)
    generator = np.random.default_rng(whole_number("seed", seed, 0))
    found = build_coreset(candidates, size, selector, generator)
    stands_for = found.assignment if assignment else None
    if isinstance(gradients, Tensor | Euclidean | OuterProduct):
        return replace(found, assignment=stands_for)
    arrays: dict[str, Any] = {"indices": found.indices.numpy(), "weights": found.weights.numpy()}
    arrays["assignment"] = None if stands_for is None else stands_for.numpy()
    return replace(found, **arrays)


def _space(gradients: Any) -> Metric:
    """The space that ``gradients`` span: a row a sample, a number a sample, or a space already."""
    if isinstance(gradients, Euclidean | OuterProduct):
        space: Metric = gradients
    else:  # a space knows best what to make of an array
        rows = gradients if type(gradients) is np.ndarray else as_tensor("gradients", gradients)
        try:
            space = Euclidean(rows[:, None] if rows.ndim == 1 else rows)
        except ValueError as error:
            raise BadData(str(error).replace("points", "gradients", 1)) from None
    if len(space) == 0:
        raise BadData("gradients must hold at least one sample, got none")
    return space


def _beside(space: Metric, name: str, values: Tensor) -> Tensor:
    if values.shape != (len(space),):
        got = f"got shape {tuple(values.shape)}"
        raise BadData(f"{name} must be one value per sample ({len(space)}), {got}")
    missing = torch.isnan(values).nonzero()  # which cannot be compared
    if len(missing):
        raise BadData(f"{name} must be numbers, got nan for sample {int(missing[0])}")
    return values.to(space.factors[0].device)


def _start(start: Any, count: int) -> Tensor | None:
    if start is None:
        return None
    try:
        found = as_positions("start", start, count)
    except BadData as error:
        raise BadOption(f"{error}; give the indices of a coreset") from None
    return found if len(found) else None


def _check_selector(selector: Any, labels: Tensor | None) -> None:
    """Refuse a selector that does not exist, or that looks at labels where there are none."""
    if not isinstance(selector, str):
        got = f"got {selector!r}; there are {', '.join(plugins.names('selector'))}"
        raise BadOption(f"selector must be a name or the path of a .py file, {got}")
    selector_of(selector)
    if labels is None and getattr(module_of(selector), "NEEDS_LABELS", False):
        raise BadOption(f"selector {selector!r} needs labels; pass labels=, or use 'kmedoids'")


@one_thread_each()
def coreset_for(
    model: nn.Module,
    dataset: Dataset[Any] | Iterable[Any],
    budget: float,
    *,
    proxy: str = LAST_LAYER_INPUT,
    head: str | None = None,
    loss: str | Loss = CROSS_ENTROPY,
    batch_size: int = 256,
    **options: Any,
) -> Coreset[Any]:
    """A coreset of a dataset for a torch model as it stands.

    One forward pass, made as for evaluation, and the gradient of the last linear layer's output;
    what comes before that layer is never differentiated.

    Args:
        model: maps a batch of inputs to class scores, or what its loss takes; it stays as it is.
        dataset: a pair of arrays (inputs, labels); a torch dataset of (input, label); or a
            DataLoader that does not shuffle. Floating-point inputs get the model's precision.
            Several inputs are a tuple or a dict.
        budget: how many samples to keep, or which share of them.
        proxy: what stands in for gradients; 'fedcore compare --help' lists them.
        head: name of the last linear layer, if it is not the last ``nn.Linear``.
        loss: 'cross-entropy', 'mse', 'bce', 'huber', or a function (outputs, targets) -> [batch].
        batch_size: of the forward passes.
        **options: of ``select_coreset``.
    """
    one_of(*PROXIES)("proxy", proxy)
    for name in options.keys() - inspect.signature(select_coreset).parameters.keys():
        raise BadOption(f"coreset_for has no option named {name!r}; help(coreset_for) lists them")
    number_of("budget", budget, 1)  # before the pass, which takes a while
    size = whole_number("batch_size", batch_size, 1)
    terms = Terms(loss_of(loss), "keep")
    if proxy == STATIC:
        rows, labels = joined(batches(dataset, size, classes=terms.loss is None))
        rows = rows if isinstance(rows, Tensor) else rows.flat()
        return select_coreset(rows.reshape(len(rows), -1), budget, **_classes(labels) | options)
    if not isinstance(model, nn.Module):
        raise BadOption(f"model must be an nn.Module, got {model!r}")
    task = Task(model, head, terms)
    with naming(model), torch.inference_mode(False), _evaluating(model) as state:
        weight = task.head_weight(state).detach()
        seen, labels = _pass(task, state, dataset, size, proxy == LAST_LAYER)
    space = proxies.space_of(proxy, seen, weight, bias=task.head_has_bias)
    return select_coreset(space, budget, **_classes(labels) | {"losses": seen.losses} | options)


def _classes(targets: Tensor) -> dict[str, Tensor]:
    """Targets as labels, where they are classes."""
    return {} if targets.dim() > 1 or targets.is_floating_point() else {"labels": targets}


@contextmanager
def _evaluating(model: nn.Module) -> Iterator[Params]:
    """The model in evaluation mode, and the parameters and buffers it computes with."""
    modes = [(module, module.training) for module in model.modules()]
    # Copies, so that a layer that writes to its own leaves the model's alone.
    buffers = {name: buffer.clone() for name, buffer in model.named_buffers()}
    try:
        model.eval()
        yield {**dict(model.named_parameters()), **buffers}
    finally:
        for module, training in modes:  # one by one: frozen parts may differ from the whole
            module.training = training


def _pass(task: Task, state: Params, dataset: Any, size: int, keep: bool) -> Seen:
    """Gradients of all samples at the last layer, to ``keep`` with its inputs; and their labels."""
    first = next(value for value in task.model.parameters() if value.is_floating_point())
    labels: list[Tensor] = []

    def moved() -> Iterator[tuple[Inputs, Tensor]]:
        width, classes = 0, task.terms.loss is None
        for x, y in batches(dataset, size, first.dtype, classes=classes):
            inputs = x.to(first.device)
            score = partial(task.logits, state)
            width = width or outputs_of(score, inputs[:2], classes=classes).shape[-1]
            # On a GPU a label out of range would end the process, not the call.
            outside = y[(y < 0) | (y >= width)] if classes else y[:0]
            if len(outside):
                why = f"for the model has {width} classes, got {int(outside[0])}"
                raise BadData(f"labels must be from 0 to {width - 1}, {why}")
            labels.append(y)
            yield inputs, y.to(first.device)

    seen = proxies.head_gradients(task, state, moved(), keep=keep)
    finite = torch.isfinite(seen.residuals).all(dim=1)
    if not bool(finite.all()):
        bad = f"but its gradient of sample {int((~finite).nonzero()[0])} is not"
        raise BadData(f"model must give finite scores, {bad}; see whether its training diverged")
    return seen, torch.cat(labels)
