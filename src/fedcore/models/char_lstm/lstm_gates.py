"""The gates of one time step on a CPU, compiled: the equations of ``lstm_cell``, row by row.

Both functions of the gates come from one exponential. With e = exp(y) - 1,

    sigmoid(x) = 1 / (2 + e),  y = -x        tanh(x) = -e / (2 + e),  y = -2x

and exp(y) - 1 = 2ⁿ (exp(r) - 1) + 2ⁿ - 1 for n = round(y / ln 2), r = y - n ln 2: a polynomial of
degree 7 where |r| ≤ ln 2 / 2, with nothing that cancels near zero. Loops name few arrays each,
because a compiler that cannot prove arrays to be apart takes only so many into vectors.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from fedcore.compiled import compiled_in_order

Floats = NDArray[np.float32]

_ONE, _TWO, _HALF = np.float32(1), np.float32(2), np.float32(0.5)
_LIMIT = np.float32(87)  # beyond it exp leaves float32, and both functions have ended long before
_PER_LN2 = np.float32(1 / math.log(2))
# Added to n it leaves n in the last bits of the sum, rounded to the nearest whole number.
_ROUNDING = np.float32(1.5 * 2**23)
# ln 2 as a number of few bits, whose products with n are exact, and the rest.
_LN2 = np.float32(round(math.log(2) * 2**15) / 2**15)
_LN2_REST = np.float32(math.log(2) - float(_LN2))
_C3, _C4, _C5, _C6, _C7 = (np.float32(1 / math.factorial(k)) for k in range(3, 8))


def _declare_power_of_two() -> Callable[[np.float32], np.float32]:
    """2ⁿ from n + 1.5·2²³, by moving the sum's last bits to where a number has its exponent."""
    from llvmlite import ir
    from numba import types
    from numba.extending import intrinsic

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        word = ir.IntType(32)
        bits = builder.shl(builder.bitcast(arguments[0], word), word(23))
        return builder.bitcast(builder.add(bits, word(127 << 23)), ir.FloatType())

    def power_of_two(typing: Any, rounded: Any) -> Any:
        return types.float32(types.float32), emit

    return cast("Callable[[np.float32], np.float32]", intrinsic(power_of_two))


_power_of_two = _declare_power_of_two()


@compiled_in_order
def _exponential_less_one(y: np.float32) -> np.float32:
    # Written so that NaN is neither above nor below, and stays.
    y = _LIMIT if y > _LIMIT else y
    y = -_LIMIT if y < -_LIMIT else y
    rounded = y * _PER_LN2 + _ROUNDING
    n = rounded - _ROUNDING
    r = (y - n * _LN2) - n * _LN2_REST
    series = _C3 + r * (_C4 + r * (_C5 + r * (_C6 + r * _C7)))
    series = r + r * r * (_HALF + r * series)
    scale = _power_of_two(rounded)
    return scale * series + (scale - _ONE)


@compiled_in_order
def sigmoid(x: np.float32) -> np.float32:
    """1 / (1 + exp(-x))."""
    return _ONE / (_TWO + _exponential_less_one(-x))


@compiled_in_order
def tangent(x: np.float32) -> np.float32:
    """tanh(x)."""
    e = _exponential_less_one(-_TWO * x)
    return -e / (_TWO + e)


@compiled_in_order
def _sigmoids(part: Floats, sums: Floats, bias: Floats) -> None:
    for j in range(len(part)):
        part[j] = sigmoid(part[j] + sums[j] + bias[j])


@compiled_in_order
def _tangents(part: Floats, sums: Floats, bias: Floats) -> None:
    for j in range(len(part)):
        part[j] = tangent(part[j] + sums[j] + bias[j])


@compiled_in_order
def gates_forward(
    gates: Floats, sums: Floats, bias: Floats, before: Floats, after: Floats, state: Floats
) -> None:
    """One row of a time step.

    Args:
        gates: the input's part of the gates before their functions [4H]; gets them after.
        sums: the earlier state's part [4H].
        bias: [4H].
        before: cells before the step [H].
        after: gets the cells after it [H].
        state: gets h [H].
    """
    units = len(state)
    two, three = 2 * units, 3 * units
    i, f, g, o = gates[:units], gates[units:two], gates[two:three], gates[three:]
    _sigmoids(gates[:two], sums[:two], bias[:two])
    _tangents(g, sums[two:three], bias[two:three])
    _sigmoids(o, sums[three:], bias[three:])
    for u in range(units):
        after[u] = f[u] * before[u]
    for u in range(units):
        after[u] += i[u] * g[u]
    for u in range(units):
        state[u] = o[u] * tangent(after[u])


@compiled_in_order
def gates_backward(
    slope: Floats, sums: Floats, carried: Floats, gates: Floats, before: Floats, after: Floats
) -> None:
    """One row of a time step on the way back.

    Args:
        slope: dh from above [H]; gets ``sums`` added.
        sums: dh from the step after [H].
        carried: dc after the step [H]; gets dc before it.
        gates: the gates after their functions [4H]; gets their slopes before them.
        before: cells before the step [H].
        after: cells after it [H].
    """
    units = len(slope)
    i, f, g = gates[:units], gates[units : 2 * units], gates[2 * units : 3 * units]
    o = gates[3 * units :]
    for u in range(units):
        slope[u] += sums[u]
    for u in range(units):
        squashed = tangent(after[u])
        carried[u] += slope[u] * o[u] * (_ONE - squashed * squashed)
        o[u] = slope[u] * squashed * o[u] * (_ONE - o[u])
    for u in range(units):
        own = i[u]
        i[u] = carried[u] * g[u] * own * (_ONE - own)
        g[u] = carried[u] * own * (_ONE - g[u] * g[u])
    for u in range(units):
        own = f[u]
        f[u] = carried[u] * before[u] * own * (_ONE - own)
        carried[u] *= own
