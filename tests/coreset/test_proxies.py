from fedcore.config import Experiment
from fedcore.coreset.proxies import PROXIES


def test_every_proxy_can_be_asked_for():
    for name in PROXIES:
        assert Experiment(proxy=name).proxy == name
