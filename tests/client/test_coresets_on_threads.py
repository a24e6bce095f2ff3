"""Coresets chosen beside the training: the same choices, and nobody's numbers depend on timing."""

import dataclasses
import threading
import time
from concurrent.futures import CancelledError

import pytest
import torch
from torch import nn

from fedcore.client import coresets as coresets_module
from fedcore.client.coresets import Coresets
from fedcore.client.executors import vectorised
from fedcore.client.executors.sequential import SequentialExecutor
from fedcore.client.executors.steps import Steps
from fedcore.client.executors.vectorised import VectorisedExecutor
from fedcore.task import Task
from fedcore.types import Assignment, CoresetSpec, LocalPlan, Phase, TrainingSettings, Way

SIZES = (9, 40, 64, 25, 80, 33)
KCENTER = CoresetSpec(6, "kcenter", "logits")
STATIC = CoresetSpec(5, "kmedoids", "input")
PLANS = (
    LocalPlan((Phase(3),), Way.FULL),
    LocalPlan((Phase(1), Phase(4, KCENTER)), Way.CORESET),
    LocalPlan((Phase(1), Phase(2, STATIC)), Way.CORESET),
    LocalPlan((Phase(1, forward_price=0.3), Phase(3, KCENTER)), Way.FORWARD_CORESET),
    LocalPlan((Phase(3, STATIC),), Way.STATIC_CORESET),
    LocalPlan((Phase(1), Phase(5, KCENTER)), Way.CORESET),
)


@pytest.fixture
def setting(build_client):
    torch.manual_seed(0)
    task = Task(nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)))
    clients = {k: build_client(size, seed=k) for k, size in enumerate(SIZES)}
    return task, clients, [Assignment(k, plan, 0, 0) for k, plan in enumerate(PLANS)]


@pytest.fixture
def delays(monkeypatch):
    """Lets tests say how long the choice for a client of so many samples takes."""
    seconds = {}
    build = coresets_module.build_coreset

    def slow(candidates, *arguments):
        time.sleep(seconds.get(len(candidates), 0.0))
        return build(candidates, *arguments)

    monkeypatch.setattr(coresets_module, "build_coreset", slow)
    return seconds


def run(setting, **options):
    task, clients, assignments = setting
    options = {"block": 100} | options
    executor = VectorisedExecutor(task, clients, TrainingSettings(0.1, 4), **options)
    return executor, executor.run(task.initial_params(), assignments)


def test_late_choices_change_nobodys_numbers(setting, delays):
    """Bit for bit: who is stepped together with whom is not a matter of timing."""
    expected = run(setting, threads=2)[1]
    for late in ({40: 0.2}, {33: 0.15, 80: 0.05}, dict.fromkeys(SIZES, 0.04)):
        delays.clear()
        delays.update(late)
        for one, other in zip(run(setting, threads=2)[1], expected, strict=True):
            assert one.coreset_size == other.coreset_size
            assert one.gradient_error == other.gradient_error
            assert all(torch.equal(one.params[n], other.params[n]) for n in other.params)


@pytest.mark.parametrize("options", [{"threads": 1}, {"threads": 3}, {"block": 2, "threads": 2}])
def test_equal_to_the_plain_loop_however_late(setting, delays, options):
    task, clients, assignments = setting
    plain = SequentialExecutor(task, clients, TrainingSettings(0.1, 4))
    expected = plain.run(task.initial_params(), assignments)
    delays.update({40: 0.1, 25: 0.02})
    for one, other in zip(run(setting, **options)[1], expected, strict=True):
        assert one.coreset_size == other.coreset_size
        assert all(torch.allclose(one.params[n], other.params[n], atol=1e-6) for n in other.params)


def test_slots_at_rest_stay_where_they_are_in_recorded_steps(setting, delays, monkeypatch):
    """The steps of a GPU, with rounded numbers of slots; here they are taken one by one."""
    expected = run(setting, threads=2)[1]
    delays.update({40: 0.1})
    monkeypatch.setattr(vectorised, "Steps", lambda *a, record: Steps(*a, record=True))
    for one, other in zip(run(setting, threads=2)[1], expected, strict=True):
        assert all(torch.allclose(one.params[n], other.params[n], atol=1e-6) for n in other.params)


