"""The way through a plan, asked for step by step, with choices that are made up."""

import numpy as np
import pytest
import torch
from torch import nn

from fedcore.client.coresets import Coresets
from fedcore.client.job import Job, loss_sums, phase_schedule, waits_for_gradients
from fedcore.client.schedule import BatchSchedule, Samples
from fedcore.coreset.proxies import HeadGradients
from fedcore.errors import BadOption
from fedcore.task import Task
from fedcore.types import (
    Assignment,
    ClientData,
    CoresetSpec,
    LocalPlan,
    Phase,
    TrainingSettings,
    Way,
)

BY_INPUTS = CoresetSpec(3, "kmedoids", "input")
BY_GRADIENTS = CoresetSpec(4, "kmedoids", "logits")
DRAWN = CoresetSpec(2, "uniform-plain", "none")
TASK = Task(nn.Linear(3, 2))
PARAMS = TASK.initial_params()
SEEN = HeadGradients(torch.zeros(20, 2), torch.zeros(20, 3), torch.zeros(20))


class Choices:
    """Notes what is begun, and answers with the first samples."""

    def __init__(self, num_samples):
        self.num_samples = num_samples
        self.begun = []
        self.taken = []

    def begin(self, assignment, phase, watched=None):
        self.begun.append((phase, watched))
        spec = assignment.plan.phases[phase].coreset
        size = self.num_samples if spec is None else spec.budget

        def take():
            self.taken.append(phase)
            weights = np.full(size, self.num_samples / size)
            return Samples(np.arange(size), weights, gradient_error=0.25, fell_back=phase > 0)

        return take


def a_job(*phases, num_samples=20, measure=False):
    choices = Choices(num_samples)
    draw = torch.Generator().manual_seed(0)
    x, y = torch.randn(num_samples, 3, generator=draw), torch.arange(num_samples) % 2
    assignment = Assignment(7, LocalPlan(phases, Way.CORESET), base_version=3, seed=1)
    settings = TrainingSettings(0.1, 4, measure_full_gradient=measure)
    return Job(assignment, TASK, ClientData(x, y), settings, choices), choices


def end(job):
    while job.next(PARAMS) is not None:
        pass


def test_everything_then_a_coreset_by_its_gradients():
    job, choices = a_job(Phase(1), Phase(3, BY_GRADIENTS), num_samples=130)
    first = job.next(PARAMS)
    assert isinstance(first, BatchSchedule)
    assert (len(first.index), first.watch, first.first_epoch) == (33, True, 33)
    assert choices.begun == [(0, None)]
    # 130 samples in batches of 4 are 33 steps, an eighth of which is 4.1.
    now = {name: value + 1 for name, value in PARAMS.items()}
    resting = job.next(now, SEEN)
    assert (resting.rest, len(resting.index)) == (5, 0)
    phase, watched = choices.begun[1]
    assert (phase, watched.gradients, watched.bias) == (1, SEEN, True)
    assert torch.equal(watched.weight, now["weight"])
    now["weight"].zero_()  # what moves on in place does not move what was seen
    assert not torch.equal(watched.weight, now["weight"])
    assert choices.taken == [0]  # who rests does not wait yet
    second = job.next(PARAMS)
    assert (len(second.index), second.watch, second.first_epoch) == (3, False, 0)
    assert sorted(second.index[0].tolist()) == [0, 1, 2, 3]
    assert job.next(PARAMS) is None


def test_what_needs_no_gradients_is_begun_at_once_and_nobody_rests_for_it():
    job, choices = a_job(Phase(2), Phase(1, BY_INPUTS), Phase(1, DRAWN))
    assert choices.begun == [(1, None), (2, None)]
    found = [job.next(PARAMS) for _ in range(4)]
    assert [type(one) for one in found] == [BatchSchedule] * 3 + [type(None)]
    assert [one.watch for one in found[:3]] == [False] * 3
    assert choices.taken == [0, 1, 2]


def test_a_first_coreset_is_rested_for_unless_it_is_drawn():
    assert a_job(Phase(2, BY_INPUTS))[0].next(PARAMS).rest
    assert isinstance(a_job(Phase(2, DRAWN))[0].next(PARAMS), BatchSchedule)


