"""Numbers are the executor contract's business; here, who is stepped with whom."""

import pytest
import torch
from torch import nn

from fedcore.client.coresets import Coresets
from fedcore.client.executors import vectorised as module
from fedcore.client.executors.sequential import SequentialExecutor
from fedcore.client.executors.stacked_model import form_of
from fedcore.client.executors.steps import Pool, Steps
from fedcore.client.executors.vectorised import Block, VectorisedExecutor
from fedcore.task import Task
from fedcore.types import (
    Assignment,
    CoresetSpec,
    LocalPlan,
    Phase,
    TrainingSettings,
    Way,
    Weighting,
)

FULL = LocalPlan((Phase(2),), Way.FULL)
CHOSEN = LocalPlan((Phase(1), Phase(2, CoresetSpec(4, "kcenter", "logits"))), Way.CORESET)


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
    torch.manual_seed(0)
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
    monkeypatch.setattr(module, "LONGEST_RUN", 5)
    train(build_client, (36, 44), (CHOSEN, FULL))
    lengths = [(len(steps), watch) for steps, watch in ran]
    assert lengths[:2] == [(5, 2), (4, 2)]
    assert max(length for length, watch in lengths if watch is None) == 5


def test_all_who_begin_with_a_look_share_one_pass(build_client, monkeypatch):
    """Who has looked itself chooses the same samples, and ends where it ends alone."""
    spec = CoresetSpec(4, "kcenter", "logits")
    looked = LocalPlan((Phase(1, forward_price=1 / 3), Phase(2, spec)), Way.FORWARD_CORESET)
    passes, look = [], module.head_gradients

    def counted(task, params, batches):
        pieces = list(batches)
        passes.append(sum(len(y) for _, y in pieces))
        return look(task, params, pieces)

    monkeypatch.setattr(module, "head_gradients", counted)
    together = train(build_client, (36, 20, 44), (looked, FULL, looked))
    assert passes == [36 + 44]
    monkeypatch.setattr(Block, "_look", lambda self, clients: None)
    alone = train(build_client, (36, 20, 44), (looked, FULL, looked))
    for one, other in zip(together, alone, strict=True):
        assert (one.coreset_size, one.loss_count) == (other.coreset_size, other.loss_count)
        assert all(torch.allclose(one.params[n], other.params[n], atol=1e-6) for n in one.params)


def test_who_trains_on_one_draw_alone_brings_no_other_samples(build_client, monkeypatch):
    """Of 40 samples the pool gets the 5 that were drawn; who looks at others brings them all."""
    drawn, static = CoresetSpec(5, "uniform-plain", "none"), CoresetSpec(5, "kcenter", "logits")
    plans = (
        LocalPlan((Phase(3, drawn),), Way.RANDOM_SUBSET),
        LocalPlan((Phase(1), Phase(2, drawn)), Way.CORESET),
        LocalPlan((Phase(1), Phase(2, static)), Way.CORESET),
    )
    clients = {k: build_client(40, seed=k) for k in range(len(plans))}
    task, asked = Task(nn.Linear(3, 2)), [Assignment(k, plan, 0, 0) for k, plan in enumerate(plans)]
    brought, fill = [], Pool.fill

    def counted(self, given, *ids):
        brought.extend(map(len, given))
        return fill(self, given, *ids)

    monkeypatch.setattr(Pool, "fill", counted)
    for measured, expected in ((False, [5, 40, 40]), (True, [40, 40, 40])):
        settings = TrainingSettings(0.1, 4, measure_full_gradient=measured)
        plain = SequentialExecutor(task, clients, settings).run(task.initial_params(), asked)
        found = VectorisedExecutor(task, clients, settings, block=100)
        found = found.run(task.initial_params(), asked)
        assert sorted(brought) == expected
        brought.clear()
        for one, other in zip(found, plain, strict=True):
            assert one.num_samples == other.num_samples == 40
            assert (one.coreset_size, one.loss_count) == (other.coreset_size, other.loss_count)
            errors = one.full_gradient_error or 0.0, other.full_gradient_error or 0.0
            assert errors[0] == pytest.approx(errors[1], rel=1e-4)
            assert one.loss_sum == pytest.approx(other.loss_sum, rel=1e-5)
            close = (torch.allclose(one.params[n], other.params[n], atol=1e-6) for n in one.params)
            assert all(close)


def test_one_copy_of_the_last_layer_serves_all_who_begin_with_a_look(build_client, monkeypatch):
    """On a GPU the host waits for each."""
    spec = CoresetSpec(4, "kcenter", "logits")
    looked = LocalPlan((Phase(1, forward_price=1 / 3), Phase(2, spec)), Way.FORWARD_CORESET)
    copies, head_weight = [], Task.head_weight

    def counted(self, params):
        copies.append(1)
        return head_weight(self, params)

    monkeypatch.setattr(Task, "head_weight", counted)
    train(build_client, (36, 20, 44), (looked,) * 3)
    assert len(copies) == 1


def test_a_sample_that_is_drawn_twice_is_noted_twice(build_client):
    """A draw by weight repeats samples: their losses count as often, as in the plain executor."""
    spec = CoresetSpec(9, "kcenter", "input", Weighting.PROPORTIONAL)
    plan = LocalPlan((Phase(2, spec),), Way.STATIC_CORESET)
    clients, settings = {0: build_client(30, seed=0)}, TrainingSettings(0.1, 4)
    task, asked = Task(nn.Linear(3, 2)), [Assignment(0, plan, 0, 0)]
    kinds = SequentialExecutor, VectorisedExecutor
    updates = [kind(task, clients, settings).run(task.initial_params(), asked) for kind in kinds]
    (expected,), (found,) = updates
    assert found.loss_count == expected.loss_count == 9
    assert found.loss_sum == pytest.approx(expected.loss_sum, rel=1e-6)
    assert found.loss_square_sum == pytest.approx(expected.loss_square_sum, rel=1e-6)
