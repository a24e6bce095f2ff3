"""Samples come out the same, whatever holds them."""

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

from fedcore.coreset.batches import batches
from fedcore.errors import BadData, BadOption

X = np.arange(14.0).reshape(7, 2)
Y = np.arange(7) % 3


class Stream(IterableDataset):
    def __iter__(self):
        return iter(zip(X, Y, strict=True))


class Triples(Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, index):
        return X[index], Y[index], index


def dataset():
    return TensorDataset(torch.from_numpy(X), torch.from_numpy(Y))


def joined(source, size=3, dtype=torch.float32):
    x, y = zip(*batches(source, size, dtype), strict=True)
    return torch.cat(x), torch.cat(y)


@pytest.mark.parametrize(
    "make",
    [
        lambda: (X, Y),
        lambda: [X, Y],
        lambda: (X.tolist(), Y.tolist()),
        lambda: (X.astype(np.float16), Y.astype(np.int32)),
        lambda: (torch.from_numpy(X), torch.from_numpy(Y).to(torch.uint8)),
        lambda: (X[::-1][::-1], Y.astype(np.uint32)),
        dataset,
        Stream,
        lambda: list(zip(X, Y, strict=True)),
        lambda: DataLoader(dataset(), batch_size=5),
        lambda: DataLoader(dataset(), batch_size=5, num_workers=0, drop_last=False),
        lambda: DataLoader(Stream(), batch_size=4),
        lambda: iter([(X[:3], Y[:3]), (X[3:], Y[3:])]),
    ],
)
def test_every_form_gives_the_same_samples(make):
    x, y = joined(make())
    assert x.dtype == torch.float32
    assert y.dtype == torch.int64
    assert torch.equal(x, torch.from_numpy(X).float())
    assert torch.equal(y, torch.from_numpy(Y))


def test_two_samples_in_a_list_are_samples():
    x, y = joined([(X[0], 1), (X[1], 2)])
    assert x.tolist() == [[0, 1], [2, 3]]
    assert y.tolist() == [1, 2]


def test_symbols_stay_whole_numbers():
    assert joined((X.astype(np.uint8), Y))[0].dtype == torch.uint8


def test_nothing_is_drawn_from_the_callers_generator():
    before = torch.get_rng_state()
    joined(dataset())
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ((X[:0], Y[:0]), "at least one sample, got none"),
        (([], []), "at least one sample, got none"),
        (TensorDataset(torch.zeros(0, 2), torch.zeros(0)), "at least one sample, got none"),
        (iter(()), "at least one sample, got none"),
        ((X, Y, Y), "dataset must be a pair .*, got a tuple of 3"),
        (Triples(), r"pairs \(input, label\), got a list of 3"),
        (X, "dataset must be a pair .* got a ndarray"),
        ({"x": X}, "dataset must be a pair .* got a dict"),
        (None, "dataset must be a pair .* got a NoneType"),
        ((X, Y[:3]), "7 inputs but 3 labels"),
        ((X, Y.astype(float)), "labels must be whole numbers, got torch.float64"),
        ((X, Y[:, None]), r"labels must be one class per sample, got shape \(3, 1\)"),
        ((X, ["a"] * 7), "labels must be numbers, got <U1; number the classes"),
        ((np.where(X == 8, np.nan, X), Y), "inputs must be finite .* but sample 4 is not"),
        ((X * 1e300, Y), "inputs must be finite torch.float32 numbers, but sample 0 is not"),
        ((3.0, 1), "inputs must have a row for every sample"),
        ((torch.eye(3).to_sparse(), Y[:3]), "inputs must be a dense tensor"),
        (iter([(X, Y[:3])]), r"inputs of shape \(7, 2\) but 3 labels"),
    ],
)
def test_what_cannot_be_read_is_one_sentence(source, sentence):
    with pytest.raises(BadData, match=sentence):
        joined(source)


@pytest.mark.parametrize(
    "loader",
    [
        DataLoader(dataset(), batch_size=2, shuffle=True),
        DataLoader(dataset(), batch_sampler=[[3, 1], [0, 2]]),
    ],
)
def test_a_loader_that_changes_the_order_is_refused(loader):
    with pytest.raises(BadOption, match=r"must keep its order.*give its \.dataset"):
        joined(loader)
