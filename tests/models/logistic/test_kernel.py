import numpy as np
import pytest
import torch

from fedcore.models.logistic.kernel import train_linear


@pytest.mark.parametrize("sigmoid", [False, True])
@pytest.mark.parametrize("mu", [0.0, 0.4])
def test_two_steps_are_those_of_autograd(sigmoid, mu):
    draw = np.random.default_rng(0)
    x = draw.normal(size=(9, 5)).astype(np.float32)
    y = draw.integers(3, size=9)
    weight = draw.normal(size=(3, 5)).astype(np.float32)
    bias = draw.normal(size=3).astype(np.float32)
    index = np.array([[0, 3, 5], [7, 1, 0]])
    coefficient = np.array([[0.2, 0.5, 0.3], [0.6, 0.4, 0.0]], dtype=np.float32)
    plain = [torch.from_numpy(a.copy()).requires_grad_() for a in (weight, bias)]
    anchor = [a.detach().clone() for a in plain]
    for rows, scale in zip(index, coefficient, strict=True):
        scores = torch.from_numpy(x[rows]) @ plain[0].T + plain[1]
        scores = torch.sigmoid(scores) if sigmoid else scores
        losses = torch.nn.functional.cross_entropy(
            scores, torch.from_numpy(y[rows]), reduction="none"
        )
        pull = sum(((a - b) ** 2).sum() for a, b in zip(plain, anchor, strict=True))
        loss = (torch.from_numpy(scale) * losses).sum() + mu / 2 * pull
        gradients = torch.autograd.grad(loss, plain)
        plain = [
            (a - 0.3 * g).detach().requires_grad_() for a, g in zip(plain, gradients, strict=True)
        ]
    train_linear(weight, bias, x, y, index, coefficient, 0.3, mu, sigmoid)
    assert np.allclose(weight, plain[0].detach().numpy(), atol=1e-5)
    assert np.allclose(bias, plain[1].detach().numpy(), atol=1e-5)


def test_a_step_of_padding_alone_changes_nothing_not_even_with_a_pull():
    """A finished client must not drift towards the anchor while others still train."""
    weight, bias = np.ones((2, 3), np.float32), np.ones(2, np.float32)
    x, y = np.ones((4, 3), np.float32), np.zeros(4, np.int64)
    index = np.zeros((5, 2), np.int64)
    once = np.zeros((5, 2), np.float32)
    once[0] = 0.5
    long = [weight.copy(), bias.copy()]
    short = [weight.copy(), bias.copy()]
    train_linear(*long, x, y, index, once, 0.1, 0.9, False)
    train_linear(*short, x, y, index[:1], once[:1], 0.1, 0.9, False)
    assert all(np.array_equal(a, b) for a, b in zip(long, short, strict=True))
