"""Without a GPU, recorded steps are taken one by one, from the same buffers."""

import pytest
import torch
from torch import nn

from fedcore.client.executors.stacked_model import form_of
from fedcore.client.executors.steps import Pool, Steps, Tape, rounded_up
from fedcore.task import Task
from fedcore.types import Assignment, LocalPlan, Phase, TrainingSettings, Way

DEVICES = ["cpu"] + (["cuda"] if torch.cuda.is_available() else [])


# How steps are taken, beside plain SGD
SETTINGS = {
    "sgd": {},
    "momentum": {"momentum": 0.9, "weight_decay": 0.1, "clip_norm": 0.2},
    "adam": {"adam": True, "clip_norm": 0.2},
    "schedule": {"schedule": lambda version: 1 / (1 + 2 * version)},
}
OWN = {
    "pull": {"prox_mu": 0.2},
    "scale": {"step_scale": 3.0},
    "share": {"trained_share": 0.5},
}


def assignments(task, clients, kind, version=0):
    """Whose rule has nothing of its own, or a pull, a scale or a shift for every other client."""
    shift = {n: 0.1 * torch.ones_like(v) for n, v in task.initial_params().items()}
    own = OWN.get(kind, {})
    return [
        Assignment(
            k,
            LocalPlan((Phase(1),), Way.FULL, **(own if k % 2 else {})),
            version,
            0,
            shift=shift if kind == "shift" and k % 2 else None,
        )
        for k in range(clients)
    ]


def padded(tape, steps):
    """The same tape for so many slots: those behind the last have coefficients of zero."""
    clients = tape.coefficient.shape[1]
    more = steps.width - clients
    grow = torch.nn.functional.pad
    rows = grow(tape.rows, (0, 0, 0, more))
    rows[:, 1, clients:] = len(steps.met) - 1  # and note nothing
    return Tape(rows, grow(tape.coefficient, (0, 0, 0, more)))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", ["plain", "pull", "scale", "shift", "share"])
@pytest.mark.parametrize("how", SETTINGS)
def test_recorded_steps_are_plain_steps(build_client, device, kind, how):
    device = torch.device(device)
    task = Task(nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)))
    pool = Pool(device)
    pool.fill([build_client(30, seed=seed) for seed in range(17)])
    form = form_of(task.on(device))
    settings = TrainingSettings(0.1, 4, **SETTINGS[how])
    ways = [Steps(form, pool, settings, record=record) for record in (False, True)]
    for version, given in enumerate(("plain", kind)):  # what an earlier block left does not matter
        for steps in ways:
            steps.start(task.initial_params(), assignments(task, 17, given, version))
        before = 17
        for clients, watch in ((17, 2), (17, None), (5, None), (5, 2)):
            if clients < before:
                before = clients
                for steps in ways:
                    steps.keep([0, 3, 4, 9, 16])
            rows = torch.randperm(17 * 30)[: 6 * clients * 4].view(6, clients, 4)
            coefficient = torch.rand(6, clients, 4)
            coefficient[3:, 1] = 0.0  # who rests stays where it is
            coefficient[-1] = 1.0
            noted = torch.where(coefficient > 0.5, rows, len(pool.x))
            tape = Tape(torch.stack([rows, noted], dim=1), coefficient)
            kept, seen = rows[coefficient > 0], []
            for steps in ways:
                steps.run(padded(tape, steps), watch)
                seen.append([part[kept] for part in steps.seen(slice(None), 2)] if watch else [])
            for one, other in zip(*seen, strict=True):
                assert torch.allclose(one, other, atol=1e-5)
            losses = [steps.met.cpu()[:-1] for steps in ways]
            assert torch.allclose(*losses, atol=1e-5)
            there = noted[noted < len(pool.x)]
            assert (losses[0][there] > 0).all()
            if watch:
                assert torch.equal(
                    losses[0][noted[-1]], ways[0].seen(slice(None), 2).losses[noted[-1]]
                )
            for slot in range(clients):
                expected = ways[0].views[slot]
                for name, value in ways[1].views[slot].items():
                    assert torch.allclose(value, expected[name], atol=1e-5)


@pytest.mark.parametrize("record", [False, True])
@pytest.mark.parametrize("kind", ["pull", "scale", "shift", "share"])
@pytest.mark.parametrize("how", ["sgd", "momentum", "adam"])
def test_who_moves_up_takes_its_rule_along(build_client, kind, how, record):
    """Clients 0 and 2 have no rule of their own: alone, client 3 goes where it went beside them.

    What its optimiser remembers goes along: beside them it takes its first steps at its old place.
    """
    task = Task(nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)))
    pool = Pool(torch.device("cpu"))
    pool.fill([build_client(30)])
    asked = assignments(task, 4, kind)
    rows = torch.stack([torch.arange(12).view(3, 1, 4), torch.full((3, 1, 4), 30)], dim=1)
    tape = Tape(rows, torch.full((3, 1, 4), 0.25))
    settings, moved = TrainingSettings(0.1, 4, **SETTINGS[how]), []
    for first, kept in ((asked, [3, 2]), (asked[3:], [0])):
        steps = Steps(form_of(task), pool, settings, record=record)
        steps.start(task.initial_params(), first)
        coefficient = tape.coefficient.repeat(1, len(first), 1)
        coefficient[1:, :-1] = 0.0  # the others come to their end
        steps.run(Tape(tape.rows.repeat(1, 1, len(first), 1), coefficient), None)
        steps.keep(kept)
        clients = len(kept)
        steps.run(
            Tape(tape.rows.repeat(1, 1, clients, 1), tape.coefficient.repeat(1, clients, 1)), None
        )
        moved.append(steps.views[0])
    assert all(torch.allclose(moved[0][n], moved[1][n], atol=1e-6) for n in moved[0])


def test_few_different_widths():
    widths = {rounded_up(clients) for clients in range(1, 1001)}
    assert len(widths) < 70
    assert all(clients <= rounded_up(clients) <= 1.15 * clients for clients in range(1, 1001))
