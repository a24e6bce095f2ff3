"""Samples come out the same, whatever holds them; what holds none is refused."""

import numpy as np
import pytest
import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    SequentialSampler,
    TensorDataset,
)

from fedcore.arrays import as_labels, as_samples, as_tensor, batches, check_alike
from fedcore.errors import BadData, BadOption
from fedcore.types import ClientData

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
        lambda: (X, Y.astype(float)),
        lambda: (X, torch.from_numpy(Y).to(torch.uint32)),
        lambda: (np.ma.masked_array(X, False), Y),
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
        (Triples(), r"a batch .* must be a pair \(inputs, labels\) of .*, got a list of 3"),
        (X, "dataset must be a pair .* got a ndarray"),
        ([X, Y, Y], "dataset must be a pair .* got a list of 3"),
        ({"x": X}, "dataset must be a pair .* got a dict"),
        (None, "dataset must be a pair .* got a NoneType"),
        ((X, Y[:3]), "7 inputs but 3 labels"),
        ((X, Y + 0.5), "labels of the dataset must be whole numbers, got 0.5 for sample 0"),
        (
            (X, Y[:, None]),
            r"labels of the dataset must be one class per sample, got shape \(7, 1\)",
        ),
        ((X, ["a"] * 7), "labels of the dataset must be numbers, got <U1; number the classes"),
        ((np.where(X == 8, np.nan, X), Y), "inputs must be finite .* but sample 4 is not"),
        ((X * 1e300, Y), "inputs must be finite torch.float32 numbers, but sample 0 is not"),
        ((3.0, 1), "inputs of the dataset must have a row for every sample"),
        ((torch.eye(3).to_sparse(), Y[:3]), "inputs of the dataset must be a dense tensor"),
        (
            (torch.eye(3, device="meta"), Y[:3]),
            "inputs of the dataset must hold numbers, got .* meta device",
        ),
        (
            (np.ma.masked_equal(X, 3), Y),
            "inputs of the dataset must all be there, got some that are masked",
        ),
        (
            (X, np.full(7, 1e300)),
            r"labels of the dataset must be whole numbers, got 1e\+300 for sample 0",
        ),
        (
            (X, [10**30] * 7),
            "labels of the dataset must be numbers, got object; number the classes",
        ),
        (iter([(X, Y[:3])]), "a batch of the dataset has 7 inputs but 3 labels"),
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


@pytest.mark.parametrize(
    "loader",
    [
        DataLoader(dataset(), batch_size=2, drop_last=True),
        DataLoader(Stream(), batch_size=2, drop_last=True),
        DataLoader(
            dataset(), batch_sampler=BatchSampler(SequentialSampler(dataset()), 2, drop_last=True)
        ),
        DataLoader(dataset(), batch_size=2, sampler=SequentialSampler(range(4))),
    ],
)
def test_a_loader_that_leaves_samples_out_is_refused(loader):
    with pytest.raises(BadOption, match=r"must give every sample.*drop_last=False"):
        joined(loader)


@pytest.mark.parametrize("floating", [torch.float32, torch.float64])
@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("whole", [np.uint8, np.int32, np.int64, bool])
@pytest.mark.parametrize("wrap", [lambda x, y: (x, y), ClientData])
def test_arrays_become_tensors_of_the_types_that_models_take(floating, kind, whole, wrap):
    x, y = np.array([[0.5, 2], [3, 4]], kind), np.array([1, 0], whole)
    for parts in ((x, y), (torch.from_numpy(x), torch.from_numpy(y))):
        made = as_samples("client 0", wrap(*parts), floating)
        assert (made.x.dtype, made.y.dtype) == (floating, torch.int64)
        assert made.x.tolist() == [[0.5, 2], [3, 4]]
        assert made.y.tolist() == [1, 0]


def test_whole_inputs_stay_whole_and_whole_labels_may_be_written_with_a_point():
    made = as_samples("client 0", (np.array([[1, 2]]), np.array([1.0])), torch.float32)
    assert made.x.dtype == torch.int64
    assert made.y.dtype == torch.int64


def test_rows_are_kept():
    table = ClientData(np.eye(3), np.arange(3), np.array([2, 0]))
    made = as_samples("client 0", table, torch.float32)
    assert made.take(slice(None))[0].tolist() == [[0, 0, 1], [1, 0, 0]]


def test_what_is_right_already_is_not_copied():
    x, y = torch.zeros(3, 2), torch.zeros(3, dtype=torch.int64)
    made = as_samples("client 0", (x, y), torch.float32)
    assert made.x is x
    assert made.y is y


