import pytest

from fedcore.strategies.fedavg_ds import build
from fedcore.types import ClientProfile, Path


@pytest.mark.parametrize(
    ("deadline", "path"),
    [(1000.0, Path.FULL), (1000.1, Path.FULL), (999.9, Path.SAT_OUT)],
)
def test_whoever_would_be_late_is_dropped(deadline, path):
    assert build().plan(ClientProfile(100, 1.0), deadline, 10).path is path
