"""Coreset gradients are autograd's, sample by sample, for every loss and form of a model."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import fedcore
from fedcore.bundle import Bundle
from fedcore.client.step import Batch, StepRule, step
from fedcore.coreset.proxies import head_gradients, space_of
from fedcore.errors import BadOption
from fedcore.losses import cross_entropy, loss_of
from fedcore.task import Task, Terms

SAMPLES, CLASSES, POSITIONS = 12, 4, 3
WEIGHTS = torch.tensor([1.0, 3.0, 0.5, 2.0])


def smoothed(outputs, targets):
    return functional.cross_entropy(outputs, targets, reduction="none", label_smoothing=0.2)


def weighted(outputs, targets):
    return WEIGHTS[targets] * functional.cross_entropy(outputs, targets, reduction="none")


def quantile(outputs, targets):
    distance = targets - outputs
    return torch.maximum(0.9 * distance, -0.1 * distance).mean(1)


# By loss: the function, and the kind of targets
LOSSES = {
    "cross-entropy": (loss_of("cross-entropy"), "class"),
    "smoothed": (loss_of(smoothed), "class"),
    "weighted": (loss_of(weighted), "class"),
    "mse": (loss_of("mse"), "numbers"),
    "huber": (loss_of("huber"), "numbers"),
    "quantile": (loss_of(quantile), "numbers"),
    "bce": (loss_of("bce"), "several"),
    "tokens": (cross_entropy, "positions"),
    "numbers of positions": (loss_of("mse"), "numbers of positions"),
}


@dataclass
class Output:
    logits: Tensor
    loss: Tensor | None = None


class Network(nn.Module):
    """A body and a head, with inputs and outputs in the form that is asked for."""

    def __init__(self, form, width):
        super().__init__()
        self.body, self.head, self.form = nn.Linear(5, 6), nn.Linear(6, width), form

    def features(self, x):
        return torch.tanh(self.body(x))

    def forward(self, x=None, shift=None, **named):
        x = named.get("values", x)
        outputs = self.head(self.features(x if shift is None else x + shift))
        if self.form == "dict":
            return {"logits": outputs, "hidden": x}
        if self.form == "object":
            return Output(outputs)
        return outputs.squeeze(-1) if self.form == "squeezed" else outputs


FORMS = ["tensor", "dict", "object", "tuple inputs", "dict inputs"]
CASES = [(name, form) for name in LOSSES for form in FORMS]
CASES += [("mse", "squeezed"), ("huber", "squeezed")]


def case(name, form):
    """A task, its inputs, the same as one tensor, and targets."""
    draw = torch.Generator().manual_seed(3)
    loss, kind = LOSSES[name]
    rows = (SAMPLES, POSITIONS) if "positions" in kind else (SAMPLES,)
    width = 1 if form == "squeezed" else CLASSES
    with torch.random.fork_rng():
        torch.manual_seed(1)
        model = Network(form, width)
    x = torch.randn(*rows, 5, generator=draw)
    if kind in ("class", "positions"):
        y = torch.randint(CLASSES, rows, generator=draw)
    elif kind == "several":
        y = (torch.rand(*rows, CLASSES, generator=draw) > 0.5).float()
    else:
        y = torch.randn(*(rows if form == "squeezed" else (*rows, width)), generator=draw)
    if kind == "positions":
        y[0, 1:] = -100
    given = x
    if form == "tuple inputs":
        shift = torch.randn(*rows, 5, generator=draw)
        given = Bundle({0: x - shift, 1: shift})
    if form == "dict inputs":
        given = Bundle({"values": x})
    return Task(model, terms=Terms(loss)), given, x, y


def by_autograd(task, x, y):
    """Per sample: gradients of the head's weight and bias, and of what enters it, one at a time."""
    head, weights, biases, inputs, losses = task.model.head, [], [], [], []
    for own, target in zip(x.split(1), y.split(1), strict=True):
        z = task.model.features(own).detach().requires_grad_()
        outputs = head(z).squeeze(-1) if task.model.form == "squeezed" else head(z)
        loss = task.losses(outputs, target)
        weight, bias, entered = torch.autograd.grad(loss.sum(), [head.weight, head.bias, z])
        weights.append(weight)
        biases.append(bias)
        inputs.append(entered.flatten(0, -2).sum(0))
        losses.append(loss.detach())
    return torch.stack(weights), torch.stack(biases), torch.stack(inputs), torch.cat(losses)


def by_forward_pass(task, x, y):
    return head_gradients(task, task.initial_params(), [(x[:7], y[:7]), (x[7:], y[7:])])


