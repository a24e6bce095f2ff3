import numpy as np
import torch

from fedcore.models.char_lstm.layer import lstm_layer
from fedcore.models.char_lstm.lstm_loops import layer_backward, layer_forward
from fedcore.models.char_lstm.lstm_tile import pack_panels, pack_turned

LENGTH, BATCH, UNITS, SYMBOLS = 5, 16, 32, 7
ROWS = LENGTH * BATCH


def some(*shape):
    draw = np.random.default_rng(len(shape) + sum(shape))
    return (0.4 * draw.normal(size=shape)).astype(np.float32)


def packed(weight):
    there = np.empty((4 * UNITS // 32, UNITS, 32), np.float32)
    back = np.empty((UNITS // 32, 4 * UNITS, 32), np.float32)
    pack_turned(weight, there)
    pack_panels(weight, back)
    return there, back


def run(symbols, table, below, input_weight, weight, bias, slopes):
    """States, da, db, the table's slopes and dx."""
    (there, back), (input_there, input_back) = packed(weight), packed(input_weight)
    gates = np.full((ROWS, 4 * UNITS), np.nan, np.float32)
    cells, states = np.full((2, ROWS + BATCH, UNITS), np.nan, np.float32)
    layer_forward(symbols, table, below, input_there, bias, there, gates, cells, states)
    blocks = np.empty((4 * UNITS // 8, ROWS, 8), np.float32)
    total, of_table, of_below = np.zeros_like(bias), np.zeros_like(table), np.zeros_like(slopes)
    layer_backward(
        gates, cells, back, slopes.copy(), blocks, total, symbols, of_table, input_back, of_below
    )
    return states, blocks.transpose(1, 0, 2).reshape(ROWS, -1), total, of_table, of_below


def plain(x, *weights, slopes):
    """States, and the gradients of input, weights and bias."""
    leaves = [torch.from_numpy(array.copy()).requires_grad_() for array in (x, *weights)]
    first = leaves[0].view(1, LENGTH, BATCH, -1)
    states = lstm_layer(first, *(leaf[None] for leaf in leaves[1:]))
    upstream = torch.from_numpy(slopes.copy()).view_as(states)
    gradients = torch.autograd.grad((states * upstream).sum(), leaves)
    return states.detach().numpy().reshape(ROWS, -1), *(g.numpy() for g in gradients)


def near(one, other):
    return np.allclose(one, other, atol=2e-5)


WEIGHT, INPUT_WEIGHT, BIAS = (
    some(4 * UNITS, UNITS),
    some(UNITS, 4 * UNITS).T.copy(),
    some(4 * UNITS),
)
SLOPES = some(ROWS, UNITS)


def test_a_layer_of_symbols_is_the_plain_one_there_and_back():
    table = some(SYMBOLS, 4 * UNITS)
    symbols = np.random.default_rng(0).integers(SYMBOLS, size=ROWS)
    # The plain layer takes indicators of symbols, and the table as its input weight.
    indicators = np.eye(SYMBOLS, dtype=np.float32)[symbols]
    expected, _, of_table, of_weight, of_bias = plain(
        indicators, table.T.copy(), WEIGHT, BIAS, slopes=SLOPES
    )
    states, da, total, found, _ = run(
        symbols, table, SLOPES[:0], INPUT_WEIGHT, WEIGHT, BIAS, SLOPES
    )
    assert near(states[BATCH:], expected)
    assert near(da.T @ states[:ROWS], of_weight)
    assert near(total, of_bias)
    assert near(found.T, of_table)


def test_a_layer_above_another_is_the_plain_one_there_and_back():
    below, table = some(UNITS, ROWS).T.copy(), np.zeros((1, 4 * UNITS), np.float32)
    expected, of_below, of_input, of_weight, of_bias = plain(
        below, INPUT_WEIGHT, WEIGHT, BIAS, slopes=SLOPES
    )
    none = np.empty(0, np.int64)
    states, da, total, found, dx = run(none, table, below, INPUT_WEIGHT, WEIGHT, BIAS, SLOPES)
    assert near(states[BATCH:], expected)
    assert near(da.T @ states[:ROWS], of_weight)
    assert near(da.T @ below, of_input)
    assert near(total, of_bias)
    assert near(dx, of_below)
    assert not found.any()
