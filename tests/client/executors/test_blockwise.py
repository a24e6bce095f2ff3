import threading

import pytest
import torch

from fedcore.client.executors.blockwise import BlockwiseExecutor
from fedcore.sources.clients import LazyClients
from fedcore.types import (
    Assignment,
    ClientData,
    LocalPlan,
    LocalUpdate,
    Phase,
    TrainingSettings,
    Way,
)

PLAN = LocalPlan((Phase(1),), Way.FULL)


class Noting(BlockwiseExecutor):
    """Trains nothing; the largest clients first."""

    def __init__(self, clients, **options):
        super().__init__(None, clients, TrainingSettings(0.1, 4), **options)
        self.blocks = []
        self.places = []

    def _rank(self, assignment):
        return (-len(self._clients[assignment.client_id]),)

    def _train(self, params, assignments):
        self.blocks.append([one.client_id for one in assignments])
        self.places.append((self._of_this_thread(object), torch.get_num_threads()))
        return [LocalUpdate(one.client_id, params, one.repeat) for one in assignments]


@pytest.mark.parametrize("threads", [1, 3])
def test_blocks_follow_the_rank_and_answers_the_questions(build_client, threads):
    clients = {k: build_client(size) for k, size in enumerate((10, 40, 30, 20))}
    executor = Noting(clients, block=2, threads=threads)
    asked = [Assignment(k, PLAN, 0, 0, repeat=n) for n, k in enumerate((0, 1, 2, 3, 1))]
    answers = executor.run({}, asked)
    assert [(one.client_id, one.num_samples) for one in answers] == [
        (0, 0),
        (1, 1),
        (2, 2),
        (3, 3),
        (1, 4),
    ]
    assert sorted(executor.blocks) == sorted([[1, 1], [2, 3], [0]])
    if threads == 1:
        assert executor.blocks == [[1, 1], [2, 3], [0]]


def test_who_trains_is_held_and_nobody_else():
    loaded = []

    def load(client):
        loaded.append(client)
        return ClientData(torch.zeros(2, 1), torch.zeros(2, dtype=torch.int64))

    class Looking(Noting):
        def _rank(self, assignment):
            return (-assignment.client_id,)  # by the number, so that nothing else is loaded

        def _train(self, params, assignments):
            for _ in range(2):
                [self._clients[one.client_id] for one in assignments]
            return super()._train(params, assignments)

    executor = Looking(LazyClients([2, 2, 2], load))
    for pair in ((0, 1), (1, 2)):
        executor.run({}, [Assignment(client, PLAN, 0, 0) for client in pair])
    assert sorted(loaded) == [0, 1, 2]


def test_a_thread_computes_on_one_core_with_tools_of_its_own(build_client):
    together = threading.Barrier(2, timeout=20)
    executor = Noting({k: build_client(5) for k in range(2)}, threads=2)
    train = executor._train

    def meet(params, assignments):
        together.wait()
        return train(params, assignments)

    executor._train = meet
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        executor.run({}, [Assignment(k, PLAN, 0, 0) for k in range(2)])
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    executor.close()
    tools, cores = zip(*executor.places, strict=True)
    assert tools[0] is not tools[1]
    assert cores == (1, 1)


def test_a_thread_keeps_its_tools(build_client):
    executor = Noting({0: build_client(5)})
    for _ in range(2):
        executor.run({}, [Assignment(0, PLAN, 0, 0)])
    assert executor.places[0] == executor.places[1]
