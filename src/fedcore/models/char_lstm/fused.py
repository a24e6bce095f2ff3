"""The last state of a stack of LSTM layers of many clients, with kernels for a GPU.

What does not wait for the recurrence is one large product before or after it. The recurrence is one
launch where blocks can meet in clusters and the sizes are those of ``cluster.cu``; elsewhere it is
a launch of ``kernel`` for each of its waves.
"""

import functools
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from fedcore.stacked import kernels_work

ROWS = 16  # tensor cores take no fewer
# Units of a program, terms or columns at a time, warps and stages: the best of those tried on an
# H200 for 1, 4 and 10 clients (docs/performance.md).
FORWARD_UNITS, BACKWARD_UNITS = 8, 16
DEPTH, WIDTH = 64, 128
FORWARD: dict[str, Any] = {"HOW": "tf32x3", "num_warps": 2, "num_stages": 3}
BACKWARD: dict[str, Any] = {"HOW": "tf32x3", "num_warps": 4, "num_stages": 2}
# As in cluster.cu; bytes are those of its forward kernel, the larger one.
CLUSTER_UNITS, CLUSTER_SAMPLES, BLOCKS, THREADS, SHARED = 256, 8, 16, 512, 118_784
CLUSTERS_ABOVE_EIGHT = 14  # CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED


class _Stack(Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, first: Tensor, to_input: Tensor, to_hidden: Tensor, biases: Tensor
    ) -> Tensor:
        clients, length, batch, _ = x.shape
        layers, units = len(to_hidden), to_hidden.shape[3]
        gates = x.new_empty(layers, clients, length, batch, 4 * units)
        flat = gates.view(layers, clients, length * batch, 4 * units)
        torch.baddbmm(biases[0][:, None], x.flatten(1, 2), first.transpose(1, 2), out=flat[0])
        flat[1:] = biases[1:, :, None]
        states = x.new_empty(layers, clients, length + 1, batch, units)
        cells = torch.empty_like(states)
        states[:, :, 0], cells[:, :, 0] = 0, 0
        run = _cluster("lstm_forward", x.device) if in_clusters(gates) else _forward_waves
        run(gates, states, cells, to_hidden, to_input, clients, length, batch)
        ctx.save_for_backward(x, first, to_input, to_hidden, gates, states, cells)
        return states[-1, :, -1].clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        x, first, to_input, to_hidden, gates, states, cells = ctx.saved_tensors
        _, clients, length, batch, _ = gates.shape
        slopes, upstream = torch.empty_like(gates), gradients[0].contiguous()
        run = _cluster("lstm_backward", x.device) if in_clusters(gates) else _backward_waves
        run(gates, cells, upstream, slopes, to_hidden, to_input, clients, length, batch)
        flat = slopes.flatten(2, 3)  # [L, K, T·B, 4H]
        turned = flat.transpose(2, 3)
        return (
            torch.bmm(flat[0], first).view_as(x),
            torch.bmm(turned[0], x.flatten(1, 2)),
            turned[1:] @ states[:-1, :, 1:].flatten(2, 3),  # what came from the layer below
            turned @ states[:, :, :-1].flatten(2, 3),  # and from the step before
            flat.sum(2),
        )


