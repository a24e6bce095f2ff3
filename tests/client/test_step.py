import pytest
import torch
from torch import nn

from fedcore.client.step import Batch, StepRule, step, step_and_watch
from fedcore.task import Task


def a_model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3))


def a_batch(size=6):
    draw = torch.Generator().manual_seed(1)
    x = torch.randn(size, 4, generator=draw)
    y = torch.randint(3, (size,), generator=draw)
    return Batch(x, y, torch.rand(size, generator=draw) + 0.1)


def test_a_plain_step_is_a_step_of_torch_sgd():
    model, batch = a_model(), a_batch()
    task = Task(a_model())
    start = task.initial_params()
    moved = step(task, start, batch, StepRule(0.1, 0.0, start))
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = nn.functional.cross_entropy(model(batch.x), batch.y, reduction="none")
    (batch.coefficient * losses).sum().backward()
    optimiser.step()
    for name, value in model.named_parameters():
        assert torch.allclose(moved[name], value, atol=1e-7)


def test_the_proximal_term_is_half_mu_times_the_squared_distance():
    """Autograd of μ/2 ||w - anchor||² as FedProx writes it."""
    task, batch = Task(a_model()), a_batch()
    start = task.initial_params()
    anchor = {name: value + 0.5 for name, value in start.items()}
    moved = step(task, start, batch, StepRule(0.1, 0.7, anchor))
    leaves = {name: value.clone().requires_grad_() for name, value in start.items()}
    losses = nn.functional.cross_entropy(task.logits(leaves, batch.x), batch.y, reduction="none")
    distance = sum(((leaves[n] - anchor[n]) ** 2).sum() for n in leaves)
    ((batch.coefficient * losses).sum() + 0.7 / 2 * distance).backward()
    for name, value in leaves.items():
        assert torch.allclose(moved[name], start[name] - 0.1 * value.grad, atol=1e-6)


def test_a_step_leaves_what_it_was_given_alone():
    task, batch = Task(a_model()), a_batch()
    start = task.initial_params()
    before = {name: value.clone() for name, value in start.items()}
    step(task, start, batch, StepRule(0.1, 0.1, start))
    assert all(torch.equal(start[name], before[name]) for name in start)


def test_watching_changes_nothing_and_sees_each_samples_own_gradient():
    task, batch = Task(a_model()), a_batch()
    start = task.initial_params()
    rule = StepRule(0.1, 0.0, start)
    moved, seen = step_and_watch(task, start, batch, rule)
    plain = step(task, start, batch, rule)
    assert all(torch.equal(moved[name], plain[name]) for name in plain)
    for j in range(len(batch.y)):
        hidden = torch.tanh(batch.x[j] @ start["0.weight"].T + start["0.bias"])
        z = hidden.clone().requires_grad_()
        scores = z @ start["2.weight"].T + start["2.bias"]
        nn.functional.cross_entropy(scores[None], batch.y[j : j + 1]).backward()
        assert torch.allclose(seen.inputs[j], hidden, atol=1e-6)
        assert torch.allclose(seen.residuals[j] @ start["2.weight"], z.grad, atol=1e-6)


@pytest.mark.parametrize("watch", [False, True])
def test_one_forward_pass_per_step(watch):
    model, batch = a_model(), a_batch()
    calls = []
    model.register_forward_hook(lambda *_: calls.append(1))
    task = Task(model)
    start = task.initial_params()
    (step_and_watch if watch else step)(task, start, batch, StepRule(0.1, 0.0, start))
    assert len(calls) == 1
