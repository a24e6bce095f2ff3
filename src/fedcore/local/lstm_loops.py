"""A layer's way through time on a CPU and back, compiled: products by tiles, gates row by row.

    a_t = s_t + h_{t-1} W_hhᵀ + b          dh_{t-1} += da_t W_hh

s_t is the input's part: rows of a table for symbols, or the product of the states below with W_ih,
made for all t at once. Rows are those of all time steps, batch after batch; a batch is padded to
whole tiles. Weight gradients are one product over all rows afterwards: the slopes of the gates are
left where the gates were.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedcore.compiled import compiled_in_order
from fedcore.local.lstm_gates import gates_backward, gates_forward
from fedcore.local.lstm_tile import pack_blocks, times_panels

Floats = NDArray[np.float32]
Indices = NDArray[np.int64]


@compiled_in_order
def layer_forward(
    table: Floats, chosen: Indices, bias: Floats, panels: Floats, gates: Floats, cells: Floats,
    states: Floats,
) -> None:  # fmt: skip
    """States of a layer, from zeros.

    Args:
        table: the input's part of the gates, for every symbol [S, 4H].
        chosen: symbols of the rows [T·B]; empty where ``gates`` holds the input's part already.
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
        if first > 0:
            times_panels(states[first : first + batch], panels, sums)
        for j in range(batch):
            row = first + j
            own = gates[row]
            if len(chosen) > 0:
                given = table[chosen[row]]
                for k in range(len(own)):
                    own[k] = given[k]
            gates_forward(own, sums[j], bias, cells[row], cells[row + batch], states[row + batch])


@compiled_in_order
def layer_backward(
    gates: Floats, cells: Floats, panels: Floats, slopes: Floats, blocks: Floats
) -> None:
    """Slopes of a layer's gates in place of the gates.

    Args:
        gates: as ``layer_forward`` left them [T·B, 4H]; get d a.
        cells: as it left them.
        panels: W_hh in panels [H / 32, 4H, 32].
        slopes: dh from above [T·B, H]; get dh from the steps after added.
        blocks: get d a once more, in blocks [4H / 8, T·B, 8].
    """
    rows, units = slopes.shape
    batch = len(cells) - rows
    sums = np.zeros((batch, units), np.float32)
    carried = np.zeros((batch, units), np.float32)
    for first in range(rows - batch, -1, -batch):
        for j in range(batch):
            row = first + j
            gates_backward(
                slopes[row], sums[j], carried[j], gates[row], cells[row], cells[row + batch]
            )
        pack_blocks(gates, first, first + batch, blocks)
        if first > 0:
            times_panels(gates[first : first + batch], panels, sums)


@compiled_in_order
def add_rows(slopes: Floats, chosen: Indices, table: Floats) -> None:
    """Add every row of ``slopes`` [n, m] to the row of ``table`` [S, m] that it was taken from."""
    for row in range(len(slopes)):
        target, own = table[chosen[row]], slopes[row]
        for j in range(len(own)):
            target[j] += own[j]


@compiled_in_order
def sum_of_rows(slopes: Floats) -> Floats:
    """Σ of the rows of [n, m]."""
    total = np.zeros(slopes.shape[1], np.float32)
    for row in range(len(slopes)):
        own = slopes[row]
        for j in range(len(own)):
            total[j] += own[j]
    return total
