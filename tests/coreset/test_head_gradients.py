import pytest
import torch
from torch import nn
from torch.func import functional_call, grad, vmap

from fedcore import coreset_for
from fedcore.coreset import proxies
from fedcore.coreset.proxies import head_gradients
from fedcore.task import Task


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3))


def test_equal_to_autograds_gradients_of_single_samples():
    """r ⊗ z and r are the per-sample gradients of the last layer's weight and bias."""
    model = network()
    task = Task(model)
    params = task.initial_params()
    x, y = torch.randn(11, 4), torch.randint(3, (11,))
    seen = head_gradients(task, params, [(x[:5], y[:5]), (x[5:], y[5:])])

    def loss(p, sample, label):
        scores = functional_call(model, p, (sample[None],))
        return nn.functional.cross_entropy(scores, label[None])

    single = vmap(grad(loss), (None, 0, 0))(params, x, y)
    outer = seen.residuals[:, :, None] * seen.inputs[:, None, :]
    assert torch.allclose(outer, single["2.weight"], atol=1e-5)
    assert torch.allclose(seen.residuals, single["2.bias"], atol=1e-5)
    expected = nn.functional.cross_entropy(model(x), y, reduction="none")
    assert torch.allclose(seen.losses, expected, atol=1e-6)


def test_nothing_before_the_last_layer_is_differentiated():
    model = network()
    differentiated = []
    model[0].register_forward_hook(lambda _, __, out: differentiated.append(out.requires_grad))
    head_gradients(
        Task(model), Task(model).initial_params(), [(torch.randn(3, 4), torch.zeros(3).long())]
    )
    assert differentiated == [False]


def test_layers_may_be_of_different_types():
    class Mixed(nn.Module):
        def __init__(self):
            super().__init__()
            whole = torch.ones(6, 4, dtype=torch.int8)  # as layers are that were quantised
            self.whole = nn.Parameter(whole, requires_grad=False)
            self.inner, self.head = nn.Linear(6, 6).double(), nn.Linear(6, 5)
            self.last = nn.Conv1d(1, 3, 5)

        def forward(self, x):
            inner = self.inner((x @ self.whole.to(x.dtype).T).double())
            return self.last(self.head(inner.float())[:, None])[:, :, 0]

    found = coreset_for(Mixed(), (torch.randn(20, 4), torch.arange(20) % 3), 5, proxy="logits")
    assert found.weights.sum() == 20


@pytest.mark.parametrize("proxy", ["last-layer-input", "logits", "last-layer"])
def test_a_model_may_change_what_leaves_its_last_layer_in_place(proxy):
    """As with a temperature: ``scores /= 2``."""

    class Tempered(nn.Module):
        def __init__(self, in_place):
            super().__init__()
            self.layers, self.in_place = network(), in_place

        def forward(self, x):
            scores = self.layers(x)
            return scores.div_(2) if self.in_place else scores / 2

    data = torch.randn(20, 4), torch.arange(20) % 3
    one, other = (coreset_for(Tempered(how), data, 5, proxy=proxy) for how in (True, False))
    assert torch.equal(one.indices, other.indices)
    assert torch.equal(one.weights, other.weights)


@pytest.mark.parametrize("proxy", ["last-layer-input", "logits", "last-layer"])
def test_what_enters_the_last_layer_is_kept_for_the_one_proxy_that_looks_at_it(proxy, monkeypatch):
    """Of a large network, over all samples, it can be more than the data."""
    original, widths = proxies.space_of, []

    def space_of(name, seen, weight, *, bias):
        widths.append(seen.inputs.shape[1])
        return original(name, seen, weight, bias=bias)

    monkeypatch.setattr(proxies, "space_of", space_of)
    found = coreset_for(network(), (torch.randn(20, 4), torch.arange(20) % 3), 5, proxy=proxy)
    assert found.weights.sum() == 20
    assert widths == [6 if proxy == "last-layer" else 0]