@pytest.mark.parametrize("wrap", [lambda *parts: parts[:2], ClientData])
def test_arrays_that_may_only_be_read_are_copied_without_a_warning(wrap):
    """Warnings are errors in these tests."""
    parts = np.ones((3, 2), np.float32), np.zeros(3, int), np.arange(3)
    for part in parts:
        part.flags.writeable = False
    made = as_samples("client 0", wrap(*parts), torch.float32)
    made.x[:] = 7
    assert (parts[0] == 1).all()


@pytest.mark.parametrize(
    ("bad", "sentence"),
    [
        (("text", "more"), "inputs of client 4 must be numbers, got <U4"),
        (([1.0],), r"client 4 must be a pair \(inputs, labels\) of arrays, got a tuple of 1"),
        (([1], [2], [3]), "client 4 must be a pair .*, got a tuple of 3"),
        ((3.0, 1), "inputs of client 4 must have a row for every sample"),
        (([3.0], 1), r"labels of client 4 must be one class per sample, got shape \(\)"),
        (7, "client 4 must be a pair .*, got a int"),
        (([[1.0]], [0, 1]), "client 4 has 1 inputs but 2 labels"),
        (([[1.0]], [0.5]), "labels of client 4 must be whole numbers, got 0.5 for sample 0"),
        ((torch.eye(2).to_sparse(), [0, 1]), r"inputs of client 4 must be .*\.to_dense\(\)"),
        ((torch.eye(2, device="meta"), [0, 1]), "inputs of client 4 must hold numbers"),
        ((np.ma.masked_equal(np.eye(2), 1), [0, 1]), "inputs of client 4 must all be there"),
        ((np.eye(2) * 1j, [0, 1]), "inputs of client 4 must be numbers, got complex128"),
        (ClientData(np.eye(2), [0, 1], [0, 2]), "rows of client 4 must be .* 0 to 1, got 2"),
        (ClientData(np.eye(2), [0, 1], [0.5]), "rows of client 4 must be whole numbers, got 0.5"),
    ],
)
def test_what_is_no_pair_of_arrays_is_refused(bad, sentence):
    with pytest.raises(BadData, match=sentence):
        as_samples("client 4", bad, torch.float32)


def test_samples_may_differ_in_number_alone():
    check_alike("client 3", torch.zeros(5, 2, 4), "client 0", torch.ones(9, 2, 4))


@pytest.mark.parametrize(
    ("inputs", "kind"),
    [
        (torch.zeros(5, 3), r"shape \[3\] and type float32"),
        (torch.zeros(5, 1), r"shape \[1\] and type float32"),
        (torch.zeros(5), r"shape \[\] and type float32"),
        (torch.zeros(5, 2, dtype=torch.int64), r"shape \[2\] and type int64"),
        (torch.zeros(5, 2, dtype=torch.float64), r"shape \[2\] and type float64"),
    ],
)
def test_who_differs_is_named(inputs, kind):
    sentence = rf"client 3 has inputs of {kind}, but client 0 of shape \[2\] and type float32; all"
    with pytest.raises(BadData, match=sentence):
        check_alike("client 3", inputs, "client 0", torch.zeros(9, 2))


@pytest.mark.parametrize("shape", [(1, 4), (4, 1), (1, 1), (4, 2), (0, 2)])
def test_arrays_that_run_backwards_are_copied_also_where_they_hold_one_row_or_column(shape):
    own = np.arange(float(np.prod(shape))).reshape(shape)
    for backwards in (own[::-1], own[:, ::-1], own[::-1, ::-1]):
        np.testing.assert_array_equal(as_tensor("x", backwards).numpy(), backwards)
        assert as_samples(
            "client 0", (backwards, Y[: len(own)][::-1]), torch.float32
        ).x.is_contiguous()


def test_an_array_that_may_not_be_written_is_left_alone():
    array = np.arange(4)
    array.flags.writeable = False
    assert as_tensor("labels", array).tolist() == [0, 1, 2, 3]


def test_extended_precision_is_read_too():
    assert as_tensor("losses", np.ones(3, np.longdouble)).dtype == torch.float64


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1e300, 2.5])
def test_a_label_is_a_whole_number_that_can_be_counted(value):
    with pytest.raises(BadData, match=r"labels must be whole numbers, got .* for sample 1"):
        as_labels("labels", [0.0, value])
