import pytest
import torch

from fedcore.errors import BadOption
from fedcore.server.aggregate import aggregation, by_samples, mean
from fedcore.types import LocalUpdate


def answer(client, value, samples, copies=1):
    return LocalUpdate(client, {"w": torch.tensor([value])}, samples, copies)


START = {"w": torch.tensor([9.0])}


def test_the_plain_mean_counts_draws_not_samples():
    # Drawn three times: client 0 once (1.0), client 1 twice (4.0): (1 + 4 + 4) / 3
    merged = mean(START, [answer(0, 1.0, samples=100), answer(1, 4.0, samples=1, copies=2)])
    assert merged["w"].item() == 3.0


def test_the_weighted_mean_counts_samples():
    merged = by_samples(START, [answer(0, 1.0, samples=3), answer(1, 5.0, samples=1)])
    assert merged["w"].item() == 2.0


@pytest.mark.parametrize("name", ["mean", "samples"])
def test_a_round_without_answers_keeps_the_model(name):
    assert aggregation(name)(START, []) is START


@pytest.mark.parametrize("name", ["mean", "samples"])
def test_the_order_of_the_answers_does_not_show(name):
    draw = torch.Generator().manual_seed(0)
    answers = [LocalUpdate(i, {"w": torch.randn(50, generator=draw)}, i + 1) for i in range(20)]
    start = {"w": torch.zeros(50)}
    forwards, backwards = (aggregation(name)(start, a)["w"] for a in (answers, answers[::-1]))
    assert torch.equal(forwards, backwards)


def test_an_unknown_name_is_refused():
    with pytest.raises(BadOption, match=r"aggregation must be one of mean, samples, got 'median'"):
        aggregation("median")