def by_a_training_step(task, x, y):
    params = task.initial_params()
    coefficient = torch.linspace(0.01, 0.3, SAMPLES)  # as weights of a coreset are: all different
    batch = Batch(x, y, coefficient)
    return step(task, params, batch, StepRule(0.1, 0.0, params), watch=True)[2]


@pytest.mark.parametrize("source", [by_forward_pass, by_a_training_step])
@pytest.mark.parametrize(("name", "form"), CASES)
def test_gradients_are_those_of_autograd_sample_by_sample(name, form, source):
    task, given, x, y = case(name, form)
    weight, bias, entered, losses = by_autograd(task, x, y)
    seen = source(task, given, y)
    assert torch.allclose(seen.losses, losses, atol=1e-5)
    assert torch.allclose(seen.residuals, bias, atol=1e-5)
    matrix = task.head_weight(task.initial_params())
    assert torch.allclose(seen.residuals @ matrix, entered, atol=1e-5)
    space = space_of("last-layer-input", seen, matrix, bias=True)
    assert torch.allclose(space.factors[0] @ space.factors[0].T, entered @ entered.T, atol=1e-5)
    if "positions" in LOSSES[name][1]:
        with pytest.raises(BadOption, match="runs at several positions; use 'logits'"):
            space_of("last-layer", seen, matrix, bias=True)
    else:
        outer = torch.einsum("nc,nd->ncd", seen.residuals, seen.inputs)
        assert torch.allclose(outer, weight, atol=1e-5)


@pytest.mark.parametrize(("name", "form"), CASES)
def test_a_step_goes_along_the_gradient_of_the_weighted_losses(name, form):
    task, given, _, y = case(name, form)
    params = task.initial_params()
    coefficient = torch.linspace(0.01, 0.3, SAMPLES)
    moved, *_ = step(task, params, Batch(given, y, coefficient), StepRule(0.1, 0.0, params))
    whole = coefficient * task.losses(task.logits(dict(task.model.named_parameters()), given), y)
    expected = torch.autograd.grad(whole.sum(), list(task.model.parameters()))
    for (key, before), gradient in zip(params.items(), expected, strict=True):
        assert torch.allclose(moved[key], before - 0.1 * gradient, atol=1e-6)


def table(count=300, columns=1):
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(count, 5, generator=draw)
    return x, x @ torch.randn(5, columns, generator=draw)


@pytest.mark.parametrize("proxy", ["last-layer-input", "logits", "last-layer", "input"])
@pytest.mark.parametrize("loss", ["mse", "huber", quantile])
def test_a_coreset_for_regression(loss, proxy):
    model = Network("tensor", 2)
    found = fedcore.coreset_for(model, table(columns=2), 30, loss=loss, proxy=proxy)
    assert len(found.indices) <= 30
    assert float(found.weights.sum()) == pytest.approx(300)


def test_a_coreset_for_regression_is_that_of_the_gradients():
    model, (x, y) = Network("squeezed", 1), table()
    found = fedcore.coreset_for(model, (x.numpy(), y[:, 0].numpy()), 0.1, loss="mse")
    outputs = model(x).detach()
    # dL/dz = 2 (o - y) w lie on a line, at distances of |w| |r_j - r_k|.
    slopes = 2 * (outputs - y[:, 0]) * model.head.weight.detach().norm()
    expected = fedcore.select_coreset(slopes, 30)
    assert found.objective == pytest.approx(expected.objective, rel=1e-4)
    assert len(found.indices) == len(expected.indices) == 30


def test_loss_selectors_see_the_losses_of_that_loss():
    model, (x, y) = Network("tensor", 1), table()
    found = fedcore.coreset_for(model, (x, y), 10, loss="mse", selector="loss-topk")
    largest = (model(x) - y).square()[:, 0].topk(10).indices
    assert sorted(found.indices.tolist()) == sorted(largest.tolist())


def test_selectors_that_go_by_classes_are_refused_without():
    with pytest.raises(BadOption, match="needs labels"):
        fedcore.coreset_for(
            Network("tensor", 1), table(), 10, loss="mse", selector="kmedoids-per-class"
        )


def test_datasets_of_dicts_and_of_sequences():
    class Items(torch.utils.data.Dataset):
        def __len__(self):
            return 40

        def __getitem__(self, place):
            draw = np.random.default_rng(place)
            x = draw.normal(size=(POSITIONS, 5)).astype(np.float32)
            return {"values": x}, draw.integers(CLASSES, size=POSITIONS)

    found = fedcore.coreset_for(Network("dict", CLASSES), Items(), 8, loss=cross_entropy)
    assert float(found.weights.sum()) == pytest.approx(40)
