import numpy as np
import pytest
import torch

from fedcore.models.char_lstm.cell import cell_backward, cell_forward
from fedcore.models.char_lstm.lstm_gates import gates_backward, gates_forward, sigmoid, tangent


@pytest.mark.parametrize(
    ("ours", "exact"), [(sigmoid, lambda x: 1 / (1 + np.exp(-x))), (tangent, np.tanh)]
)
def test_functions_are_exact_to_rounding_everywhere(ours, exact):
    points = np.concatenate([np.linspace(-30, 30, 4001), np.geomspace(1e-8, 1, 400)])
    points = points.astype(np.float32)
    found = np.array([ours(x) for x in points])
    expected = exact(points.astype(np.float64))
    assert np.all(np.abs(found - expected) <= 3e-7 * np.abs(expected))


def test_functions_at_their_ends():
    for x in (200.0, 3e38, np.inf):
        assert sigmoid(np.float32(x)) == tangent(np.float32(x)) == 1
        assert tangent(np.float32(-x)) == -1
        assert 0 <= sigmoid(np.float32(-x)) < 1e-37
    assert np.isnan(sigmoid(np.float32(np.nan)))
    assert np.isnan(tangent(np.float32(np.nan)))


def test_a_row_is_that_of_the_plain_cell_there_and_back():
    draw = np.random.default_rng(0)
    units = 48

    def some(size):
        return draw.normal(size=size).astype(np.float32)

    def as_rows(*arrays):
        return [torch.from_numpy(array.copy())[None] for array in arrays]

    given, sums, bias, before = some(4 * units), some(4 * units), some(4 * units), some(units)
    rows = as_rows(given + bias, sums, before)
    h, c, activated = cell_forward(*rows)
    gates, after, state = given.copy(), np.empty(units, np.float32), np.empty(units, np.float32)
    gates_forward(gates, sums, bias, before, after, state)
    pairs = [(gates, activated), (after, c), (state, h)]

    dh, later, dc = some(units), some(units), some(units)
    da, earlier = cell_backward(*as_rows(dh + later, dc), rows[2], c, activated)
    slopes, carried, slope = gates.copy(), dc.copy(), dh.copy()
    gates_backward(slope, later, carried, slopes, before, after)
    for found, expected in [*pairs, (slopes, da), (carried, earlier)]:
        assert np.allclose(found, expected[0].numpy(), atol=2e-6)
