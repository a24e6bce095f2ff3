import pytest

from fedcore.strategies.fedavg_ds import build
from fedcore.types import ClientProfile, Way


@pytest.mark.parametrize(
    ("deadline", "path"),
    [(1000.0, Way.FULL), (1000.1, Way.FULL), (999.9, Way.SAT_OUT)],
)
def test_whoever_would_be_late_is_dropped(deadline, path):
    assert build().plan(ClientProfile(100, 1.0), deadline, 10).path is path
