import torch
from torch import nn

from fedcore.client.executors.cohort_step import CohortBatch, CohortRule, cohort_step
from fedcore.client.executors.forms import form_of
from fedcore.client.step import Batch, StepRule, step_and_watch
from fedcore.task import Task


def test_every_client_takes_its_own_step_and_a_step_of_padding_changes_nothing(build_client):
    task = Task(nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)))
    anchor = task.initial_params()
    start = {n: v + torch.randn(3, *v.shape) for n, v in anchor.items()}
    stack = {n: v.clone().requires_grad_() for n, v in start.items()}
    clients = [build_client(5, seed=seed) for seed in range(3)]
    coefficient = torch.tensor([[0.1, 0.3, 0.2, 0.4, 0.5], [0.2, 0.6, 0, 0, 0], [0.0] * 5])
    batch = CohortBatch(
        torch.stack([c.x for c in clients]), torch.stack([c.y for c in clients]), coefficient
    )
    pulls = [0.5, 0.0, 0.7]
    rule = CohortRule(0.1, 0.1 * torch.tensor(pulls), anchor)
    seen = cohort_step(form_of(task), stack, batch, rule, task.head_width)
    for k in range(2):
        real = coefficient[k] > 0
        own = {n: v[k] for n, v in start.items()}
        samples = Batch(clients[k].x[real], clients[k].y[real], coefficient[k][real])
        moved, watched = step_and_watch(task, own, samples, StepRule(0.1, pulls[k], anchor))
        rows = torch.nonzero(real)[:, 0] + 5 * k
        assert torch.allclose(seen.residuals[rows], watched.residuals, atol=1e-6)
        assert torch.allclose(seen.inputs[rows], watched.inputs, atol=1e-6)
        assert torch.allclose(seen.losses[rows], watched.losses, atol=1e-6)
        assert all(torch.allclose(stack[n][k], moved[n], atol=1e-6) for n in moved)
    assert all(torch.equal(stack[n][2], start[n][2]) for n in start)
