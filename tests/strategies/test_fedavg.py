from fedcore.strategies.fedavg import build
from fedcore.types import ClientProfile, Way


def test_everybody_trains_in_full_however_slow():
    plan = build().plan(ClientProfile(100, 0.01), 1.0, 10)
    assert plan.path is Way.FULL
    assert plan.work(100) == 1000
