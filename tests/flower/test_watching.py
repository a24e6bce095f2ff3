"""Gradients that hooks see in a user's loop are those of a pass of our own, its plain twin."""

import pytest
import torch
from torch import nn

pytest.importorskip("flwr")

from fedcore.coreset.proxies import (
    LAST_LAYER,
    LAST_LAYER_INPUT,
    LOGITS,
    STATIC,
    head_gradients,
    space_of,
)
from fedcore.flower.loader import Watching
from fedcore.task import Task

COUNT = 21


@pytest.fixture
def setting():
    torch.manual_seed(1)
    x, y = torch.randn(COUNT, 4), torch.randint(0, 3, (COUNT,))
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3)), x, y


def look(setting, proxy, objective=nn.functional.cross_entropy, order=None):
    """Batches of 8, 8 and 5 in another order than the samples'; the model does not move."""
    model, x, y = setting
    watching = Watching(model, proxy)
    with watching.watch():
        for batch in torch.randperm(COUNT).split(8) if order is None else order:
            watching.drawn.append(batch.tolist())
            watching.out += 1
            objective(model(x[batch]), y[batch]).backward()
    return watching


@pytest.mark.parametrize("proxy", [LAST_LAYER_INPUT, LOGITS, LAST_LAYER])
def test_they_are_those_of_a_pass_of_our_own(setting, proxy):
    model, x, y = setting
    task = Task(model)
    twin = head_gradients(task, task.initial_params(), [(x, y)])
    expected = space_of(proxy, twin, model[2].weight.detach(), bias=True)
    indices, space, labels = look(setting, proxy).seen()
    assert indices.tolist() == list(range(COUNT))
    assert torch.equal(labels, y)
    for ours, theirs in zip(space.factors, expected.factors, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)


def test_inputs_are_what_enters_a_model_of_one_layer(setting):
    _, x, y = setting
    indices, space, _ = look((nn.Linear(4, 3), x, y), STATIC).seen()
    assert torch.equal(space.factors[0], x[indices.tolist()])


def test_a_scale_that_changes_is_taken_out(setting):
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)

    def scaled(scores, labels):
        if scaler._scale is not None:  # there is none before the first batch
            scaler.update(scaler.get_scale() / 4)
        return scaler.scale(nn.functional.cross_entropy(scores, labels))

    order = torch.randperm(COUNT).split(8)
    _, space, _ = look(setting, LOGITS, scaled, order).seen()
    _, expected, _ = look(setting, LOGITS, order=order).seen()
    assert torch.equal(space.factors[0], expected.factors[0])  # powers of two


def test_half_precision_comes_close(setting):
    def objective(scores, labels):
        assert scores.dtype == torch.bfloat16
        return nn.functional.cross_entropy(scores.float(), labels)

    with torch.autocast("cpu", torch.bfloat16):
        _, space, _ = look(setting, LOGITS, objective).seen()
    _, expected, _ = look(setting, LOGITS).seen()
    assert space.factors[0].dtype == torch.float32
    torch.testing.assert_close(space.factors[0], expected.factors[0], rtol=0.05, atol=0.02)


def test_a_sequence_counts_as_the_sum_of_its_gradients():
    torch.manual_seed(2)
    model, x, y = nn.Linear(4, 3), torch.randn(COUNT, 5, 4), torch.randint(0, 3, (COUNT, 5))

    def objective(scores, labels):
        return nn.functional.cross_entropy(scores.flatten(0, 1), labels.flatten())

    indices, space, _ = look((model, x, y), LOGITS, objective).seen()
    residuals = model(x).softmax(-1) - nn.functional.one_hot(y, 3)
    expected = residuals.sum(1)[indices.tolist()] / 5  # the mean is over batch and sequence
    torch.testing.assert_close(space.factors[0], expected.detach(), rtol=1e-5, atol=1e-6)


def test_who_has_no_finite_gradient_is_left_out(setting):
    setting[1][4] = torch.inf
    indices, space, _ = look(setting, LOGITS, order=torch.arange(COUNT).split(8)).seen()
    # The mean's own loss is not a number, its gradient of others is.
    assert 4 not in indices
    assert bool(torch.isfinite(space.factors[0]).all())


def test_a_sample_that_comes_twice_counts_once_as_it_was_last(setting):
    order = [torch.tensor([0, 1, 2]), torch.tensor([2, 3])]
    indices, space, _ = look(setting, LOGITS, order=order).seen()
    assert indices.tolist() == [0, 1, 2, 3]
    assert len(space) == 4


def test_a_model_that_diverged_is_no_guide(setting):
    watching = look(setting, LAST_LAYER_INPUT)
    with torch.no_grad():
        setting[0][2].weight[0, 0] = torch.nan
    assert watching.seen() is None
    assert "finite" in watching.trouble


def test_checkpointed_models_are_seen_once(setting):
    from torch.utils.checkpoint import checkpoint

    model, x, y = setting

    class Checkpointed(nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, inputs):
            return checkpoint(self.model, inputs, use_reentrant=False)

    _, space, _ = look((Checkpointed(), x, y), LOGITS).seen()
    _, expected, _ = look(setting, LOGITS).seen()
    torch.testing.assert_close(space.factors[0], expected.factors[0])
