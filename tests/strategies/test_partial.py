import pytest

from fedcore.config import Experiment
from fedcore.sim.world import build_strategy
from fedcore.strategies.partial import build
from fedcore.types import ClientProfile, Way


@pytest.mark.parametrize(
    ("deadline", "epochs", "path"),
    [(1000.0, 10, Way.FULL), (999.0, 9, Way.PARTIAL), (99.0, 0, Way.SAT_OUT)],
)
def test_as_many_whole_epochs_as_fit_and_no_pull(deadline, epochs, path):
    plan = build().plan(ClientProfile(100, 1.0), deadline, 10)
    assert (plan.path, plan.work(100), plan.prox_mu) == (path, 100 * epochs, 0.0)


def test_options_of_fedprox_do_not_reach_it():
    asked = Experiment(fedprox_mu=0.7, catch_up=5.0)
    plan = build_strategy("partial", asked, "input").plan(ClientProfile(100, 1.0), 200.0, 10)
    assert (plan.prox_mu, plan.step_scale) == (0.0, 1.0)
