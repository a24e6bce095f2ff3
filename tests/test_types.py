import torch

from fedcore.types import ClientData

X = torch.arange(12.0).reshape(6, 2)
Y = torch.tensor([0, 1, 2, 0, 1, 2])


def test_without_rows_samples_are_rows():
    data = ClientData(X, Y)
    assert len(data) == 6
    x, y = data.take(torch.tensor([4, 1]))
    assert torch.equal(x, X[[4, 1]])
    assert torch.equal(y, Y[[4, 1]])
    assert data.labels is Y


def test_with_rows_samples_are_those_rows():
    data = ClientData(X, Y, rows=torch.tensor([5, 0, 3]))
    assert len(data) == 3
    assert data.labels.tolist() == [2, 0, 0]
    x, y = data.take(torch.tensor([2, 0]))
    assert torch.equal(x, X[[3, 5]])
    assert y.tolist() == [0, 2]
    assert torch.equal(data.take(slice(1, 3))[0], X[[0, 3]])


def test_a_slice_of_plain_samples_is_a_view():
    x, _ = ClientData(X, Y).take(slice(2, 4))
    assert x.untyped_storage().data_ptr() == X.untyped_storage().data_ptr()
