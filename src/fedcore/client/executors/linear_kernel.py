"""The whole local training of a chain of linear layers as one compiled loop.

The rule of ``client/step.py`` with h_0 = x, a_l = W_l h_(l-1) + b_l, h_l = f_l(a_l), p =
softmax(h_L), and dL/da_l = r_l: r_L = (p - onehot(y)) f_L'(a_L), r_(l-1) = W_l' r_l
f_(l-1)'(a_(l-1)), dL/dW_l = r_l h_(l-1)', dL/db_l = r_l. Parameters are one vector, layer by layer.
"""

import math

import numpy as np
from numpy.typing import NDArray

from fedcore.compiled import compiled_training

Floats = NDArray[np.float32]
Whole = NDArray[np.int64]
Exact = NDArray[np.float64]
How = tuple[float, float, float]
Layers = list[tuple[Floats, Floats, int, np.float32]]  # W [C, d], b [C] or empty, kind, leak
LEAKY, TANH, SIGMOID, SILU, GELU = range(5)
ONE, HALF, DENSITY = np.float32(1), np.float32(0.5), np.float32(1 / math.sqrt(2 * math.pi))


@compiled_training
def _activated(kind: int, a: np.float32) -> tuple[np.float32, np.float32]:
    """f(a) and f'(a)."""
    if kind == GELU:
        below = HALF + HALF * np.float32(math.erf(a * np.float32(math.sqrt(0.5))))
        return a * below, below + a * DENSITY * np.exp(-HALF * a * a)
    s = ONE / (ONE + np.exp(-(a + a if kind == TANH else a)))
    slope = s * (ONE - s)
    if kind == SIGMOID:
        return s, slope
    return (s + s - ONE, np.float32(4) * slope) if kind == TANH else (a * s, s + a * slope)


@compiled_training
def _layers(flat: Floats, chain: Exact) -> Layers:
    """Views of ``flat``."""
    layers, at = [], 0
    for k in range(len(chain)):
        inputs, outputs, kind = int(chain[k, 0]), int(chain[k, 1]), int(chain[k, 3])
        end = at + inputs * outputs
        weight, bias = flat[at:end].reshape(outputs, inputs), flat[end : end + int(chain[k, 2])]
        layers.append((weight, bias, kind, np.float32(chain[k, 4])))
        at = end + len(bias)
    return layers


@compiled_training
def _forward(layers: Layers, hidden: list[Floats], slopes: list[Floats], chosen: Whole) -> None:
    """h and f'(a) of all layers; ``hidden`` begins with all samples."""
    for k in range(len(layers)):
        weight, bias, kind, leak = layers[k]
        rows, units, steep = hidden[k], hidden[k + 1], slopes[k + 1]
        for j in range(len(chosen)):
            row = rows[j if k else chosen[j]]
            for c in range(weight.shape[0]):
                score = bias[c] if len(bias) else np.float32(0)
                for f in range(weight.shape[1]):
                    score += weight[c, f] * row[f]
                units[j, c] = score
            for c in range(weight.shape[0] * (kind == LEAKY)):  # apart: so it is vectorised
                steep[j, c] = leak if units[j, c] <= 0 else ONE
                units[j, c] *= steep[j, c]
            for c in range(weight.shape[0] * (kind != LEAKY)):
                units[j, c], steep[j, c] = _activated(kind, units[j, c])


@compiled_training
def _residual(scores: Floats, label: int, slopes: Floats) -> tuple[np.float32, np.float32]:
    """Multiply dL/dh into the ``slopes`` [C] of a sample; gives u, v of its loss log(v) - u."""
    top = scores.max()
    own: np.float32 = scores[label] - top
    mass = np.float32(0)
    for c in range(len(scores)):
        scores[c] = np.exp(scores[c] - top)
        mass += scores[c]
    for c in range(len(scores)):
        hit = ONE if c == label else np.float32(0)
        slopes[c] = (scores[c] / mass - hit) * slopes[c]
    return own, mass


@compiled_training
def _back(weight: Floats, moves: Floats, slopes: Floats, carry: Floats, count: int) -> None:
    """Multiply r W into the ``slopes`` of the layer below."""
    for j in range(count):
        carry[:] = 0
        for c in range(weight.shape[0]):
            move = moves[j, c]
            for f in range(weight.shape[1]):
                carry[f] += move * weight[c, f]
        for f in range(weight.shape[1]):
            slopes[j, f] *= carry[f]


