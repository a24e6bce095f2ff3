import numpy as np
import pytest
import torch

from fedcore.errors import BadData
from fedcore.sources.samples import as_samples, check_alike
from fedcore.types import ClientData


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


def test_whole_inputs_stay_whole_and_labels_with_a_fraction_are_left_to_be_refused():
    made = as_samples("client 0", (np.array([[1, 2]]), np.array([1.0])), torch.float32)
    assert made.x.dtype == torch.int64
    assert made.y.is_floating_point()


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


@pytest.mark.parametrize("bad", [("text", "more"), ([1.0],), ([1], [2], [3]), (3.0, 1), 7])
def test_what_is_no_pair_of_arrays_is_refused(bad):
    with pytest.raises(BadData, match=r"client 4 must be a pair \(inputs, labels\) of arrays"):
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
