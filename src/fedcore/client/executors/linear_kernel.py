"""The whole local training of a chain of linear layers as one compiled loop.

The rule of ``client/step.py`` with h_0 = x, a_l = W_l h_(l-1) + b_l, h_l = f_l(a_l), p =
softmax(h_L), and dL/da_l = r_l: r_L = (p - onehot(y)) f_L'(a_L), r_(l-1) = W_l' r_l
f_(l-1)'(a_(l-1)), dL/dW_l = r_l h_(l-1)', dL/db_l = r_l. Parameters are one vector, layer by layer.
"""

import math

import numpy as np

from fedcore.compiled import compiled_training
from fedcore.coreset.metric import Doubles, Floats, Indices

Tape = tuple[Floats, Indices, Indices, Floats]  # x [m, d], y [m], index and coefficient [steps, B]
Batch = tuple[Indices, Indices, Floats]  # y [m], and of a step: index, and s times coefficient [B]
Rule = tuple[Floats, Floats, Floats, Doubles]  # w_r, shift, -d and u, and η, μ, s, ρ, λ, N
Seen = tuple[Floats, Floats, Floats, Doubles]  # dL/da, z and L of every sample; Σ L, Σ L²
# Each W [C, d], b [C] or empty, kind and leak of f; of a batch what enters [B, d], h [B, C], and
# f'(a) or r [B, C]
Layers = list[tuple[Floats, Floats, int, np.float32, Floats, Floats, Floats]]
LEAKY, TANH, SIGMOID, SILU, GELU = range(5)
ZERO, HALF, ONE = np.float32(0), np.float32(0.5), np.float32(1)
ROOT, DENSITY = np.float32(math.sqrt(0.5)), np.float32(math.sqrt(0.5 / math.pi))


@compiled_training
def _activated(kind: int, a: np.float32) -> tuple[np.float32, np.float32]:
    """f(a) and f'(a)."""
    if kind == GELU:
        below = HALF + HALF * np.float32(math.erf(ROOT * a))
        return a * below, below + a * DENSITY * np.exp(-HALF * a * a)
    s = ONE / (ONE + np.exp(-(a + a if kind == TANH else a)))
    slope = s * (ONE - s)
    if kind == SIGMOID:
        return s, slope
    return (s + s - ONE, np.float32(4) * slope) if kind == TANH else (a * s, s + a * slope)


@compiled_training
def _layers(flat: Floats, chain: Floats, batch: int) -> Layers:
    """Views of ``flat``, and room for a batch."""
    layers, at, entered = [], 0, np.empty((batch, int(chain[0, 0])), np.float32)
    for k in range(len(chain)):
        inputs, outputs = int(chain[k, 0]), int(chain[k, 1])
        end, room = at + inputs * outputs, np.empty((2, batch, outputs), np.float32)
        weight, bias = flat[at:end].reshape(outputs, inputs), flat[end : end + int(chain[k, 2])]
        layers.append((weight, bias, int(chain[k, 3]), chain[k, 4], entered, room[0], room[1]))
        at, entered = end + len(bias), room[0]
    return layers


@compiled_training
def _forward(layers: Layers, count: int) -> None:
    """h and f'(a) of every layer."""
    for weight, bias, kind, leak, entered, units, slopes in layers:
        for j in range(count):
            for c in range(weight.shape[0]):
                score = bias[c] if len(bias) else ZERO
                for f in range(weight.shape[1]):
                    score += weight[c, f] * entered[j, f]
                units[j, c] = score
            for c in range(weight.shape[0] * (kind == LEAKY)):  # apart: so it is vectorised
                slopes[j, c] = leak if units[j, c] <= 0 else ONE
                units[j, c] *= slopes[j, c]
            for c in range(weight.shape[0] * (kind != LEAKY)):
                units[j, c], slopes[j, c] = _activated(kind, units[j, c])


