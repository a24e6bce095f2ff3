"""The last state of two LSTM layers of many clients, by the kernels of ``cluster.cu``.

What does not wait for the recurrence is one large product before or after it.
"""

import functools
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from fedcore.stacked import kernels_work

Layers = Sequence[Tensor]
# As in cluster.cu; bytes are those of its forward kernel, the larger one.
LAYERS, UNITS, SAMPLES, BLOCKS, THREADS, SHARED = 2, 256, 8, 16, 512, 118_784
CLUSTERS_ABOVE_EIGHT = 14  # CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED


class _Stack(Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, first: Tensor, to_input: Tensor, to_hidden: Tensor, biases: Tensor
    ) -> Tensor:
        clients, length, batch, _ = x.shape
        gates = x.new_empty(LAYERS, clients, length, batch, 4 * UNITS)
        flat = gates.flatten(2, 3)
        torch.baddbmm(biases[0][:, None], x.flatten(1, 2), first.transpose(1, 2), out=flat[0])
        flat[1] = biases[1][:, None]
        states = x.new_empty(LAYERS, clients, length + 1, batch, UNITS)
        cells = torch.empty_like(states)
        states[:, :, 0], cells[:, :, 0] = 0, 0
        run = _kernel("lstm_forward", x.device)
        run(gates, states, cells, to_hidden, to_input, clients, length, batch)
        ctx.save_for_backward(x, first, to_input, to_hidden, gates, states, cells)
        return states[-1, :, -1].clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        x, first, to_input, to_hidden, gates, states, cells = ctx.saved_tensors
        _, clients, length, batch, _ = gates.shape
        slopes, upstream = torch.empty_like(gates), gradients[0].contiguous()
        run = _kernel("lstm_backward", x.device)
        run(gates, cells, upstream, slopes, to_hidden, to_input, clients, length, batch)
        flat = slopes.flatten(2, 3)  # [2, K, T·B, 4H]
        turned = flat.transpose(2, 3)
        return (
            torch.bmm(flat[0], first).view_as(x),
            torch.bmm(turned[0], x.flatten(1, 2)),
            torch.bmm(turned[1], states[0, :, 1:].flatten(1, 2)),  # what came from the layer below
            turned @ states[:, :, :-1].flatten(2, 3),  # and from the step before
            flat.sum(2),
        )


@functools.cache
def _kernel(name: str, device: torch.device) -> Any:
    """A kernel of ``cluster.cu`` on one GPU, as a function of tensors and K, T, B."""
    source = files(__package__).joinpath("cluster.cu").read_text()
    with torch.cuda.device(device):
        kernel = torch.cuda._compile_kernel(source, name)
        kernel.set_shared_memory_config(SHARED)
        driver = torch.cuda._utils._get_gpu_runtime_library()
        if driver.cuFuncSetAttribute(kernel.func, CLUSTERS_ABOVE_EIGHT, 1):
            raise RuntimeError(f"no clusters of {BLOCKS} blocks")

    def run(*arguments: Any) -> None:
        clients, _, batch = arguments[-3:]
        blocks = BLOCKS * clients * -(-batch // SAMPLES)
        with torch.cuda.device(device):
            kernel((blocks, 1, 1), (THREADS, 1, 1), list(arguments), SHARED)

    return run


def fused_lstm(x: Tensor, input_weights: Layers, hidden_weights: Layers, biases: Layers) -> Tensor:
    """Last states [K, B, H] for x [K, T, B, I], weights [K, 4H, I or H], biases [K, 4H] a layer."""
    first, to_input = input_weights
    to_hidden, bias = torch.stack(list(hidden_weights)), torch.stack(list(biases))
    last: Tensor = _Stack.apply(x, first, to_input.contiguous(), to_hidden, bias)  # type: ignore[no-untyped-call]
    return last


def fits(x: Tensor, units: int) -> bool:
    """Whether the kernels can take two layers of ``units``: in float32, blocks meet in clusters."""
    able = x.is_cuda and torch.cuda.get_device_capability(x.device)[0] >= 9
    right = x.dtype == torch.float32 and units == UNITS
    return able and right and kernels_work("LSTM", _trial, x.device)


def _trial(device: torch.device) -> None:
    """Both kernels on one step of one client."""
    x = torch.zeros(1, 1, 1, 1, device=device, requires_grad=True)
    weights = [torch.zeros(1, 4 * UNITS, width, device=device) for width in (1, UNITS)]
    last = fused_lstm(x, weights, [weights[1]] * LAYERS, [weights[0][:, :, 0]] * LAYERS)
    torch.autograd.grad(last.sum(), [x])
    torch.cuda.synchronize(device)
