import pytest

from fedcore.strategies.fedprox import build
from fedcore.types import ClientProfile, Way


@pytest.mark.parametrize(
    ("deadline", "epochs", "path"),
    [
        (1000.0, 10, Way.FULL),
        (999.0, 9, Way.PARTIAL),  # 9.99 epochs fit: 9 whole ones
        (100.0, 1, Way.PARTIAL),
        (99.0, 0, Way.SAT_OUT),  # not one epoch fits
        (5000.0, 10, Way.FULL),  # never more than asked for
    ],
)
def test_as_many_whole_epochs_as_fit(deadline, epochs, path):
    plan = build(fedprox_mu=0.3).plan(ClientProfile(100, 1.0), deadline, 10)
    assert plan.path is path
    assert plan.work(100) == 100 * epochs
    if epochs:
        assert plan.prox_mu == 0.3