@compiled_training
def _residuals(layers: Layers, batch: Batch, noted: bool, seen: Seen) -> None:
    """r of the last layer, times coefficients; before that, where asked for, note all ``seen``."""
    (y, chosen, coefficient), (_, _, _, _, entered, units, slopes) = batch, layers[-1]
    for j, sample in enumerate(chosen):
        scores, residual, label, mass = units[j], slopes[j], y[sample], ZERO
        top = scores.max()
        own = scores[label] - top
        for c in range(len(scores)):
            scores[c] = np.exp(scores[c] - top)
            mass += scores[c]
        for c in range(len(scores)):
            residual[c] = (scores[c] / mass - (ONE if c == label else ZERO)) * residual[c]
        if noted:
            loss = np.log(np.float64(mass)) - np.float64(own)
            seen[3][0] += loss
            seen[3][1] += loss * loss
            if len(seen[2]):
                seen[0][sample], seen[1][sample], seen[2][sample] = residual, entered[j], loss
        for c in range(len(scores)):
            residual[c] *= coefficient[j]


@compiled_training
def _move(layers: Layers, targets: Layers, count: int, first: int) -> None:
    """Down to layer ``first``: r of the layer below, then W ← W - Σ r h' and b ← b - Σ r."""
    for k in range(len(layers) - 1, first - 1, -1):
        weight, _, _, _, entered, _, moves = layers[k]
        for j in range(count * (k > first)):
            carry, slopes = targets[k - 1][5][j], layers[k - 1][6][j]
            carry[:] = 0
            for c in range(weight.shape[0]):
                move = moves[j, c]
                for f in range(weight.shape[1]):
                    carry[f] += move * weight[c, f]
            for f in range(weight.shape[1]):
                slopes[f] *= carry[f]
        weight, bias = targets[k][0], targets[k][1]
        for j in range(count):
            for c in range(weight.shape[0]):
                move = moves[j, c]
                for f in range(weight.shape[1]):
                    weight[c, f] -= move * entered[j, f]
            for c in range(len(bias)):
                bias[c] -= moves[j, c]


@compiled_training
def _optimise(w: Floats, d: Floats, u: Floats, start: Floats, numbers: Doubles) -> None:
    """u ← ρ u + λ w + clip(μ (w - w_r) - d), w ← w - η u, d ← 0."""
    pull, keep, shrink = np.float32(numbers[1]), np.float32(numbers[3]), np.float32(numbers[4])
    rate, squares = np.float32(numbers[0]), 0.0
    for i in range(len(d)):
        d[i] -= pull * (w[i] - start[i])
        squares += d[i] * d[i]
    share = np.float32(min(1.0, numbers[5] / (math.sqrt(squares) + 1e-6)))
    for i in range(len(d)):
        u[i] = keep * u[i] + shrink * w[i] - share * d[i]
        w[i] -= rate * u[i]
        d[i] = 0


@compiled_training
def train_chain(
    w: Floats, chain: Floats, tape: Tape, rule: Rule, counts: tuple[int, int, int], seen: Seen
) -> None:
    """Walk a tape, moving ``w``; without room for d and u, opt(d) = d, of one layer or no pull.

    ``counts`` are steps whose losses are noted, and layers and parameters that stay as they are.
    """
    (x, y, index, coefficient), (anchor, shift, memory, numbers) = tape, rule
    first_epoch, first, begin = counts
    plain = len(memory) == 0
    into, gain = (w, numbers[0]) if plain else (memory[0], 1.0)
    pull, scaled = np.float32(gain * numbers[1]), np.float32(gain * numbers[2]) * coefficient
    trained, to, start = w[begin:], into[begin:], anchor[begin:]
    added = np.float32(gain) * shift[begin:]
    layers, targets = _layers(w, chain, index.shape[1]), _layers(into, chain, index.shape[1])
    for step in range(len(index)):
        count = int(np.count_nonzero(coefficient[step]))  # the rest is padding
        if count == 0:
            continue
        for j in range(count):
            layers[0][4][j] = x[index[step, j]]
        _forward(layers, count)
        batch = y, index[step, :count], scaled[step, :count]
        _residuals(layers, batch, step < first_epoch, seen)
        if plain and pull > 0:
            for i in range(len(trained)):
                trained[i] -= pull * (trained[i] - start[i])
        for i in range(len(added)):
            to[i] -= added[i]
        _move(layers, targets, count, first)
        if not plain:
            _optimise(trained, to, memory[1][begin:], start, numbers)
