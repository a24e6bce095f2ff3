"""Without a GPU, recorded steps are taken one by one, from the same buffers."""

import pytest
import torch
from torch import nn

from fedcore.client.executors.captured import CapturedSteps, rounded_up
from fedcore.client.executors.forms import form_of
from fedcore.client.executors.pool import Pool
from fedcore.client.executors.steps import EagerSteps, Tape
from fedcore.task import Task

DEVICES = ["cpu"] + (["cuda"] if torch.cuda.is_available() else [])


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("pulled", [False, True])
def test_equal_to_plain_steps(build_client, device, pulled):
    device = torch.device(device)
    task = Task(nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)))
    pool = Pool(device)
    pool.fill([build_client(30, seed=seed) for seed in range(17)])
    kinds = [kind(form_of(task), pool, 0.1) for kind in (EagerSteps, CapturedSteps)]
    pull = torch.full((17,), 0.02, device=device) if pulled else None
    for steps in kinds:
        steps.start(task.initial_params(), 17)
    before = 17
    for clients, watch in ((17, 2), (17, 0), (5, 0), (5, 2)):
        if clients < before:
            before = clients
            for steps in kinds:
                steps.keep([0, 3, 4, 9, 16])
        rows = torch.randint(17 * 30, (6, clients, 4), device=device)
        coefficient = torch.rand(6, clients, 4, device=device)
        tape = Tape(rows, coefficient, None if pull is None else pull[:clients])
        plain, recorded = (steps.run(tape, watch) for steps in kinds)
        assert len(plain) == len(recorded) == (6 if watch else 0)
        for one, other in zip(plain, recorded, strict=True):
            assert torch.allclose(one.residuals, other.residuals, atol=1e-5)
            assert torch.allclose(one.inputs, other.inputs, atol=1e-5)
        for slot in range(clients):
            expected = kinds[0].params_of(slot)
            for name, value in kinds[1].params_of(slot).items():
                assert torch.allclose(value, expected[name], atol=1e-5)


def test_few_different_widths():
    widths = {rounded_up(clients) for clients in range(1, 1001)}
    assert len(widths) < 70
    assert all(clients <= rounded_up(clients) <= 1.15 * clients for clients in range(1, 1001))
