"""The whole local training of a linear classifier as one compiled loop.

The rule of ``client/step.py`` with a = xW' + b, p = softmax(a), dL/da = p - onehot(y) and dL/dW =
(dL/da)' x; with s = sigmoid(a) in between, p = softmax(s), dL/da = (p - onehot(y)) s (1 - s).
"""

import numpy as np
from numpy.typing import NDArray

from fedcore.compiled import compiled_training

Floats = NDArray[np.float32]


@compiled_training
def _residual(
    weight: Floats, bias: Floats, row: Floats, label: int, sigmoid: bool, residual: Floats
) -> tuple[np.float32, np.float32]:
    """Write dL/da of one sample into ``residual`` [C]; gives u, v of its loss log(v) - u."""
    classes, features = weight.shape
    for c in range(classes):
        score = bias[c]
        for f in range(features):
            score += weight[c, f] * row[f]
        residual[c] = np.float32(1) / (np.float32(1) + np.exp(-score)) if sigmoid else score
    slopes = residual * (np.float32(1) - residual) if sigmoid else np.ones_like(residual)
    top = residual.max()
    own: np.float32 = residual[label] - top
    mass = np.float32(0)
    for c in range(classes):
        residual[c] = np.exp(residual[c] - top)
        mass += residual[c]
    for c in range(classes):
        hit = np.float32(1) if c == label else np.float32(0)
        residual[c] = (residual[c] / mass - hit) * slopes[c]
    return own, mass


@compiled_training
def _pull(
    weight: Floats, bias: Floats, to_weight: Floats, to_bias: Floats, share: np.float32
) -> None:
    """Move a share of the way towards the anchor."""
    classes, features = weight.shape
    for c in range(classes):
        bias[c] -= share * (bias[c] - to_bias[c])
        for f in range(features):
            weight[c, f] -= share * (weight[c, f] - to_weight[c, f])


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
    scale: float,
    shift_weight: Floats,
    shift_bias: Floats,
    first_epoch: int,
    sigmoid: bool,
) -> tuple[float, float]:
    """Walk tapes, moving ``weight`` and ``bias``; gives Σ L, Σ L² of ``first_epoch`` steps."""
    classes, features = weight.shape
    steps, batch = index.shape
    rate, pull = np.float32(learning_rate), np.float32(learning_rate * prox_mu)
    scaled = np.float32(learning_rate * scale)
    anchor_weight, anchor_bias = weight.copy(), bias.copy()
    residuals = np.empty((batch, classes), np.float32)
    loss_sum, loss_square_sum = 0.0, 0.0
    for step in range(steps):
        # All residuals of a batch are known before any weight moves.
        for j in range(batch):
            if coefficient[step, j] > 0:
                sample = index[step, j]
                own, mass = _residual(weight, bias, x[sample], y[sample], sigmoid, residuals[j])
                if step < first_epoch:
                    loss = np.log(np.float64(mass)) - np.float64(own)
                    loss_sum += loss
                    loss_square_sum += loss * loss
        # Padding stands at the end of a batch: a step that begins with it is no step at all.
        if coefficient[step, 0] > 0:
            if pull > 0:
                _pull(weight, bias, anchor_weight, anchor_bias, pull)
            if shift_bias.size > 0:
                weight -= rate * shift_weight
                bias -= rate * shift_bias
        for j in range(batch):
            if coefficient[step, j] > 0:
                row = x[index[step, j]]
                for c in range(classes):
                    move = scaled * coefficient[step, j] * residuals[j, c]
                    bias[c] -= move
                    for f in range(features):
                        weight[c, f] -= move * row[f]
    return loss_sum, loss_square_sum