def test_a_look_is_one_pass_over_everything_in_order_and_takes_no_steps():
    job, choices = a_job(Phase(1, forward_price=0.3), Phase(2, BY_GRADIENTS), num_samples=300)
    assert job.next(PARAMS).rest
    ((phase, watched),) = choices.begun
    assert phase == 1
    x, y = job.data.take(slice(None))
    expected = torch.softmax(TASK.logits(PARAMS, x), dim=1) - nn.functional.one_hot(y, 2)
    assert torch.allclose(watched.gradients.residuals, expected, atol=1e-6)
    assert job.next(PARAMS).first_epoch == 1
    assert job.next(PARAMS) is None
    answer = job.answer({})
    assert (answer.steps, answer.loss_count) == (2, 4)


@pytest.mark.parametrize("phases", [(Phase(2),), (Phase(1, DRAWN),)])
def test_gradients_come_of_one_epoch_on_everything_alone(phases):
    job, _ = a_job(*phases, Phase(1, BY_GRADIENTS))
    with pytest.raises(BadOption, match="right behind one epoch on everything"):
        job.next(PARAMS)


def test_the_answer():
    job, _ = a_job(Phase(2), Phase(3, BY_INPUTS), num_samples=10)
    end(job)
    job.noted.append(torch.tensor([1.5, 2.25], dtype=torch.float64))
    job.noted.append(torch.tensor([0.5, 0.25], dtype=torch.float64))
    answer = job.answer({"w": torch.ones(1)})
    assert (answer.client_id, answer.num_samples, answer.base_version) == (7, 10, 3)
    assert answer.steps == 2 * 3 + 3
    assert (answer.loss_sum, answer.loss_square_sum, answer.loss_count) == (2.0, 2.5, 10)
    assert (answer.coreset_size, answer.gradient_error, answer.fell_back) == (3, 0.25, True)
    assert answer.full_gradient_error is None
    assert answer.params["w"].item() == 1


def test_the_error_on_the_whole_gradient_is_measured_where_asked_for():
    job, _ = a_job(Phase(1), Phase(1, BY_INPUTS), measure=True)
    end(job)
    assert job.answer({}).full_gradient_error > 0


def test_nothing_of_a_coreset_is_said_where_there_was_none():
    job, _ = a_job(Phase(1))
    job.next(PARAMS)
    answer = job.answer({})
    assert (answer.coreset_size, answer.gradient_error, answer.fell_back) == (None, None, False)


@pytest.mark.parametrize(
    ("phases", "expected"),
    [
        ((Phase(1), Phase(1, BY_INPUTS)), False),
        ((Phase(1), Phase(1, BY_GRADIENTS)), True),
        ((Phase(1, forward_price=0.3), Phase(1, BY_GRADIENTS)), False),  # all at the beginning
        ((Phase(1), Phase(1, forward_price=0.3), Phase(1, BY_GRADIENTS)), True),
        ((Phase(1, forward_price=0.3),), True),
        ((Phase(1), Phase(1, CoresetSpec(3, "loss-topk", "input"))), True),
    ],
)
def test_who_waits_for_gradients(phases, expected):
    assert waits_for_gradients(LocalPlan(phases, Way.CORESET)) is expected


def test_a_schedule_is_another_one_for_every_version_phase_client_and_repeat():
    plan, samples = LocalPlan((Phase(1), Phase(1)), Way.FULL), Samples.everything(40)

    def order(client=0, version=0, phase=0, repeat=0):
        assignment = Assignment(client, plan, version, 5, repeat)
        return phase_schedule(assignment, phase, samples, 8).index.tolist()

    others = [{"client": 1}, {"version": 1}, {"phase": 1}, {"repeat": 1}]
    assert order() == order()
    assert all(order(**other) != order() for other in others)


def test_sums_of_losses_are_exact_and_of_the_last_axis():
    losses = torch.tensor([[1.0, 2.0**-24], [3.0, 4.0]])
    assert loss_sums(losses).tolist() == [[1 + 2.0**-24, 1 + 2.0**-48], [7, 25]]


def test_a_kept_coreset_is_the_same_whichever_version_asks_first(build_client):
    """It belongs to no round, so a run that goes on from a checkpoint chooses it again."""
    plan = LocalPlan((Phase(1, CoresetSpec(6, "uniform", "input")),), Way.STATIC_CORESET)
    chosen = [
        Coresets({0: build_client(30)}).begin(Assignment(0, plan, version, 9), 0)()
        for version in (0, 5)
    ]
    assert chosen[0].indices.tolist() == chosen[1].indices.tolist()
