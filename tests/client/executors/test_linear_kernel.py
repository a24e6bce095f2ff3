import numpy as np
import pytest
import torch

pytest.importorskip("numba")

from fedcore.client.executors.linear_kernel import train_linear

NO_SHIFT = (np.empty((0, 0), np.float32), np.empty(0, np.float32))


@pytest.mark.parametrize("shifted", [False, True])
@pytest.mark.parametrize("sigmoid", [False, True])
@pytest.mark.parametrize(("mu", "scale"), [(0.0, 1.0), (0.4, 1.0), (0.4, 2.5)])
def test_two_steps_are_those_of_autograd(sigmoid, mu, scale, shifted):
    draw = np.random.default_rng(0)
    x = draw.normal(size=(9, 5)).astype(np.float32)
    y = draw.integers(3, size=9)
    weight = draw.normal(size=(3, 5)).astype(np.float32)
    bias = draw.normal(size=3).astype(np.float32)
    shift = NO_SHIFT
    if shifted:
        shift = (draw.normal(size=(3, 5)).astype(np.float32), np.float32([0.5, -1, 2]))
    index = np.array([[0, 3, 5], [7, 1, 0]])
    coefficient = np.array([[0.2, 0.5, 0.3], [0.6, 0.4, 0.0]], dtype=np.float32)
    plain = [torch.from_numpy(a.copy()).requires_grad_() for a in (weight, bias)]
    anchor = [a.detach().clone() for a in plain]
    told = []
    for rows, own in zip(index, coefficient, strict=True):
        scores = torch.from_numpy(x[rows]) @ plain[0].T + plain[1]
        scores = torch.sigmoid(scores) if sigmoid else scores
        losses = torch.nn.functional.cross_entropy(
            scores, torch.from_numpy(y[rows]), reduction="none"
        )
        told.append(losses[torch.from_numpy(own) > 0].detach().double())
        pull = sum(((a - b) ** 2).sum() for a, b in zip(plain, anchor, strict=True))
        loss = scale * (torch.from_numpy(own) * losses).sum() + mu / 2 * pull
        gradients = torch.autograd.grad(loss, plain)
        added = [torch.from_numpy(a) if shifted else 0.0 for a in shift]
        plain = [
            (a - 0.3 * (g + s)).detach().requires_grad_()
            for a, g, s in zip(plain, gradients, added, strict=True)
        ]
    for counted in (0, 1, 2):
        given = weight.copy(), bias.copy()
        sums = train_linear(
            *given, x, y, index, coefficient, 0.3, mu, scale, *shift, counted, sigmoid
        )
        assert np.allclose(given[0], plain[0].detach().numpy(), atol=1e-5)
        assert np.allclose(given[1], plain[1].detach().numpy(), atol=1e-5)
        noted = torch.cat(told[:counted]) if counted else torch.zeros(0)
        assert sums == pytest.approx((float(noted.sum()), float((noted**2).sum())), rel=1e-5)


def test_a_step_of_padding_alone_changes_nothing_not_even_with_a_pull_or_a_shift():
    """A finished client must not drift towards the anchor while others still train."""
    weight, bias = np.ones((2, 3), np.float32), np.ones(2, np.float32)
    shift = np.full((2, 3), 0.3, np.float32), np.full(2, 0.3, np.float32)
    x, y = np.ones((4, 3), np.float32), np.zeros(4, np.int64)
    index = np.zeros((5, 2), np.int64)
    once = np.zeros((5, 2), np.float32)
    once[0] = 0.5
    long = [weight.copy(), bias.copy()]
    short = [weight.copy(), bias.copy()]
    rest = (0.1, 0.9, 1.0, *shift, 5, False)
    assert train_linear(*long, x, y, index, once, *rest) == train_linear(
        *short, x, y, index[:1], once[:1], *rest
    )
    assert all(np.array_equal(a, b) for a, b in zip(long, short, strict=True))
