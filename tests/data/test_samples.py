import pytest
import torch

from fedcore.data._samples import check_alike
from fedcore.errors import BadData


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
