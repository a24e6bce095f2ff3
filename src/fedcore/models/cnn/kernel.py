"""Two Triton kernels for convolutions of many clients that keep the size of their images.

Pixels of all images of a client are rows; a neighbour that lies outside of its image counts zero.
Products are taken in three TF32 passes on tensor cores, which is float32 to the last bits.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _neighbours(
    x, rows, known, tap, channel, there,
    H: tl.constexpr, W: tl.constexpr, C: tl.constexpr, SIZE: tl.constexpr,
):  # fmt: skip
    """Of images x [B, H, W, C]: for every row its neighbour at a tap, one channel each."""
    down, right = tap // SIZE - SIZE // 2, tap % SIZE - SIZE // 2
    height, width = (rows // W % H)[:, None] + down[None, :], (rows % W)[:, None] + right[None, :]
    inside = (height >= 0) & (height < H) & (width >= 0) & (width < W)
    at = (rows[:, None] + (down * W + right)[None, :]) * C + channel[None, :]
    return tl.load(x + at, mask=inside & known[:, None] & there[None, :], other=0.0)


@triton.jit
def correlate(
    x, kernel, bias, y,
    PIXELS: tl.constexpr, H: tl.constexpr, W: tl.constexpr, C: tl.constexpr, OUT: tl.constexpr,
    SIZE: tl.constexpr, TURNED: tl.constexpr, ROWS: tl.constexpr, DEPTH: tl.constexpr,
    HOW: tl.constexpr,
):  # fmt: skip
    """y [K, PIXELS, OUT] = patches(x) · kernel + bias, for kernels [K, taps, C, OUT].

    ``TURNED``: with the kernel [K, taps, OUT, C] turned around, as slopes of an input have it. A
    program owns ROWS pixels of a client and takes DEPTH terms at a time.
    """
    client = tl.program_id(1).to(tl.int64)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    maps, within = tl.arange(0, OUT), tl.arange(0, DEPTH)
    x += client * PIXELS * C
    kernel += client * SIZE * SIZE * C * OUT
    total = tl.zeros((ROWS, OUT), tl.float32)
    if bias is not None:
        total += tl.load(bias + client * OUT + maps)[None, :]
    for first in range(0, SIZE * SIZE * C, DEPTH):
        depth = first + within
        there = depth < SIZE * SIZE * C
        # Where all terms are of one tap, whether it is inside is asked once a row.
        tap = tl.full((1,), first // C, tl.int32) if C % DEPTH == 0 else depth // C
        own = _neighbours(x, row, row < PIXELS, tap, depth % C, there, H, W, C, SIZE)
        if TURNED:
            at = ((SIZE * SIZE - 1 - tap) * C * OUT + depth % C)[:, None] + maps[None, :] * C
        else:
            at = depth[:, None] * OUT + maps[None, :]
        weight = tl.load(kernel + at, mask=there[:, None], other=0.0)
        total = tl.dot(own, weight, total, input_precision=HOW)
    at = (client * PIXELS + row)[:, None] * OUT + maps[None, :]
    tl.store(y + at, total, mask=(row < PIXELS)[:, None])


@triton.jit
def weigh(
    x, slopes, weights,
    PIXELS: tl.constexpr, H: tl.constexpr, W: tl.constexpr, C: tl.constexpr, OUT: tl.constexpr,
    SIZE: tl.constexpr, SHARE: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr,
    HOW: tl.constexpr,
):  # fmt: skip
    """weights [parts, K, OUT, C, taps] = slopesᵀ · patches(x), for slopes [K, PIXELS, OUT].

    A program owns COLUMNS of a client's taps and channels, in a part of SHARE pixels, and takes
    DEPTH of them at a time.
    """
    client = tl.program_id(1).to(tl.int64)
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    tap, channel, there = column // C, column % C, column < SIZE * SIZE * C
    maps, within = tl.arange(0, OUT), tl.arange(0, DEPTH)
    x += client * PIXELS * C
    slopes += client * PIXELS * OUT
    total = tl.zeros((OUT, COLUMNS), tl.float32)
    for first in range(0, SHARE, DEPTH):
        row = tl.program_id(2) * SHARE + first + within
        known = row < PIXELS
        own = _neighbours(x, row, known, tap, channel, there, H, W, C, SIZE)
        slope = tl.load(slopes + row[None, :] * OUT + maps[:, None], mask=known[None, :], other=0.0)
        total = tl.dot(slope, own, total, input_precision=HOW)
    client += tl.program_id(2) * tl.num_programs(1)
    at = ((client * OUT + maps)[:, None] * C + channel[None, :]) * SIZE * SIZE + tap[None, :]
    tl.store(weights + at, total, mask=there[None, :])
