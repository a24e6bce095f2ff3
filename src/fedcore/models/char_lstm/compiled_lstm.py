"""The character LSTM of one client on one core, compiled; ``forms.by_module`` is the plain twin.

What a symbol contributes to the first layer's gates is a row of a table [S, 4H] = E W_ihᵀ, made
once per step. Small products around the layers (the table, the scores) are left to autograd; the
layers are one function with its own way back (``lstm_loops``), at what a core can do.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd import Function

from fedcore.compiled import have_numba
from fedcore.models.char_lstm import LAYERS
from fedcore.stacked import Stack

Floats = NDArray[np.float32]

log = logging.getLogger(__name__)

ROWS, COLUMNS = 8, 32  # of a tile: what batches are padded to, and what units are a multiple of
PADDING = 0.25  # of a batch, at most: the library pads none


class _Stack(Function):
    @staticmethod
    def forward(ctx: Any, table: Tensor, symbols: Tensor, *weights: Tensor) -> Tensor:
        from fedcore.models.char_lstm.lstm_loops import layer_forward
        from fedcore.models.char_lstm.lstm_tile import pack_turned

        batch, length = symbols.shape
        padded = -(-batch // ROWS) * ROWS
        chosen = torch.zeros(length, padded, dtype=torch.int64)
        chosen[:, :batch] = symbols.t()
        biases, to_hidden, to_input = _split([_array(weight) for weight in weights])
        rows, units = length * padded, to_hidden[0].shape[1]
        panels, input_panels = (_room(4 * units // COLUMNS, units, COLUMNS) for _ in range(2))
        read, below = chosen.flatten().numpy(), _room(0, units)
        layers: list[tuple[Floats, Floats, Floats]] = []
        for layer in range(LAYERS):
            pack_turned(to_hidden[layer], panels)
            if layer > 0:
                pack_turned(to_input[layer - 1], input_panels)
                read, below = read[:0], layers[-1][2][padded:]
            gates = _room(rows, 4 * units)
            cells, states = _room(rows + padded, units), _room(rows + padded, units)
            layer_forward(
                read, _array(table), below, input_panels, biases[layer], panels,
                gates, cells, states,
            )  # fmt: skip
            layers.append((gates, cells, states))
        ctx.save_for_backward(table, *weights)
        ctx.kept = layers, chosen.flatten().numpy(), batch
        return torch.from_numpy(layers[-1][2][rows : rows + batch].copy())

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        from fedcore.models.char_lstm.lstm_loops import layer_backward
        from fedcore.models.char_lstm.lstm_tile import pack_panels, turned_times

        layers, chosen, batch = ctx.kept
        table, *weights = ctx.saved_tensors
        found = [torch.empty_like(weight) for weight in (table, *weights)]
        of_table, *of_weights = (gradient.numpy() for gradient in found)
        of_biases, of_hidden, of_input = _split(of_weights)
        _, to_hidden, to_input = _split([_array(weight) for weight in weights])
        rows, units = len(chosen), to_hidden[0].shape[1]
        padded = len(layers[0][2]) - rows
        panels, input_panels = (_room(units // COLUMNS, 4 * units, COLUMNS) for _ in range(2))
        blocks = _room(4 * units // ROWS, rows, ROWS)
        slopes, below = _room(rows, units), _room(rows, units)
        slopes[:], of_table[:] = 0, 0
        slopes[rows - padded : rows - padded + batch] = _array(gradients[0])
        for layer in range(LAYERS - 1, -1, -1):
            gates, cells, states = layers[layer]
            pack_panels(to_hidden[layer], panels)
            if layer > 0:
                pack_panels(to_input[layer - 1], input_panels)
            of_biases[layer][:] = 0
            layer_backward(
                gates, cells, panels, slopes, blocks, of_biases[layer],
                chosen if layer == 0 else chosen[:0], of_table, input_panels, below,
            )  # fmt: skip
            turned_times(blocks, states[padded:rows], of_hidden[layer])
            if layer > 0:
                turned_times(blocks, layers[layer - 1][2][padded:], of_input[layer - 1])
            slopes, below = below, slopes
        return found[0], None, *found[1:]


def _room(*shape: int) -> Floats:
    """Memory of PyTorch's, which begins where a vector register may: NumPy's need not."""
    array: Floats = torch.empty(shape, dtype=torch.float32).numpy()
    return array


def _array(tensor: Tensor) -> Floats:
    array: Floats = tensor.detach().contiguous().numpy()
    return array


def _split(weights: list[Floats]) -> tuple[list[Floats], list[Floats], list[Floats]]:
    """Biases and W_hh of every layer, W_ih of all but the first."""
    return weights[:LAYERS], weights[LAYERS : 2 * LAYERS], weights[2 * LAYERS :]


def lstm_states(
    table: Tensor, symbols: Tensor, biases: Sequence[Tensor], weights: Sequence[Tensor]
) -> Tensor:
    """Last states [B, H] of the last layer, from zeros.

    Args:
        table: what each symbol adds to the first layer's gates [S, 4H], in PyTorch's order.
        symbols: windows [B, length].
        biases: of each layer [4H].
        weights: W_hh [4H, H] of each layer, then W_ih [4H, H] of all but the first.
    """
    lowest, highest = torch.aminmax(symbols)
    if lowest < 0 or highest >= len(table):  # compiled code would read, and write, beside it
        raise IndexError(
            f"symbols must be 0 to {len(table) - 1}, got {int(lowest)} to {int(highest)}"
        )
    last: Tensor = _Stack.apply(  # type: ignore[no-untyped-call]
        table, symbols, *biases, *weights
    )
    return last


def compiled_lstm(params: Stack, x: Tensor, probe: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """The form of ``CharacterLstm`` for windows [1, B, length] of one client."""
    own = {name: value.squeeze(0) for name, value in params.items()}
    layers = range(LAYERS)
    # Written as rows: the library's product for the gradient of a transpose is six times slower.
    table = own["embedding.weight"] @ own["lstm.weight_ih_l0"].t().contiguous()
    # PyTorch's LSTM has two biases where one would do; both get the same gradient.
    biases = [own[f"lstm.bias_ih_l{layer}"] + own[f"lstm.bias_hh_l{layer}"] for layer in layers]
    to_hidden = [own[f"lstm.weight_hh_l{layer}"] for layer in layers]
    to_input = [own[f"lstm.weight_ih_l{layer}"] for layer in layers[1:]]
    last = lstm_states(table, x[0], biases, [*to_hidden, *to_input])
    scores = torch.addmm(own["head.bias"], last, own["head.weight"].t())[None]
    return scores if probe is None else scores + probe, last[None]


def fits(params: Stack, x: Tensor) -> bool:
    """Whether the compiled layers can take these windows [1, B, length] of one client."""
    weight = params["lstm.weight_hh_l0"]
    batch = x.shape[1]
    idle = -batch % ROWS
    return (
        weight.device.type == "cpu"
        and weight.dtype == torch.float32
        and weight.shape[2] % COLUMNS == 0
        and idle <= PADDING * batch
        and _works()
    )


@functools.cache
def _works() -> bool:
    """Whether this machine can run the tiles; where not, say so once."""
    if not have_numba():
        log.info("the LSTM takes PyTorch's kernel: numba is not installed")
        return False
    try:
        return _has_wide_registers() and _trial()
    except Exception as error:  # compilers fail in many ways, and none of them is the user's fault
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        log.warning("the LSTM takes PyTorch's kernel: %s", reason)
        return False


def _has_wide_registers() -> bool:
    from llvmlite import binding

    found = bool(binding.get_host_cpu_features().get("avx512f", False))
    if not found:
        log.info("the LSTM takes PyTorch's kernel: this processor has no AVX-512")
    return found


def _trial() -> bool:
    """There and back on a small stack: compiles everything, or fails to."""
    table = torch.zeros(1, 4 * COLUMNS, requires_grad=True)
    weights = [torch.zeros(4 * COLUMNS, COLUMNS)] * (2 * LAYERS - 1)
    symbols = torch.zeros(1, 2, dtype=torch.int64)
    with torch.enable_grad():
        last = lstm_states(table, symbols, [torch.zeros(4 * COLUMNS)] * LAYERS, weights)
        torch.autograd.grad(last.sum(), [table])
    return True