def test_others_are_trained_while_one_client_chooses(setting, delays, monkeypatch):
    """The choice of a client waits for steps of the others, which come if nobody waits for it."""
    asked, begun, stepped = threading.Event(), threading.Event(), threading.Event()
    build, begin = coresets_module.build_coreset, Coresets.begin

    def until_stepped(candidates, *arguments):
        if len(candidates) == 40:
            begun.set()
            assert stepped.wait(20)
        return build(candidates, *arguments)

    def noted(self, assignment, phase, *arguments):
        pending = begin(self, assignment, phase, *arguments)
        if assignment.plan.phases[phase].coreset and len(setting[1][assignment.client_id]) == 40:
            asked.set()
        return pending

    monkeypatch.setattr(coresets_module, "build_coreset", until_stepped)
    monkeypatch.setattr(Coresets, "begin", noted)
    from fedcore.client.executors import steps

    step = steps.stacked_step

    def watched(*arguments):
        if asked.is_set():  # a busy machine may be slow to start the thread that chooses
            assert begun.wait(20)
            stepped.set()
        return step(*arguments)

    monkeypatch.setattr(steps, "stacked_step", watched)
    run(setting, threads=2)
    assert stepped.is_set()


def test_choices_of_several_clients_are_made_at_once(setting, monkeypatch):
    """Both hold until the other has begun."""
    together = threading.Barrier(2, timeout=20)
    build = coresets_module.build_coreset

    def meet(candidates, *arguments):
        together.wait()
        return build(candidates, *arguments)

    monkeypatch.setattr(coresets_module, "build_coreset", meet)
    _, clients, _ = setting
    coresets = Coresets(clients, threads=2)
    spec = CoresetSpec(4, "uniform", "input")
    plan = LocalPlan((Phase(1, spec),), Way.STATIC_CORESET)
    pending = [coresets.begin(Assignment(k, plan, 0, 0), 0) for k in (0, 1)]
    assert all(len(choice().indices) == 4 for choice in pending)


def test_time_is_kept_and_only_those_who_wait_count(setting, delays):
    delays.update(dict.fromkeys(SIZES, 0.1))
    _, clients, assignments = setting
    alone, beside = Coresets(clients), Coresets(clients, threads=1)
    alone.begin(assignments[4], 0)()
    assert 0.1 <= alone.time.waited < 1
    assert 0 < alone.time.work < alone.time.waited  # sleep is no work
    pending = beside.begin(assignments[4], 0)
    time.sleep(0.3)
    pending()
    assert beside.time.waited < 0.1


