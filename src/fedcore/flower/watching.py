"""Last-layer gradients out of a training loop that is not ours: hooks, and no pass of our own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fedcore.coreset.metric import Euclidean, Metric
from fedcore.coreset.proxies import LAST_LAYER, STATIC, HeadGradients, space_of


class Watching:
    """Collects r = dL/da of the last ``nn.Linear``, and its input z where the ``proxy`` asks.

    A sequence of outputs for a sample, [B, T, C], counts as the sum of its gradients. ``trouble``
    says why there is nothing to choose by.
    """

    def __init__(self, model: nn.Module, proxy: str) -> None:
        """Find the layer."""
        layers = [module for module in model.modules() if isinstance(module, nn.Linear)]
        self._head = layers[-1] if layers else None
        self.trouble = None if layers else "the model has no nn.Linear"
        self._proxy, self._scale = proxy, 1.0
        self._met: list[Sequence[int]] = []
        self._parts: dict[int, tuple[Tensor, Tensor]] = {}  # by batch

    @contextmanager
    def watch(self) -> Iterator[None]:
        """Hang the hooks. Gradients may come scaled, and only the scaler knows by how much."""
        if self._head is None:
            yield
            return
        scaled = torch.amp.GradScaler.scale

        def scale(scaler: torch.amp.GradScaler, outputs: Any) -> Any:
            self._scale = scaler.get_scale()
            return scaled(scaler, outputs)

        with self._head.register_forward_hook(self._passed):
            torch.amp.GradScaler.scale = scale  # type: ignore[method-assign, assignment]
            try:
                yield
            finally:
                torch.amp.GradScaler.scale = scaled  # type: ignore[method-assign]

    def meet(self, indices: Sequence[int]) -> None:
        """Say which samples the next batch holds."""
        self._met.append(indices)

    def _passed(self, _: nn.Module, entered: tuple[Any, ...], output: Any) -> None:
        if self._met and isinstance(output, Tensor) and output.requires_grad:
            batch, z = len(self._met) - 1, entered[0].detach()
            output.register_hook(lambda g: self._note(batch, z, g))  # type: ignore[no-untyped-call]

    def _note(self, batch: int, z: Tensor, gradient: Tensor) -> None:
        """Rows of one batch, as of a sum of losses: a mean has the batch's size in it."""
        size = len(self._met[batch])
        if self.trouble is not None:
            return
        if gradient.dim() < 2 or len(gradient) != size:
            self.trouble = f"the last linear layer gave {tuple(gradient.shape)} for {size} samples"
        elif batch in self._parts:
            self.trouble = "the last linear layer ran more than once for one batch"
        else:
            wanted = z if self._proxy in (STATIC, LAST_LAYER) else z[..., :0]
            rows = gradient.detach().float() * (size / self._scale)
            self._parts[batch] = (_summed(rows), _summed(wanted.float()))

    def seen(self) -> tuple[NDArray[np.int64], Metric, Tensor] | None:
        """Samples with finite gradients, the space they lie in, and their labels; or ``trouble``.

        The residual of a sample's own class is the one below zero.
        """
        if self.trouble is None and not self._parts:
            self.trouble = "no gradient reached the last linear layer"
        if self.trouble is not None or self._head is None:
            return None
        met = np.concatenate([np.asarray(self._met[batch]) for batch in self._parts])
        parts = zip(*self._parts.values(), strict=True)
        residuals, inputs = (torch.cat(part).cpu() for part in parts)
        finite = torch.isfinite(residuals).all(1) & torch.isfinite(inputs).all(1)
        _, last = np.unique(met[::-1], return_index=True)  # who came twice counts once
        keep = torch.from_numpy(len(met) - 1 - last)
        keep = keep[finite[keep]]
        rows = HeadGradients(residuals[keep], inputs[keep], residuals.new_zeros(len(keep)))
        weight, bias = self._head.weight.detach().float().cpu(), self._head.bias is not None
        if not len(keep) or not bool(torch.isfinite(weight).all()):
            self.trouble = "the last linear layer is not finite"
            return None
        space: Metric = Euclidean(rows.inputs)  # the input itself, of a model of one layer
        if self._proxy != STATIC:
            space = space_of(self._proxy, rows, weight, bias=bias)
        return met[keep.numpy()], space, rows.residuals.argmin(1)


def _summed(rows: Tensor) -> Tensor:
    """[B, ..., C] as [B, C]."""
    return rows if rows.dim() == 2 else rows.flatten(1, -2).sum(1)
