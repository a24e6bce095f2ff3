"""A model's forward pass for a whole block of clients: scores [K, B, C] from stacked parameters.

Models without a form of their own go through ``torch.func.vmap``. One client alone goes through
the model itself, with parameters whose leading axis is dropped: matrix products of two axes have
better code on CPUs than batches of one.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from fedcore.models.char_lstm import CharacterLstm
from fedcore.models.char_lstm.batched import batched_lstm
from fedcore.models.char_lstm.compiled_lstm import compiled_lstm, fits
from fedcore.models.cnn import ImageClassifier
from fedcore.models.cnn.batched import batched_cnn, single_cnn
from fedcore.models.logistic import LinearClassifier
from fedcore.models.logistic.batched import batched_linear
from fedcore.stacked import Form, Stack
from fedcore.task import Task, has_hooks
from fedcore.types import Params


def form_of(task: Task) -> Form:
    """The fastest form that is known for a model; its class must be ours, not one made of it."""
    model = task.model
    if has_hooks(model) or task.frozen_params():
        return by_module(task)
    if type(model) is LinearClassifier:
        return batched_linear(sigmoid=model.sigmoid)
    if type(model) is CharacterLstm:
        return _alone_or_together(_compiled_where_it_fits(by_module(task)), batched_lstm)
    if type(model) is ImageClassifier:
        return _alone_or_together(single_cnn, batched_cnn)
    return by_module(task)


def by_module(task: Task) -> Form:
    """The form of any model: its module under ``vmap``, or as it is for one client."""

    def forward(params: Stack, x: Tensor, probe: Tensor | None) -> tuple[Tensor, Tensor | None]:
        if len(x) > 1:
            if probe is None:
                return torch.vmap(task.logits)(dict(params), x), None
            logits, inputs = torch.vmap(task.probed)(dict(params), x, probe)
            return logits, inputs
        own = {name: value.squeeze(0) for name, value in params.items()}
        if probe is None:
            return task.logits(own, x[0])[None], None
        logits, inputs = task.probed(own, x[0], probe[0])
        return logits[None], inputs[None]

    return forward


def _compiled_where_it_fits(otherwise: Form) -> Form:
    def forward(params: Stack, x: Tensor, probe: Tensor | None) -> tuple[Tensor, Tensor | None]:
        form = compiled_lstm if fits(params, x) else otherwise
        return form(params, x, probe)

    return forward


def _alone_or_together(alone: Form, together: Form) -> Form:
    def forward(params: Stack, x: Tensor, probe: Tensor | None) -> tuple[Tensor, Tensor | None]:
        # Vendors' kernels for one model are near their limit on CPUs; on a GPU the batched
        # form is the one that a graph can hold, whatever the number of clients.
        form = alone if len(x) == 1 and x.device.type == "cpu" else together
        return form(params, x, probe)

    return forward


def scores_of(task: Task, device: torch.device) -> Callable[[Params, Tensor], Tensor]:
    """One model's scores [B, C] by the fastest way that is known, for forward passes alone.

    Large chunks of one model are what vendors' kernels are for, with one exception: see
    ``single_cnn``. Layers that behave differently in training, such as dropout, are not in it.
    """
    task = task.on(device)
    task.model.eval()
    own = type(task.model) is ImageClassifier and not has_hooks(task.model)
    if device.type != "cpu" or not own or task.frozen_params():
        return task.logits

    def scores(params: Params, x: Tensor) -> Tensor:
        alone = {name: value[None] for name, value in params.items()}
        return single_cnn(alone, x[None], None)[0][0]

    return scores
