import numpy as np
import torch

from fedcore.local.lstm_layer import lstm_layer
from fedcore.local.lstm_loops import add_rows, layer_backward, layer_forward, sum_of_rows
from fedcore.local.lstm_tile import pack_panels, pack_turned

LENGTH, BATCH, UNITS, SYMBOLS = 5, 16, 32, 7


def test_a_layer_is_the_plain_one_there_and_back():
    draw = np.random.default_rng(0)

    def some(*shape):
        return (0.4 * draw.normal(size=shape)).astype(np.float32)

    rows = LENGTH * BATCH
    there = np.empty((4 * UNITS // 32, UNITS, 32), np.float32)
    back = np.empty((UNITS // 32, 4 * UNITS, 32), np.float32)
    table, weight, bias = some(SYMBOLS, 4 * UNITS), some(4 * UNITS, UNITS), some(4 * UNITS)
    chosen, slopes = draw.integers(SYMBOLS, size=rows), some(rows, UNITS)
    # The plain layer takes indicators of symbols, and the table as its input weight.
    x = torch.eye(SYMBOLS)[torch.from_numpy(chosen)].view(1, LENGTH, BATCH, SYMBOLS)
    leaves = [torch.from_numpy(a.copy()).requires_grad_() for a in (table, weight, bias)]
    expected = lstm_layer(x, leaves[0].T[None], leaves[1][None], leaves[2][None])
    upstream = torch.from_numpy(slopes.copy()).view_as(expected)
    of_table, of_weight, of_bias = torch.autograd.grad((expected * upstream).sum(), leaves)

    pack_turned(weight, there)
    pack_panels(weight, back)
    given = table[chosen]
    for symbols, gates in ((chosen, np.empty_like(given)), (chosen[:0], given.copy())):
        cells, states = np.full((2, rows + BATCH, UNITS), np.nan, np.float32)
        layer_forward(table, symbols, bias, there, gates, cells, states)
        assert np.allclose(states[BATCH:], expected.detach().reshape(rows, -1), atol=1e-6)
        blocks = np.empty((4 * UNITS // 8, rows, 8), np.float32)
        layer_backward(gates, cells, back, slopes.copy(), blocks)
        assert np.array_equal(blocks.transpose(1, 0, 2).reshape(rows, -1), gates)
        assert np.allclose(gates.T @ states[:rows], of_weight, atol=1e-5)
        assert np.allclose(sum_of_rows(gates), of_bias, atol=1e-5)
        gathered = np.zeros_like(table)
        add_rows(gates, chosen, gathered)
        assert np.allclose(gathered, of_table, atol=1e-5)
