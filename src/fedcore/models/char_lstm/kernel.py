"""Two Triton kernels for a stack of LSTM layers of many clients: one launch per wave.

All (layer l, time t) on a diagonal can be computed at once: wave s holds time s - l of every layer
forward, and the mirror of that back; T steps of L layers are T + L - 1 launches. A program owns
some units of one layer of one client. Forward it gathers its gates from all states of the step
before. Backward it scatters its share of the slopes dh of all units of the step before, which their
owners sum in a fixed order in the next wave:

    a_t = x_t W_ihᵀ + b + h_{t-1} W_hhᵀ          dh_{t-1} = da_t W_hh,   dx_t = da_t W_ih

Products are taken in three TF32 passes on tensor cores, which is float32 to the last bits.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _sigmoid(x):
    shrunk = tl.exp(-tl.abs(x))
    return tl.where(x < 0, shrunk, 1.0) / (1 + shrunk)


@triton.jit
def _tanh(x):
    shrunk = tl.exp(-2 * tl.abs(x))
    size = (1 - shrunk) / (1 + shrunk)
    return tl.where(x < 0, -size, size)


@triton.jit
def _gathered(
    total, states, weight, known, rows, wide,
    H: tl.constexpr, DEPTH: tl.constexpr, HOW: tl.constexpr,
):  # fmt: skip
    """``total`` [rows, wide] + states [rows, H] times weight [wide, H]ᵀ; DEPTH divides H."""
    for first in range(0, H, DEPTH):
        depth = first + tl.arange(0, DEPTH)
        own = tl.load(states + rows[:, None] * H + depth[None, :], mask=known, other=0.0)
        turned = tl.load(weight + wide[None, :] * H + depth[:, None])
        total = tl.dot(own, turned, total, input_precision=HOW)
    return total


@triton.jit(do_not_specialize=["wave"])
def forward_wave(
    gates, states, cells, hidden_weight, input_weight, wave, length, batch,
    H: tl.constexpr, ROWS: tl.constexpr, UNITS: tl.constexpr, DEPTH: tl.constexpr,
    HOW: tl.constexpr,
):  # fmt: skip
    """One wave forward, for L layers of H units, K clients, T times, B of at most ROWS sequences.

    ``gates`` [L, K, T, B, 4H] hold what does not wait, and take the gates after their functions;
    ``states`` and ``cells`` [L, K, T + 1, B, H] are given at time 0. Weights are [L, K, 4H, H], and
    [L - 1, K, 4H, H] of inputs. A program owns UNITS units and takes DEPTH terms at a time.
    """
    client, layer = tl.program_id(0).to(tl.int64), tl.program_id(2)
    clients = tl.num_programs(0)
    time = wave - layer
    if (time >= 0) & (time < length):
        place = layer * clients + client
        rows = tl.arange(0, ROWS)
        # A unit's four gates side by side, so that they can be told apart by splitting
        column = tl.arange(0, 4 * UNITS)
        wide = (column % 4) * H + tl.program_id(1) * UNITS + column // 4
        known = (rows < batch)[:, None]
        own_gates = gates + (place * length + time) * batch * 4 * H
        at_gates = own_gates + rows[:, None] * 4 * H + wide[None, :]
        total = tl.load(at_gates, mask=known, other=0.0)
        before = (place * (length + 1) + time) * batch * H
        weight = hidden_weight + place * 4 * H * H
        total = _gathered(total, states + before, weight, known, rows, wide, H, DEPTH, HOW)
        if layer > 0:
            lower = place - clients
            below = states + (lower * (length + 1) + time + 1) * batch * H
            weight = input_weight + lower * 4 * H * H
            total = _gathered(total, below, weight, known, rows, wide, H, DEPTH, HOW)
        is_cell_input = (column % 4 == 2)[None, :]
        active = tl.where(is_cell_input, _tanh(total), _sigmoid(total))
        tl.store(at_gates, active, mask=known)
        even, odd = tl.split(tl.reshape(active, (ROWS, UNITS, 2, 2)))
        gate_in, candidate = tl.split(even)
        gate_forget, gate_out = tl.split(odd)
        units = tl.program_id(1) * UNITS + tl.arange(0, UNITS)
        at = before + rows[:, None] * H + units[None, :]
        cell = gate_forget * tl.load(cells + at, mask=known, other=0.0) + gate_in * candidate
        tl.store(cells + at + batch * H, cell, mask=known)
        tl.store(states + at + batch * H, gate_out * _tanh(cell), mask=known)


@triton.jit
def _collected(shares, rows, batch, units, H: tl.constexpr, BLOCKS: tl.constexpr):
    """The sum over programs of their shares [BLOCKS, B, H] of some units' slopes."""
    block = tl.arange(0, BLOCKS)
    at = (block[:, None, None] * batch + rows[None, :, None]) * H + units[None, None, :]
    return tl.sum(tl.load(shares + at, mask=(rows < batch)[None, :, None], other=0.0), axis=0)


