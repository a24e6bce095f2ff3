import pytest
import torch

from fedcore.types import ClientData, CoresetSpec, LocalPlan, Phase, TrainingSettings, Way

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


@pytest.mark.parametrize(("share", "work"), [(1.0, 34), (0.5, 17), (0.3, 11), (0.01, 1)])
def test_a_share_of_the_model_costs_that_share_of_the_samples(share, work):
    """10 + 3 x 8 = 34 samples, rounded up: 10.2 and 0.34 are 11 and 1."""
    phases = (Phase(1), Phase(3, CoresetSpec(8, "uniform", "none")))
    assert LocalPlan(phases, Way.CORESET, trained_share=share).work(10) == work


def test_settings_say_whether_steps_are_those_of_plain_sgd():
    assert TrainingSettings(0.1, 8, schedule=lambda version: 0.5).plain
    for name, value in (("momentum", 0.1), ("adam", True), ("weight_decay", 0.1), ("clip_norm", 1)):
        assert not TrainingSettings(0.1, 8, **{name: value}).plain
