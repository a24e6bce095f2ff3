import torch
from torch import nn

from fedcore.client.executors.trial import bytes_of_a_step
from fedcore.task import Task
from fedcore.types import ClientData

CPU = torch.device("cpu")


class Recurrent(nn.Module):
    """nn.GRU has no rule for vmap."""

    def __init__(self):
        super().__init__()
        self.cells = nn.GRU(3, 4, batch_first=True)
        self.head = nn.Linear(4, 2)

    def forward(self, x):
        return self.head(self.cells(x)[0][:, -1])


def test_bytes_grow_with_the_batch(build_client):
    task = Task(nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)))
    small, large = (
        bytes_of_a_step(task, build_client(20), size, clients=2, device=CPU) for size in (2, 20)
    )
    assert 3 * 4 * 26 < small < large


def test_a_model_without_a_rule_can_be_trained_alone():
    data = ClientData(torch.randn(6, 5, 3), torch.randint(2, (6,)))
    assert bytes_of_a_step(Task(Recurrent()), data, 4, clients=2, device=CPU) is None
    assert bytes_of_a_step(Task(Recurrent()), data, 4, clients=1, device=CPU) is not None


class Centred(nn.Module):
    """Scores of a sample depend on those beside it."""

    def __init__(self):
        super().__init__()
        self.last = nn.Linear(3, 2)

    def forward(self, x):
        return self.last(x - x.mean(0))


def test_a_model_whose_samples_see_each_other_cannot_be_padded(build_client):
    for clients in (1, 2):
        task = Task(Centred())
        assert bytes_of_a_step(task, build_client(20), 4, clients=clients, device=CPU) is None
        assert bytes_of_a_step(task, build_client(1), 4, clients=clients, device=CPU) is None


def test_bytes_are_those_of_a_whole_batch_however_few_samples_the_example_has(build_client):
    task = Task(nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)))
    few, many = (
        bytes_of_a_step(task, build_client(size), 64, clients=2, device=CPU) for size in (1, 200)
    )
    assert few == many


def test_a_model_that_may_draw_is_found_out_also_where_the_draw_changes_nothing():
    class Drawing(nn.Linear):
        def forward(self, x):
            torch.rand(1)
            return super().forward(x)

    data = ClientData(torch.randn(6, 3), torch.randint(2, (6,)))
    task = Task(Drawing(3, 2))
    before = torch.get_rng_state()
    assert bytes_of_a_step(task, data, 4, clients=1, device=CPU) is None
    assert torch.equal(torch.get_rng_state(), before)