def test_two_who_wait_at_once_wait_once(setting, delays):
    delays.update(dict.fromkeys(SIZES, 0.5))
    _, clients, assignments = setting
    coresets = Coresets(clients)
    threads = [
        threading.Thread(target=coresets.begin(assignments[k], phase))
        for k, phase in ((2, 1), (4, 0))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 0.5 <= coresets.time.waited < 0.9


def test_a_phase_on_everything_takes_no_time(setting):
    _, clients, assignments = setting
    coresets = Coresets(clients)
    assert len(coresets.begin(assignments[0], 0)().indices) == SIZES[0]
    assert (coresets.time.work, coresets.time.waited) == (0, 0)


def test_a_choice_that_fails_says_so(setting, monkeypatch):
    def broken(*_):
        raise ValueError("no coreset today")

    monkeypatch.setattr(coresets_module, "build_coreset", broken)
    with pytest.raises(ValueError, match="no coreset today"):
        run(setting, threads=2)


def test_workers_keep_to_one_core_and_the_training_keeps_its_own(setting, monkeypatch):
    """What a worker sets must not become the number of threads of the steps beside it."""
    seen = []
    build = coresets_module.build_coreset

    def look(*arguments):
        seen.append(torch.get_num_threads())
        return build(*arguments)

    monkeypatch.setattr(coresets_module, "build_coreset", look)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        run(setting, threads=2)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert set(seen) == {1}


def test_a_worker_is_not_overruled_by_what_the_training_sets_later(setting):
    """PyTorch gives a thread that has never asked for its number the one that was set last."""
    _, clients, _ = setting
    coresets = coresets_module.Coresets(clients, threads=1)
    before = torch.get_num_threads()
    try:
        own = coresets._workers[0]
        own.submit(int).result()  # the worker has begun, and set its own
        torch.set_num_threads(2)
        assert own.submit(torch.get_num_threads).result() == 1
    finally:
        torch.set_num_threads(before)
        coresets.close()


@pytest.mark.parametrize("kind", [SequentialExecutor, VectorisedExecutor])
def test_executors_say_what_choosing_took(setting, kind):
    task, clients, assignments = setting
    executor = kind(task, clients, TrainingSettings(0.1, 4))
    executor.run(task.initial_params(), assignments)
    assert executor.selection.work > 0
    assert executor.selection.waited > 0


def test_what_is_expected_is_begun_and_made_once(setting, monkeypatch):
    """The largest first, ahead of a later round's, and nothing that asks for gradients."""
    made = []
    build = coresets_module.build_coreset

    def noted(candidates, *arguments):
        made.append(len(candidates))
        return build(candidates, *arguments)

    monkeypatch.setattr(coresets_module, "build_coreset", noted)
    _, clients, assignments = setting
    coresets = Coresets(clients, threads=1)
    assert [coresets.missing(one) for one in assignments] == [0, 0, 64, 0, 80, 0]
    coresets.expect(assignments)
    later = LocalPlan((Phase(1, dataclasses.replace(STATIC, budget=7)),), Way.STATIC_CORESET)
    coresets.expect([Assignment(5, later, 1, 0)])
    coresets.expect(assignments)
    found = [coresets.begin(assignments[k], phase)() for k, phase in ((2, 1), (4, 0))]
    last = coresets.begin(Assignment(5, later, 1, 0), 0)()
    assert made == [80, 64, 33]
    assert (len(found[0].indices), len(last.indices)) == (5, 7)
    assert not any(coresets.missing(one) for one in assignments)
    assert coresets.begin(assignments[2], 1)() is found[0]


def test_without_threads_nothing_is_begun(setting):
    _, clients, assignments = setting
    coresets = Coresets(clients)
    coresets.expect(assignments)
    assert coresets.missing(assignments[2]) == 64


def test_a_choice_that_fails_is_tried_again(setting, monkeypatch):
    _, clients, assignments = setting
    coresets = Coresets(clients, threads=1)
    build = coresets_module.build_coreset

    def fail(*arguments):
        raise ValueError("no")

    monkeypatch.setattr(coresets_module, "build_coreset", fail)
    with pytest.raises(ValueError, match="no"):
        coresets.begin(assignments[4], 0)()
    monkeypatch.setattr(coresets_module, "build_coreset", build)
    assert len(coresets.begin(assignments[4], 0)().indices) == 5


def test_closing_drops_what_no_thread_has_begun_and_waits_for_nothing(setting, monkeypatch):
    begun, gate, made = threading.Event(), threading.Event(), []
    build = coresets_module.build_coreset

    def held(candidates, *arguments):
        begun.set()
        assert gate.wait(20)
        made.append(len(candidates))
        return build(candidates, *arguments)

    monkeypatch.setattr(coresets_module, "build_coreset", held)
    _, clients, assignments = setting
    before = set(threading.enumerate())
    coresets = Coresets(clients, threads=1)
    coresets.expect(assignments)
    late = coresets.begin(assignments[2], 1)
    assert begun.wait(20)
    coresets.close()
    with pytest.raises(CancelledError):
        late()
    gate.set()
    for worker in set(threading.enumerate()) - before:
        worker.join(20)
    assert made == [80]


def test_plain_draws_are_made_where_they_are_asked_for(setting, monkeypatch):
    """Handing one to a thread, and waiting for it, takes longer than the draw."""
    task, clients, _ = setting
    drawn = LocalPlan((Phase(1, CoresetSpec(4, "uniform-plain", "none")),), Way.RANDOM_SUBSET)
    makers, build = set(), coresets_module.build_coreset

    def noted(*arguments):
        makers.add(threading.current_thread())
        return build(*arguments)

    monkeypatch.setattr(coresets_module, "build_coreset", noted)
    run((task, clients, [Assignment(k, drawn, 0, 0) for k in clients]), threads=2, block=9)
    assert makers == {threading.current_thread()}


def test_few_threads_choose_among_few_samples(build_client, monkeypatch):
    """More would only take the interpreter out of each other's hands; large sets have them all."""
    monkeypatch.setattr(coresets_module, "SMALL", 30)
    clients = {k: build_client(20 + 20 * (k // 8), seed=k) for k in range(16)}
    plan = LocalPlan((Phase(1, STATIC),), Way.STATIC_CORESET)
    makers, build = {20: set(), 40: set()}, coresets_module.build_coreset

    def noted(candidates, *arguments):
        makers[len(candidates)].add(threading.current_thread())
        time.sleep(0.02)
        return build(candidates, *arguments)

    monkeypatch.setattr(coresets_module, "build_coreset", noted)
    coresets = Coresets(clients, threads=6)
    for choose in [coresets.begin(Assignment(k, plan, 0, 0), 0) for k in clients]:
        choose()
    coresets.close()
    assert len(makers[20]) == coresets_module.FEW < len(makers[40]) <= 6
