"""Numbers are the executor contract's business; here, who is stepped with whom."""

import pytest
import torch
from torch import nn

from fedcore.client.coresets import Coresets
from fedcore.client.executors import vectorised as module
from fedcore.client.executors.stacked_model import form_of
from fedcore.client.executors.steps import Pool, Steps
from fedcore.client.executors.vectorised import Block
from fedcore.task import Task
from fedcore.types import Assignment, CoresetSpec, LocalPlan, Path, Phase, TrainingSettings

FULL = LocalPlan((Phase(2),), Path.FULL)
CHOSEN = LocalPlan((Phase(1), Phase(2, CoresetSpec(4, "kcenter", "logits"))), Path.CORESET)


@pytest.fixture
def ran(monkeypatch):
    """Which slots were active in every step, run by run."""
    found = []
    run = Steps.run

    def noted(self, tape, watch):
        found.append(((tape.coefficient > 0).any(dim=2).int().tolist(), watch))
        return run(self, tape, watch)

    monkeypatch.setattr(Steps, "run", noted)
    return found


def train(build_client, sizes, plans):
    clients = {k: build_client(size, seed=k) for k, size in enumerate(sizes)}
    task, pool = Task(nn.Linear(3, 2)), Pool(torch.device("cpu"))
    steps = Steps(form_of(task), pool, TrainingSettings(0.1, 4), record=False)
    block = Block(task, TrainingSettings(0.1, 4), Coresets(clients), pool, steps)
    assignments = [Assignment(k, plan, 0, 0) for k, plan in enumerate(plans)]
    return block.train(task.initial_params(), assignments, list(clients.values()))


def test_who_has_finished_leaves_and_the_others_move_up(build_client, ran):
    """Steps are 2, 4 and 6: slots stay while three quarters are at work, which two of 3 are not."""
    answers = train(build_client, (4, 8, 12), (FULL,) * 3)
    assert [steps for steps, _ in ran] == [[[1, 1, 1]] * 2, [[1, 1]] * 2, [[1]] * 2]
    assert [answer.steps for answer in answers] == [2, 4, 6]


def test_who_chooses_rests_for_an_eighth_of_its_epoch_while_others_go_on(build_client, ran):
    """36 samples are 9 steps: after them two of rest, then two on the coreset."""
    train(build_client, (36, 40), (CHOSEN, FULL))
    together = [slots for steps, _ in ran for slots in steps]
    assert together[:9] == [[1, 1]] * 9
    assert together[9:11] == [[0, 1]] * 2
    assert together[11:13] == [[1, 1]] * 2
    assert together[13:] == [[1]] * 7
    assert [watch for _, watch in ran][:2] == [2, None]


def test_long_tapes_are_cut(build_client, ran, monkeypatch):
    monkeypatch.setattr(module, "LONGEST_WATCH", 4)
    monkeypatch.setattr(module, "LONGEST_RUN", 5)
    train(build_client, (36, 44), (CHOSEN, FULL))
    lengths = [(len(steps), watch) for steps, watch in ran]
    assert lengths[:3] == [(4, 2), (4, 2), (1, 2)]
    assert max(length for length, watch in lengths if watch is None) == 5