@compiled_training
def _move(
    layers: Layers, hidden: list[Floats], moves: list[Floats], chosen: Whole, first: int
) -> None:
    """W ← W - Σ r h' and b ← b - Σ r, from layer ``first`` on."""
    for k in range(first, len(layers)):
        weight, bias, _, _ = layers[k]
        rows, own = hidden[k], moves[k + 1]
        for j in range(len(chosen)):
            row = rows[j if k else chosen[j]]
            for c in range(weight.shape[0]):
                move = own[j, c]
                for f in range(weight.shape[1]):
                    weight[c, f] -= move * row[f]
            for c in range(len(bias)):
                bias[c] -= own[j, c]


@compiled_training
def _optimise(w: Floats, d: Floats, u: Floats, rate: np.float32, how: How) -> None:
    """u ← ρ u + λ w - clip(d), w ← w - η u."""
    keep, shrink, squares, shorter = np.float32(how[0]), np.float32(how[1]), 0.0, 1.0
    for i in range(len(d)):
        squares += d[i] * d[i]
    if how[2] > 0:
        shorter = min(1.0, how[2] / (math.sqrt(squares) + 1e-6))
    for i in range(len(d)):
        u[i] = keep * u[i] + shrink * w[i] - np.float32(shorter) * d[i]
        w[i] -= rate * u[i]


@compiled_training
def train_chain(
    w: Floats,
    chain: Exact,
    samples: tuple[Floats, Whole],
    tape: tuple[Whole, Floats],
    rule: tuple[Floats, Floats, Floats, How, How],
    counts: tuple[int, int, int],
    seen: tuple[Floats, Floats, Floats],
) -> tuple[float, float]:
    """Walk a tape, moving ``w``; gives Σ L, Σ L² of the steps of the first epoch.

    ``rule``: w_r; shift or nothing; room for d and u, none if opt(d) = d; η, μ, s; ρ, λ, N.
    ``counts``: steps of the first epoch, layers and parameters that are left as they are. Where
    ``seen`` has room, it gets dL/da, z and L of every sample.
    """
    (x, y), (index, coefficient) = samples, tape
    anchor, shift, memory, (rate, mu, scale), how = rule
    first_epoch, first, begin = counts
    (steps, batch), depth, plain, watch = (
        index.shape,
        len(chain),
        len(memory) == 0,
        len(seen[2]) > 0,
    )
    # A plain step is taken at once; other rules are given -d.
    into, gain = (w, rate) if plain else (memory[0], 1.0)
    layers, targets = _layers(w, chain), _layers(into, chain)
    hidden, slopes = [x], [x]
    for k in range(depth):
        hidden.append(np.empty((batch, int(chain[k, 1])), np.float32))
        slopes.append(np.empty((batch, int(chain[k, 1])), np.float32))
    carry = np.empty(int(chain[:, 0].max()), np.float32)
    trained, start, to = w[begin:], anchor[begin:], into[begin:]
    pull, scaled, added = np.float32(gain * mu), np.float32(gain * scale), shift[begin:]
    added = np.float32(gain) * added
    loss_sum, loss_square_sum = 0.0, 0.0
    for step in range(steps):
        count = batch
        while count > 0 and coefficient[step, count - 1] == 0:  # padding
            count -= 1
        if count == 0:
            continue
        chosen = index[step, :count]
        _forward(layers, hidden, slopes, chosen)
        for j in range(count):
            sample, residual = chosen[j], slopes[depth][j]
            own, mass = _residual(hidden[depth][j], y[sample], residual)
            if (step < first_epoch or watch) and coefficient[step, j] > 0:
                loss = np.log(np.float64(mass)) - np.float64(own)
                loss_sum += loss
                loss_square_sum += loss * loss
                if watch:
                    seen[0][sample], seen[2][sample] = residual, loss
                    seen[1][sample] = hidden[depth - 1][j if depth > 1 else sample]
            share = scaled * coefficient[step, j]
            for c in range(len(residual)):
                residual[c] *= share
        # All residuals of a batch are known before any weight moves.
        for k in range(depth - 1, first, -1):
            _back(layers[k][0], slopes[k + 1], slopes[k], carry[: int(chain[k, 0])], count)
        if not plain:
            for i in range(len(trained)):
                to[i] = pull * (start[i] - trained[i])
        elif pull > 0:
            for i in range(len(trained)):
                trained[i] -= pull * (trained[i] - start[i])
        for i in range(len(added)):
            to[i] -= added[i]
        _move(targets, hidden, slopes, chosen, first)
        if not plain:
            _optimise(trained, to, memory[1][begin:], np.float32(rate), how)
    return loss_sum, loss_square_sum
