import pytest
import torch

from fedcore.errors import BadOption
from fedcore.models import char_lstm
from fedcore.task import Task, sample_losses

WINDOW = torch.zeros(80, dtype=torch.uint8)


def count(module):
    return sum(parameter.numel() for parameter in module.parameters())


def test_it_has_the_documented_number_of_parameters():
    model = char_lstm.build(WINDOW, 90)
    gates = 4 * 256
    assert count(model.embedding) == 90 * 8
    assert count(model.lstm) == gates * (8 + 256 + 2) + gates * (256 + 256 + 2)
    assert count(model.head) == 256 * 90 + 90
    assert count(model) == 822_570
    # One bias per gate instead of two: the number of the TensorFlow models.
    assert count(model) - 2 * gates == 820_522


def by_hand(model, window):
    """The LSTM's equations, one sample, one step after another."""
    inputs = model.embedding.weight[window.long()]
    for layer in range(2):
        w, u, b, c = (
            getattr(model.lstm, f"{name}_l{layer}")
            for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        )
        hidden, cell, outputs = torch.zeros(256), torch.zeros(256), []
        for x in inputs:
            i, f, g, o = (w @ x + u @ hidden + b + c).chunk(4)
            cell = f.sigmoid() * cell + i.sigmoid() * g.tanh()
            hidden = o.sigmoid() * cell.tanh()
            outputs.append(hidden)
        inputs = torch.stack(outputs)
    return model.head.weight @ inputs[-1] + model.head.bias


def test_it_is_the_equations_of_an_lstm():
    torch.manual_seed(0)
    model = char_lstm.build(WINDOW, 90)
    windows = torch.randint(0, 90, (2, 12), dtype=torch.uint8)
    with torch.no_grad():
        expected = torch.stack([by_hand(model, window) for window in windows])
        torch.testing.assert_close(model(windows), expected, rtol=1e-4, atol=1e-5)


def test_parameters_that_are_passed_in_are_used_and_get_gradients():
    # nn.LSTM keeps a list of its weights; what functional_call swaps in must reach it.
    task = Task(char_lstm.build(WINDOW, 90))
    windows = torch.randint(0, 90, (3, 20), dtype=torch.uint8)
    zeros = {k: torch.zeros_like(v).requires_grad_() for k, v in task.initial_params().items()}
    assert task.logits(zeros, windows).abs().max() == 0
    params = {k: v.requires_grad_() for k, v in task.initial_params().items()}
    logits, entered = task.forward(params, windows, torch.zeros(3, task.head_width))
    assert entered.shape == (3, 256)
    gradients = torch.autograd.grad(
        sample_losses(logits, torch.tensor([1, 2, 3])).sum(), list(params.values())
    )
    assert all(gradient.abs().sum() > 0 for gradient in gradients)


@pytest.mark.parametrize(
    "example", [torch.zeros(80), torch.zeros(1, 28, 28), torch.zeros(8, 80, dtype=torch.uint8)]
)
def test_other_inputs_are_refused(example):
    with pytest.raises(BadOption, match="model 'char-lstm' needs windows"):
        char_lstm.build(example, 90)