@triton.jit
def _scattered(
    shares, weight, slope_in, slope_forget, slope_candidate, slope_out, rows, batch, units,
    H: tl.constexpr, WIDTH: tl.constexpr, HOW: tl.constexpr,
):  # fmt: skip
    """Write this program's share [B, H]: its slopes times its rows of a weight [4H, H]."""
    for first in range(0, H, WIDTH):
        column = first + tl.arange(0, WIDTH)
        at = weight + units[:, None] * H + column[None, :]
        total = tl.dot(slope_in, tl.load(at), input_precision=HOW)
        total = tl.dot(slope_forget, tl.load(at + H * H), total, input_precision=HOW)
        total = tl.dot(slope_candidate, tl.load(at + 2 * H * H), total, input_precision=HOW)
        total = tl.dot(slope_out, tl.load(at + 3 * H * H), total, input_precision=HOW)
        tl.store(shares + rows[:, None] * H + column[None, :], total, mask=(rows < batch)[:, None])


@triton.jit(do_not_specialize=["wave"])
def backward_wave(
    gates, cells, upstream, slopes, cell_slopes, hidden_shares, input_shares,
    hidden_weight, input_weight, wave, length, batch,
    H: tl.constexpr, ROWS: tl.constexpr, UNITS: tl.constexpr, WIDTH: tl.constexpr,
    HOW: tl.constexpr,
):  # fmt: skip
    """One wave back, from slopes ``upstream`` [K, B, H] of the last state of the last layer.

    Written are ``slopes`` [L, K, T, B, 4H], da; ``cell_slopes`` [L, K, B, H] are dc of the step
    after. Shares [2, L, K, H / UNITS, B, H] are read from one half and written to the other.
    """
    client, layer = tl.program_id(0).to(tl.int64), tl.program_id(2)
    clients, layers = tl.num_programs(0), tl.num_programs(2)
    time = length - 1 - (wave - (layers - 1 - layer))
    if (time >= 0) & (time < length):
        BLOCKS: tl.constexpr = H // UNITS
        place = layer * clients + client
        share = BLOCKS * batch * H
        read, write = (wave + 1) % 2 * layers * clients, wave % 2 * layers * clients
        rows = tl.arange(0, ROWS)
        units = tl.program_id(1) * UNITS + tl.arange(0, UNITS)
        known = (rows < batch)[:, None]
        within = rows[:, None] * H + units[None, :]
        slope = tl.zeros((ROWS, UNITS), tl.float32)
        after = tl.zeros((ROWS, UNITS), tl.float32)
        if time < length - 1:
            own = hidden_shares + (read + place) * share
            slope += _collected(own, rows, batch, units, H, BLOCKS)
            after = tl.load(cell_slopes + place * batch * H + within, mask=known, other=0.0)
        elif layer == layers - 1:
            slope += tl.load(upstream + client * batch * H + within, mask=known, other=0.0)
        if layer < layers - 1:
            above = input_shares + (read + place + clients) * share
            slope += _collected(above, rows, batch, units, H, BLOCKS)
        start = (place * length + time) * batch * 4 * H
        at = gates + start + rows[:, None] * 4 * H + units[None, :]
        gate_in = tl.load(at, mask=known, other=0.0)
        gate_forget = tl.load(at + H, mask=known, other=0.0)
        candidate = tl.load(at + 2 * H, mask=known, other=0.0)
        gate_out = tl.load(at + 3 * H, mask=known, other=0.0)
        at = cells + (place * (length + 1) + time) * batch * H + within
        before = tl.load(at, mask=known, other=0.0)
        squashed = _tanh(tl.load(at + batch * H, mask=known, other=0.0))
        after += slope * gate_out * (1 - squashed * squashed)
        slope_in = after * candidate * gate_in * (1 - gate_in)
        slope_forget = after * before * gate_forget * (1 - gate_forget)
        slope_candidate = after * gate_in * (1 - candidate * candidate)
        slope_out = slope * squashed * gate_out * (1 - gate_out)
        tl.store(cell_slopes + place * batch * H + within, after * gate_forget, mask=known)
        at = slopes + start + rows[:, None] * 4 * H + units[None, :]
        tl.store(at, slope_in, mask=known)
        tl.store(at + H, slope_forget, mask=known)
        tl.store(at + 2 * H, slope_candidate, mask=known)
        tl.store(at + 3 * H, slope_out, mask=known)
        own_share = tl.program_id(1) * batch * H
        if time > 0:
            _scattered(
                hidden_shares + (write + place) * share + own_share,
                hidden_weight + place * 4 * H * H,
                slope_in, slope_forget, slope_candidate, slope_out, rows, batch, units,
                H, WIDTH, HOW,
            )  # fmt: skip
        if layer > 0:
            _scattered(
                input_shares + (write + place) * share + own_share,
                input_weight + (place - clients) * 4 * H * H,
                slope_in, slope_forget, slope_candidate, slope_out, rows, batch, units,
                H, WIDTH, HOW,
            )  # fmt: skip
