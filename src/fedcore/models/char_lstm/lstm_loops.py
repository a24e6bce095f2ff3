"""A layer's way through time on a CPU and back, compiled: products by tiles, gates row by row.

    a_t = s_t + h_{t-1} W_hhᵀ + b          dh_{t-1} += da_t W_hh

s_t is the input's part: rows of a table for symbols, or x_t W_ihᵀ for the states x_t of the layer
below, which gets dx_t = da_t W_ih. All that belongs to a time step is done while its rows are in a
core's own cache; weight gradients are one product over all rows afterwards. Rows are those of all
time steps, batch after batch; a batch is padded to whole tiles.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedcore.compiled import compiled_in_order
from fedcore.models.char_lstm.lstm_gates import gates_backward, gates_forward
from fedcore.models.char_lstm.lstm_tile import pack_blocks, times_panels

Floats = NDArray[np.float32]
Indices = NDArray[np.int64]


@compiled_in_order
def _copy(source: Floats, target: Floats) -> None:
    for j in range(len(target)):
        target[j] = source[j]


@compiled_in_order
def _add(source: Floats, target: Floats) -> None:
    for j in range(len(target)):
        target[j] += source[j]


@compiled_in_order
def layer_forward(
    symbols: Indices, table: Floats, below: Floats, input_panels: Floats, bias: Floats,
    panels: Floats, gates: Floats, cells: Floats, states: Floats,
) -> None:  # fmt: skip
    """States of a layer, from zeros.

    Args:
        symbols: of the rows [T·B]; none where the input is that of a layer below.
        table: what each symbol adds to the gates [S, 4H].
        below: states of the layer below [T·B, H]; read where there are no symbols.
        input_panels: W_ihᵀ in panels [4H / 32, H, 32], for these.
        bias: [4H].
        panels: W_hhᵀ in panels [4H / 32, H, 32].
        gates: gets the gates after their functions [T·B, 4H].
        cells: gets the cells [(T + 1)·B, H] behind zeros for the first batch.
        states: gets the states in the same way.
    """
    rows = len(gates)
    batch = len(states) - rows
    sums = np.zeros((batch, gates.shape[1]), np.float32)
    cells[:batch] = 0
    states[:batch] = 0
    for first in range(0, rows, batch):
        last = first + batch
        if len(symbols) == 0:
            times_panels(below[first:last], input_panels, gates[first:last])
        else:
            for row in range(first, last):
                _copy(table[symbols[row]], gates[row])
        if first > 0:
            times_panels(states[first:last], panels, sums)
        for j in range(batch):
            row, later = first + j, last + j
            gates_forward(gates[row], sums[j], bias, cells[row], cells[later], states[later])


@compiled_in_order
def layer_backward(
    gates: Floats, cells: Floats, panels: Floats, slopes: Floats, blocks: Floats, total: Floats,
    symbols: Indices, table: Floats, input_panels: Floats, below: Floats,
) -> None:  # fmt: skip
    """Slopes da of a layer's gates, and what follows from each time step's alone.

    Args:
        gates: as ``layer_forward`` left them.
        cells: as it left them.
        panels: W_hh in panels [H / 32, 4H, 32].
        slopes: dh from above [T·B, H]; get dh from the steps after added.
        blocks: get da in blocks [4H / 8, T·B, 8].
        total: db [4H]; gets Σ da added.
        symbols: those of the way there.
        table: its slopes [S, 4H]; where there are symbols, da is added to their rows.
        input_panels: W_ih in panels [H / 32, 4H, 32].
        below: where there are no symbols, gets dx [T·B, H].
    """
    rows, units = slopes.shape
    batch = len(cells) - rows
    sums = np.zeros((batch, units), np.float32)
    carried = np.zeros((batch, units), np.float32)
    own = np.empty((batch, 4 * units), np.float32)
    for first in range(rows - batch, -1, -batch):
        last = first + batch
        for j in range(batch):
            row = first + j
            _copy(gates[row], own[j])
            gates_backward(slopes[row], sums[j], carried[j], own[j], cells[row], cells[last + j])
            _add(own[j], total)
            if len(symbols) > 0:
                _add(own[j], table[symbols[row]])
        pack_blocks(own, first, blocks)
        if len(symbols) == 0:
            times_panels(own, input_panels, below[first:last])
        if first > 0:
            times_panels(own, panels, sums)
