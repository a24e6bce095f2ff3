"""The whole local training of a linear classifier as one compiled loop.

The same step as ``step``, with the gradient of the cross-entropy written out: for scores
a = xW' + b and p = softmax(a), dL/da = p - onehot(y), dL/dW = (dL/da)' x. With a sigmoid in
between, s = sigmoid(a) and p = softmax(s), dL/da = (p - onehot(y)) s (1 - s).

Cost per step: 4·|B|·C·F floating-point operations on W [C, F], which stays in cache.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedcore.compiled import compiled_training

Floats = NDArray[np.float32]


@compiled_training
def _residual(
    weight: Floats, bias: Floats, row: Floats, label: int, sigmoid: bool, residual: Floats
) -> None:
    """Write dL/da of one sample into ``residual`` [C]."""
    classes, features = weight.shape
    for c in range(classes):
        score = bias[c]
        for f in range(features):
            score += weight[c, f] * row[f]
        residual[c] = np.float32(1) / (np.float32(1) + np.exp(-score)) if sigmoid else score
    slopes = residual * (np.float32(1) - residual) if sigmoid else np.ones_like(residual)
    top = residual.max()
    mass = np.float32(0)
    for c in range(classes):
        residual[c] = np.exp(residual[c] - top)
        mass += residual[c]
    for c in range(classes):
        hit = np.float32(1) if c == label else np.float32(0)
        residual[c] = (residual[c] / mass - hit) * slopes[c]


@compiled_training
def train_linear(
    weight: Floats,
    bias: Floats,
    x: Floats,
    y: NDArray[np.int64],
    index: NDArray[np.int64],
    coefficient: Floats,
    learning_rate: float,
    prox_mu: float,
    sigmoid: bool,
) -> None:
    """Walk a schedule, updating ``weight`` [C, F] and ``bias`` [C] in place.

    Args:
        weight: the round's global weight; overwritten.
        bias: the round's global bias; overwritten.
        x: [m, F] inputs.
        y: [m] labels.
        index: [steps, batch] samples of each step.
        coefficient: [steps, batch]; 0 marks padding.
        learning_rate: η.
        prox_mu: μ; the pull is towards the weights as they were passed in.
        sigmoid: whether scores pass a sigmoid before the softmax.
    """
    classes, features = weight.shape
    steps, batch = index.shape
    rate, pull = np.float32(learning_rate), np.float32(learning_rate * prox_mu)
    anchor_weight, anchor_bias = weight.copy(), bias.copy()
    residuals = np.empty((batch, classes), np.float32)
    for step in range(steps):
        # All residuals of a batch are known before any weight moves.
        for j in range(batch):
            if coefficient[step, j] > 0:
                sample = index[step, j]
                _residual(weight, bias, x[sample], y[sample], sigmoid, residuals[j])
        # Padding stands at the end of a batch: a step that begins with it is no step at all.
        if pull > 0 and coefficient[step, 0] > 0:
            for c in range(classes):
                bias[c] -= pull * (bias[c] - anchor_bias[c])
                for f in range(features):
                    weight[c, f] -= pull * (weight[c, f] - anchor_weight[c, f])
        for j in range(batch):
            if coefficient[step, j] > 0:
                row = x[index[step, j]]
                for c in range(classes):
                    move = rate * coefficient[step, j] * residuals[j, c]
                    bias[c] -= move
                    for f in range(features):
                        weight[c, f] -= move * row[f]
