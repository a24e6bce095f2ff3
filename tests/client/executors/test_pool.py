import pytest
import torch

from fedcore.client.executors.steps import Pool
from fedcore.errors import BadData
from fedcore.types import ClientData


def test_clients_lie_one_after_another(build_client):
    pool = Pool(torch.device("cpu"))
    clients = [build_client(5), build_client(7, seed=1)]
    placed = pool.fill(clients)
    assert [rows for rows, _ in placed] == [slice(0, 5), slice(5, 12)]
    for (rows, view), client in zip(placed, clients, strict=True):
        assert torch.equal(view.x, client.x)
        assert torch.equal(pool.y[rows], client.y)


def test_rows_of_a_view_are_written_out():
    text = torch.arange(6)
    data = ClientData(text.unfold(0, 2, 1), torch.arange(5), torch.tensor([3, 0]))
    pool = Pool(torch.device("cpu"))
    ((rows, _),) = pool.fill([data])
    assert pool.x[rows].tolist() == [[3, 4], [0, 1]]
    assert pool.y[rows].tolist() == [3, 0]


def test_buffers_stay_while_they_are_large_enough(build_client):
    pool = Pool(torch.device("cpu"))
    pool.fill([build_client(9)])
    address, generation = pool.x.data_ptr(), pool.generation
    pool.fill([build_client(4), build_client(5)])
    assert (pool.x.data_ptr(), pool.generation) == (address, generation)
    pool.fill([build_client(13)])  # a round may bring half as many samples again
    assert (pool.x.data_ptr(), pool.generation) == (address, generation)
    pool.fill([build_client(14)])
    assert pool.generation == generation + 1


@pytest.mark.parametrize(
    "other",
    [torch.zeros(4, 1), torch.zeros(4, 3, dtype=torch.float64), torch.zeros(4, 3).long()],
)
def test_samples_of_another_kind_are_refused_not_converted(build_client, other):
    pool = Pool(torch.device("cpu"))
    odd = ClientData(other, torch.zeros(4, dtype=torch.int64))
    with pytest.raises(BadData, match=r"client 9 has inputs of .*, but client 7 of shape"):
        pool.fill([build_client(5), odd], [7, 9])


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("places", [("cuda", "cpu"), ("cuda", "cuda"), ("cpu", "cuda")])
def test_samples_may_lie_on_either_side(build_client, places):
    """A user's tensors may be on the GPU before; a run may be asked to leave it alone."""
    pool, client = Pool(torch.device(places[0])), build_client(5)
    ((rows, _),) = pool.fill([client.to(torch.device(places[1]))])
    assert torch.equal(pool.x[rows].cpu(), client.x)
    assert torch.equal(pool.y[rows].cpu(), client.y)
