"""Plans borrowed from another strategy, with its options; refusals in one sentence."""

import pytest

from fedcore.config import Experiment
from fedcore.errors import BadOption, UnknownPlugin
from fedcore.sim.world import build_strategy
from fedcore.strategies import fedcore, fedprox
from fedcore.strategies._local import NONE, plan_of, refuse
from fedcore.types import SIT_OUT, ClientProfile

client = ClientProfile(100, 1.0)


def test_plans_are_those_of_the_strategy_named():
    for deadline in (1000.0, 190.0, 99.0, 0.5):
        mine = plan_of("fedcore", NONE)(client, deadline, 10)
        assert mine == fedcore.build().plan(client, deadline, 10)


def test_options_of_the_experiment_go_with_it():
    plan = plan_of("fedprox", {"fedprox_mu": 0.7, "catch_up": 10.0})(client, 399.0, 10)
    assert plan == fedprox.build(fedprox_mu=0.7, catch_up=10.0).plan(client, 399.0, 10)
    known = {"proxy": "logits", "method": {"unknown": 1}}
    expected = fedcore.build(proxy="logits").plan(client, 99.0, 10)
    assert plan_of("fedcore", known)(client, 99.0, 10) == expected


def test_a_pull_replaces_the_strategys_own_and_who_sits_out_has_none():
    assert plan_of("fedprox", NONE, 0.25)(client, 399.0, 10).prox_mu == 0.25
    assert plan_of("fedprox", NONE, 0.0)(client, 399.0, 10).prox_mu == 0.0
    assert plan_of("fedprox", NONE, 0.25)(client, 1.0, 10) == SIT_OUT


def test_a_strategy_that_borrows_from_one_that_borrows():
    """--method local=fedbuff: FedBuff's own plans, which are FedAvg's, and no circle."""
    asked = Experiment(method={"local": "fedbuff"})
    assert build_strategy("fedasync", asked, "input").plan(client, 1.0, 10).work(100) == 1000


def test_an_unknown_strategy_is_refused():
    with pytest.raises(UnknownPlugin, match="no strategy named 'fedpro'"):
        plan_of("fedpro", NONE)


def test_only_what_is_named_and_set_is_refused():
    refuse("x", {"optimiser": "sgd", "momentum": 0.0, "clip_norm": 2.0}, "optimiser", "momentum")
    with pytest.raises(BadOption, match=r"^x has no rule for clip_norm, got 2\.0; leave it out$"):
        refuse("x", {"clip_norm": 2.0}, "clip_norm")