def _forward_waves(
    gates: Tensor, states: Tensor, cells: Tensor, to_hidden: Tensor, to_input: Tensor,
    clients: int, length: int, batch: int,
) -> None:  # fmt: skip
    from fedcore.models.char_lstm.kernel import forward_wave

    layers, units = len(gates), states.shape[-1]
    sizes = {"ROWS": _rows(batch), "UNITS": FORWARD_UNITS, "DEPTH": min(DEPTH, units)}
    grid = (clients, units // FORWARD_UNITS, layers)
    for wave in range(length + layers - 1):
        forward_wave[grid](
            gates, states, cells, to_hidden, to_input, wave, length, batch,
            H=units, **sizes, **FORWARD,
        )  # fmt: skip


def _backward_waves(
    gates: Tensor, cells: Tensor, upstream: Tensor, slopes: Tensor, to_hidden: Tensor,
    to_input: Tensor, clients: int, length: int, batch: int,
) -> None:  # fmt: skip
    from fedcore.models.char_lstm.kernel import backward_wave

    layers, units = len(gates), cells.shape[-1]
    blocks = units // BACKWARD_UNITS
    cell_slopes = gates.new_zeros(layers, clients, batch, units)
    shares = gates.new_empty(2, 2, layers, clients, blocks, batch, units)
    sizes = {"ROWS": _rows(batch), "UNITS": BACKWARD_UNITS, "WIDTH": min(WIDTH, units)}
    for wave in range(length + layers - 1):
        backward_wave[clients, blocks, layers](
            gates, cells, upstream, slopes, cell_slopes, shares[0], shares[1],
            to_hidden, to_input, wave, length, batch, H=units, **sizes, **BACKWARD,
        )  # fmt: skip


def in_clusters(gates: Tensor) -> bool:
    """Whether one launch can take gates [L, K, T, B, 4H]."""
    layers, *_, batch, wide = gates.shape
    sizes_fit = layers == 2 and wide == 4 * CLUSTER_UNITS and batch <= CLUSTER_SAMPLES
    able = gates.is_cuda and torch.cuda.get_device_capability(gates.device)[0] >= 9
    return sizes_fit and able and kernels_work("LSTM in clusters", _cluster_trial, gates.device)


@functools.cache
def _cluster(name: str, device: torch.device) -> Any:
    """A kernel of ``cluster.cu`` on one GPU, as a function of tensors and K, T, B."""
    source = files(__package__).joinpath("cluster.cu").read_text()
    with torch.cuda.device(device):
        kernel = torch.cuda._compile_kernel(source, name)
        kernel.set_shared_memory_config(SHARED)
        driver = torch.cuda._utils._get_gpu_runtime_library()
        if driver.cuFuncSetAttribute(kernel.func, CLUSTERS_ABOVE_EIGHT, 1):
            raise RuntimeError(f"no clusters of {BLOCKS} blocks")

    def run(*arguments: Tensor | int) -> None:
        clients = arguments[-3]
        with torch.cuda.device(device):
            kernel((BLOCKS * clients, 1, 1), (THREADS, 1, 1), list(arguments), SHARED)

    return run


def _cluster_trial(device: torch.device) -> None:
    """Both kernels of ``cluster.cu`` on one step of one client."""
    sizes = [(2, 1, 1, 1, 4), (2, 1, 2, 1, 1), (2, 1, 2, 1, 1), (2, 1, 4, CLUSTER_UNITS, 1)]
    gates, states, cells, weight = (
        torch.zeros(*size[:-1], size[-1] * CLUSTER_UNITS, device=device) for size in sizes
    )
    _cluster("lstm_forward", device)(gates, states, cells, weight, weight[:1], 1, 1, 1)
    upstream, slopes = states[0, :, 0].contiguous(), torch.empty_like(gates)
    _cluster("lstm_backward", device)(gates, cells, upstream, slopes, weight, weight[:1], 1, 1, 1)
    torch.cuda.synchronize(device)


def fused_lstm(
    x: Tensor,
    input_weights: Sequence[Tensor],
    hidden_weights: Sequence[Tensor],
    biases: Sequence[Tensor],
) -> Tensor:
    """Last states [K, B, H] for x [K, T, B, I], weights [K, 4H, I or H], biases [K, 4H] a layer."""
    to_hidden, (first, *others) = torch.stack(list(hidden_weights)), input_weights
    to_input = torch.stack(others) if others else to_hidden[:0]
    bias = torch.stack(list(biases))
    last: Tensor = _Stack.apply(x, first, to_input, to_hidden, bias)  # type: ignore[no-untyped-call]
    return last


def fits(x: Tensor, units: int) -> bool:
    """Whether the kernels can take a stack of ``units``: on a GPU, in float32, with Triton."""
    power_of_two = units >= BACKWARD_UNITS and units & (units - 1) == 0
    float32 = x.is_cuda and x.dtype == torch.float32
    return float32 and power_of_two and kernels_work("LSTM", _trial, x.device)


def _trial(device: torch.device) -> None:
    """Both kernels on a small stack."""
    units = BACKWARD_UNITS
    x = torch.zeros(1, 2, 1, 1, device=device, requires_grad=True)
    weights = [torch.zeros(1, 4 * units, width, device=device) for width in (1, units)]
    last = fused_lstm(x, weights, [weights[1]] * 2, [weights[0][:, :, 0]] * 2)
    torch.autograd.grad(last.sum(), [x])


def _rows(batch: int) -> int:
    return max(ROWS, 1 << (batch - 1).bit_length())
