import pytest
import torch

from fedcore.config import Experiment
from fedcore.coreset.metric import pair_distances
from fedcore.coreset.proxies import PROXIES, HeadGradients, space_of
from fedcore.errors import BadOption


def seen(size=7):
    draw = torch.Generator().manual_seed(0)
    return HeadGradients(
        torch.randn(size, 3, generator=draw),
        torch.randn(size, 5, generator=draw),
        torch.rand(size, generator=draw),
    )


def pairwise(space, size=7):
    first = torch.arange(size).repeat_interleave(size)
    second = torch.arange(size).repeat(size)
    return pair_distances(space, first, second).reshape(size, size)


def test_every_proxy_can_be_asked_for():
    for name in PROXIES:
        assert Experiment(proxy=name).proxy == name


@pytest.mark.parametrize("bias", [True, False])
def test_each_space_has_the_distances_of_the_vectors_it_stands_for(bias):
    gradients, weight = seen(), torch.randn(3, 5, generator=torch.Generator().manual_seed(1))
    residuals, inputs = gradients.residuals.double(), gradients.inputs.double()
    extended = torch.cat([inputs, torch.ones(7, 1)], dim=1) if bias else inputs
    vectors = {
        "logits": residuals,
        "last-layer-input": residuals @ weight.double(),
        "last-layer": (residuals[:, :, None] * extended[:, None, :]).flatten(1),
    }
    for proxy, written_out in vectors.items():
        space = space_of(proxy, gradients, weight, bias=bias)
        assert torch.allclose(pairwise(space), torch.cdist(written_out, written_out), atol=1e-4)


@pytest.mark.parametrize("proxy", ["logit", "gradient", "input", "none", ""])
def test_a_proxy_that_looks_at_no_gradients_has_no_space(proxy):
    with pytest.raises(BadOption, match=f"last-layer-input, logits, last-layer, got '{proxy}'"):
        space_of(proxy, seen(), torch.zeros(3, 5), bias=True)


def test_gathered_rows_stand_in_the_order_of_the_samples():
    whole = seen()
    order = torch.tensor([4, 0, 6, 2, 5, 1, 3])
    shuffled = HeadGradients(whole.residuals[order], whole.inputs[order], whole.losses[order])
    parts = [
        HeadGradients(shuffled.residuals[p], shuffled.inputs[p], shuffled.losses[p])
        for p in (slice(0, 4), slice(4, 7))
    ]
    back = HeadGradients.gather(parts, order)
    assert torch.equal(back.residuals, whole.residuals)
    assert torch.equal(back.inputs, whole.inputs)
    assert torch.equal(back.losses, whole.losses)
