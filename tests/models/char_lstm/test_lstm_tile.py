import numpy as np
import pytest

from fedcore.models.char_lstm.lstm_tile import (
    pack_blocks,
    pack_panels,
    pack_turned,
    times_panels,
    turned_times,
)


def panels_of(matrix, pack=pack_panels):
    rows, width = matrix.shape if pack is pack_panels else matrix.shape[::-1]
    panels = np.full((width // 32, rows, 32), np.nan, np.float32)
    pack(matrix, panels)
    return panels


def a_matrix(*shape):
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)


def test_panels_and_blocks_are_the_matrix_in_another_order():
    matrix = a_matrix(24, 64)
    assert np.array_equal(panels_of(matrix), matrix.reshape(24, 2, 32).transpose(1, 0, 2))
    turned = a_matrix(64, 24)
    assert np.array_equal(
        panels_of(turned, pack_turned), turned.reshape(2, 32, 24).transpose(0, 2, 1)
    )
    blocks = np.zeros((8, 24, 8), np.float32)
    for first in (0, 8, 16):
        pack_blocks(matrix[first : first + 8], first, blocks)
    assert np.array_equal(blocks, matrix.reshape(24, 8, 8).transpose(1, 0, 2))


@pytest.mark.parametrize(("rows", "depth", "width"), [(8, 1, 32), (8, 256, 64), (24, 40, 96)])
def test_products_are_those_of_numpy(rows, depth, width):
    a, b = a_matrix(rows, depth), a_matrix(depth, width)
    found = np.full((rows, width), np.nan, np.float32)
    times_panels(a, panels_of(b), found)
    assert np.allclose(found, a @ b, atol=1e-4)


def test_products_of_a_turned_matrix_are_those_of_numpy():
    a, b = a_matrix(48, 24), a_matrix(48, 64)
    blocks = np.empty((3, 48, 8), np.float32)
    pack_blocks(a, 0, blocks)
    found = np.empty((24, 64), np.float32)
    turned_times(blocks, b, found)
    assert np.allclose(found, a.T @ b, atol=1e-4)
    turned_times(blocks, b[48:], found)
    assert not found.any()
    turned_times(blocks, b[8:], found)  # the first rows of B are zeros
    assert np.allclose(found, a[8:].T @ b[8:], atol=1e-4)
