"""A convolution of many clients, channels last: for every client [B·H·W, 25·C] times [25·C, O].

The gradient of the input is that with the kernel turned around:

    dx = patches(dy) · turned(W),   dW = dyᵀ · patches(x),   db = Σ dy

With the kernels of ``kernel`` patches are read where they lie in the images. Written out, as the
plain twin does, they are 25 times as large as those, and most of a step's time.
"""

from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.nn import functional

from fedcore.stacked import kernels_work

HOW: dict[str, Any] = {"HOW": "tf32x3", "DEPTH": 32, "num_warps": 4, "num_stages": 3}
COLUMNS = 32  # of dW, of a program
CROWD = 24  # clients from which on large tiles keep all of a GPU at work
PROGRAMS = 528  # that do; where there are fewer, pixels of dW are shared among up to PARTS
PARTS = 16
FEW = 2  # clients at most whose patches are sooner written out


def patches(x: Tensor, size: int) -> Tensor:
    """Neighbourhoods [K, B·H·W, size·size·C] of every pixel of images [K, B, H, W, C]."""
    half = size // 2
    padded = functional.pad(x, (0, 0, half, half, half, half))
    view = padded.unfold(2, size, 1).unfold(3, size, 1)  # [K, B, H, W, C, size, size]
    return view.permute(0, 1, 2, 3, 5, 6, 4).reshape(len(x), x[0, ..., 0].numel(), -1)


def plain(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """By patches that are written out."""
    clients, maps, _, size, _ = weight.shape
    kernel = weight.permute(0, 3, 4, 2, 1).reshape(clients, -1, maps)
    return torch.baddbmm(bias[:, None], patches(x, size), kernel).view(*x.shape[:-1], maps)


class Fused(Function):
    """By kernels, for numbers of maps that are powers of two from 16 on."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        """Images [K, B, H, W, O]."""
        kernel = weight.permute(0, 3, 4, 2, 1).contiguous()  # [K, size, size, C, O]
        ctx.save_for_backward(x, kernel)
        return _correlated(x, kernel, bias, turned=False)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        """Slopes of all three."""
        from fedcore.models.cnn.kernel import weigh

        x, kernel = ctx.saved_tensors
        clients, size, _, channels, maps = kernel.shape
        slopes = gradients[0].contiguous()
        inputs = _correlated(slopes, kernel, None, turned=True) if ctx.needs_input_grad[0] else None
        sizes, columns = _sizes(x, maps, size), -(-size * size * channels // COLUMNS)
        parts = min(max(PROGRAMS // (columns * clients), 1), PARTS)
        share = -(-sizes["PIXELS"] // (parts * HOW["DEPTH"])) * HOW["DEPTH"]
        weights = x.new_empty(parts, clients, maps, channels, size, size)
        grid = (columns, clients, parts)
        weigh[grid](x, slopes, weights, **sizes, SHARE=share, COLUMNS=COLUMNS, **HOW)
        return inputs, weights.sum(0) if parts > 1 else weights[0], slopes.flatten(1, 3).sum(1)


def _correlated(x: Tensor, kernel: Tensor, bias: Tensor | None, *, turned: bool) -> Tensor:
    from fedcore.models.cnn.kernel import correlate

    clients, size, _, *ends = kernel.shape
    maps = ends[0] if turned else ends[1]
    y = x.new_empty(*x.shape[:-1], maps)
    sizes, rows = _sizes(x, maps, size), 128 if clients >= CROWD else 64 if turned else 32
    grid = (-(-sizes["PIXELS"] // rows), clients)
    correlate[grid](x, kernel, bias, y, **sizes, TURNED=turned, ROWS=rows, **HOW)
    return y


def _sizes(x: Tensor, maps: int, size: int) -> dict[str, int]:
    _, batch, height, width, channels = x.shape
    of = {"PIXELS": batch * height * width, "H": height, "W": width}
    return {**of, "C": channels, "OUT": maps, "SIZE": size}


def convolve(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Images [K, B, H, W, O] of images [K, B, H, W, C] and kernels [K, O, C, size, size]."""
    fits = x.is_cuda and x.dtype == torch.float32 and x.is_contiguous() and len(x) > FEW
    if not (fits and kernels_work("CNN", _trial, x.device)):
        return plain(x, weight, bias)
    result: Tensor = Fused.apply(x, weight, bias)  # type: ignore[no-untyped-call]
    return result


def _trial(device: torch.device) -> None:
    """Both kernels on a small image."""
    full = partial(torch.zeros, device=device, requires_grad=True)
    leaves = full(1, 1, 4, 4, 16), full(1, 16, 16, 5, 5), full(1, 16)
    torch.autograd.grad(Fused.apply(*leaves).sum(), leaves)  # type: ignore[no-untyped-call]
