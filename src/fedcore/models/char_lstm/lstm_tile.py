"""Matrix products made of tiles of 8 rows and 32 columns that stay in registers.

    C [8, 32] = A [8, n] · B [n, 32] = Σ_k a_k b_kᵀ

One k is two loads of 16 numbers of B and eight numbers of A, each of which is multiplied with all
32: 16 fused multiply-adds into 16 of the 32 vector registers of AVX-512. So the multipliers never
wait for memory, even where a product has but the 8 rows of one batch, at which libraries lose up to
half of a core's speed (docs/performance.md). B lies in panels of 32 columns, one run of memory
each. Compilers do not find this form in loops over numbers, so the tile is written in the
compiler's own language.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from fedcore.compiled import compiled_in_order

Floats = NDArray[np.float32]

ROWS = 8  # of a tile
COLUMNS = 32  # of a tile: two vectors
LANES = 16  # numbers in a vector
BYTES = 4  # of a number


def _declare_tile() -> Callable[[int, int, int, int, int, int, int, int], None]:
    """The tile as a function that compiled code can call."""
    from llvmlite import ir
    from numba import types
    from numba.core import cgutils
    from numba.extending import intrinsic

    number, word = ir.FloatType(), ir.IntType(64)
    vector = ir.VectorType(number, LANES)
    lanes = ir.VectorType(ir.IntType(32), LANES)
    parts = range(COLUMNS // LANES)

    def vector_at(builder: Any, start: Any, offset: int) -> Any:
        return builder.bitcast(builder.gep(start, [word(offset)]), vector.as_pointer())

    def load(builder: Any, address: Any) -> Any:
        value = builder.load(address)
        value.align = BYTES
        return value

    def in_all_lanes(builder: Any, value: Any) -> Any:
        nothing = ir.Constant(vector, ir.Undefined)
        first = builder.insert_element(nothing, value, ir.IntType(32)(0))
        return builder.shuffle_vector(first, nothing, ir.Constant(lanes, [0] * LANES))

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        a, a_row, a_step, b, b_step, c, c_row, depth = arguments
        name = f"llvm.fma.v{LANES}f32"
        kind = ir.FunctionType(vector, [vector] * 3)
        declare: Any = cgutils.get_or_insert_function
        multiply_add = declare(builder.module, kind, name)
        a, b, c = (builder.inttoptr(address, number.as_pointer()) for address in (a, b, c))
        a_rows = [builder.gep(a, [builder.mul(a_row, word(row))]) for row in range(ROWS)]
        before = builder.basic_block
        body, after = (builder.append_basic_block(name) for name in ("tile", "tile_end"))
        builder.branch(body)
        builder.position_at_end(body)
        k = builder.phi(word)
        sums = [[builder.phi(vector) for _ in parts] for _ in range(ROWS)]
        b_row = builder.gep(b, [builder.mul(k, b_step)])
        b_parts = [load(builder, vector_at(builder, b_row, LANES * part)) for part in parts]
        a_offset = builder.mul(k, a_step)
        moved = []
        for row in range(ROWS):
            factor = load(builder, builder.gep(a_rows[row], [a_offset]))
            factor = in_all_lanes(builder, factor)
            pairs = zip(b_parts, sums[row], strict=True)
            moved.append([builder.call(multiply_add, [factor, *pair]) for pair in pairs])
        following = builder.add(k, word(1))
        k.add_incoming(word(0), before)
        k.add_incoming(following, body)
        zeros = ir.Constant(vector, [0.0] * LANES)
        for row in range(ROWS):
            for own, later in zip(sums[row], moved[row], strict=True):
                own.add_incoming(zeros, before)
                own.add_incoming(later, body)
        builder.cbranch(builder.icmp_signed("<", following, depth), body, after)
        builder.position_at_end(after)
        for row in range(ROWS):
            target = builder.gep(c, [builder.mul(c_row, word(row))])
            for part in parts:
                place = vector_at(builder, target, LANES * part)
                builder.store(moved[row][part], place).align = BYTES
        return context.get_dummy_value()

    def tile(
        typing: Any, a: Any, a_row: Any, a_step: Any, b: Any, b_step: Any, c: Any, c_row: Any,
        depth: Any,
    ) -> Any:  # fmt: skip
        return types.void(*[types.intp] * 8), emit

    return cast("Callable[[int, int, int, int, int, int, int, int], None]", intrinsic(tile))


def _declare_copy() -> Callable[[int, int], None]:
    """Eight numbers from one address to another, as one vector: loops over eight stay scalar."""
    from llvmlite import ir
    from numba import types
    from numba.extending import intrinsic

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        eight = ir.VectorType(ir.FloatType(), ROWS).as_pointer()
        source, target = (builder.inttoptr(address, eight) for address in arguments)
        value = builder.load(source)
        value.align = BYTES
        builder.store(value, target).align = BYTES
        return context.get_dummy_value()

    def copy(typing: Any, source: Any, target: Any) -> Any:
        return types.void(types.intp, types.intp), emit

    return cast("Callable[[int, int], None]", intrinsic(copy))


def _declare_turn() -> Callable[[int, int, int, int], None]:
    """Eight rows of eight numbers, transposed on their way from one address to another.

    Off-diagonal blocks of 1, 2 and 4 numbers trade places, each time in all pairs of rows.
    """
    from llvmlite import ir
    from numba import types
    from numba.extending import intrinsic

    word, half = ir.IntType(64), ir.IntType(32)
    number, eight = ir.FloatType(), ir.VectorType(ir.FloatType(), ROWS)

    def traded(builder: Any, one: Any, other: Any, mask: list[int]) -> Any:
        lanes = ir.Constant(ir.VectorType(half, ROWS), mask)
        return builder.shuffle_vector(one, other, lanes)

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        def place(start: Any, step: Any, row: int) -> Any:
            address = builder.gep(start, [builder.mul(step, word(row))])
            return builder.bitcast(address, eight.as_pointer())

        source, source_row, target, target_row = arguments
        source, target = (builder.inttoptr(s, number.as_pointer()) for s in (source, target))
        rows = [builder.load(place(source, source_row, row)) for row in range(ROWS)]
        for row in rows:
            row.align = BYTES
        for size in (1, 2, 4):
            upper = [n if not n & size else ROWS + n - size for n in range(ROWS)]
            lower = [n + size if not n & size else ROWS + n for n in range(ROWS)]
            for row in range(ROWS):
                if not row & size:
                    one, other = rows[row], rows[row + size]
                    rows[row] = traded(builder, one, other, upper)
                    rows[row + size] = traded(builder, one, other, lower)
        for row in range(ROWS):
            builder.store(rows[row], place(target, target_row, row)).align = BYTES
        return context.get_dummy_value()

    def turn(typing: Any, source: Any, source_row: Any, target: Any, target_row: Any) -> Any:
        return types.void(*[types.intp] * 4), emit

    return cast("Callable[[int, int, int, int], None]", intrinsic(turn))


# Addresses of A, B and C are in bytes; from row to row and from k to k it is numbers.
_tile = _declare_tile()
_copy_eight = _declare_copy()
_turn_eight = _declare_turn()


@compiled_in_order
def times_panels(rows: Floats, panels: Floats, out: Floats) -> None:
    """``out`` [n, 32 P] = ``rows`` [n, k] times a matrix in ``panels`` [P, k, 32]; n is 8, 16, ...

    Args:
        rows: A, row by row.
        panels: B, as ``pack_panels`` or ``pack_turned`` leaves it.
        out: C, row by row; what it held is overwritten.
    """
    total, depth = rows.shape
    width = out.shape[1]
    a, b, c = rows.ctypes.data, panels.ctypes.data, out.ctypes.data
    for panel in range(panels.shape[0]):
        start = b + panel * depth * COLUMNS * BYTES
        for row in range(0, total, ROWS):
            corner = c + (row * width + panel * COLUMNS) * BYTES
            _tile(a + row * depth * BYTES, depth, 1, start, COLUMNS, corner, width, depth)


@compiled_in_order
def turned_times(blocks: Floats, matrix: Floats, out: Floats) -> None:
    """``out`` [8 J, m] = Aᵀ B for A in ``blocks`` [J, n, 8] and ``matrix`` B [n' ≤ n, m].

    Of A the last n' rows are taken: those of B that are missing are known to be zeros.

    B is walked 32 columns at a time for every block; it is small enough for a core's own cache,
    which needs no panels.
    """
    depth, width = matrix.shape
    total = blocks.shape[1]
    if depth == 0:
        out[:] = 0
        return
    a, b, c = blocks.ctypes.data, matrix.ctypes.data, out.ctypes.data
    for block in range(blocks.shape[0]):
        start = a + (block * total + total - depth) * ROWS * BYTES
        for column in range(0, width, COLUMNS):
            corner = c + (block * ROWS * width + column) * BYTES
            _tile(start, 1, ROWS, b + column * BYTES, width, corner, width, depth)


@compiled_in_order
def pack_panels(matrix: Floats, panels: Floats) -> None:
    """Write panels [P, n, 32] of a matrix [n, 32 P]."""
    total, width = matrix.shape
    source, target = matrix.ctypes.data, panels.ctypes.data
    for start in range(0, width, COLUMNS):
        for row in range(total):
            for column in range(start, start + COLUMNS, ROWS):
                _copy_eight(source + (row * width + column) * BYTES, target)
                target += ROWS * BYTES


@compiled_in_order
def pack_blocks(matrix: Floats, first: int, blocks: Floats) -> None:
    """Write a matrix [m, 8 J] into blocks [J, n, 8], as rows ``first`` to ``first`` + m of n."""
    count, width = matrix.shape
    total = blocks.shape[1]
    source, target = matrix.ctypes.data, blocks.ctypes.data
    for block in range(width // ROWS):
        place = target + (block * total + first) * ROWS * BYTES
        for row in range(count):
            piece = source + (row * width + block * ROWS) * BYTES
            _copy_eight(piece, place + row * ROWS * BYTES)


@compiled_in_order
def pack_turned(matrix: Floats, panels: Floats) -> None:
    """Write panels [P, n, 32] of the transpose of a matrix [32 P, n], for n of whole eights."""
    width, total = matrix.shape
    source, target = matrix.ctypes.data, panels.ctypes.data
    for start in range(0, width, COLUMNS):
        for row in range(0, total, ROWS):
            corner = target + (start * total + row * COLUMNS) * BYTES
            for column in range(0, COLUMNS, ROWS):
                piece = source + ((start + column) * total + row) * BYTES
                _turn_eight(piece, total, corner + column * BYTES, COLUMNS)
