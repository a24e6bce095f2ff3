"""Plans borrowed from another strategy, with its options; refusals in one sentence."""

import pytest

from fedcore.config import Experiment
from fedcore.errors import BadOption, UnknownPlugin
from fedcore.server.method import Pace
from fedcore.sim.world import build_strategy
from fedcore.strategies import fedcore, fedprox
from fedcore.strategies._local import NONE, refuse, working_as
from fedcore.types import SIT_OUT, ClientProfile

client = ClientProfile(100, 1.0)


def test_plans_are_those_of_the_strategy_named():
    for deadline in (1000.0, 190.0, 99.0, 0.5):
        mine = working_as("fedcore", NONE).plan(client, deadline, 10)
        assert mine == fedcore.build().plan(client, deadline, 10)


def test_options_of_the_experiment_go_with_it():
    plan = working_as("fedprox", {"fedprox_mu": 0.7, "catch_up": 10.0}).plan(client, 399.0, 10)
    assert plan == fedprox.build(fedprox_mu=0.7, catch_up=10.0).plan(client, 399.0, 10)
    known = {"proxy": "logits", "method": {"unknown": 1}}
    expected = fedcore.build(proxy="logits").plan(client, 99.0, 10)
    assert working_as("fedcore", known).plan(client, 99.0, 10) == expected


def test_a_pull_replaces_the_strategys_own_and_who_sits_out_has_none():
    assert working_as("fedprox", NONE, 0.25).plan(client, 399.0, 10).prox_mu == 0.25
    assert working_as("fedprox", NONE, 0.0).plan(client, 399.0, 10).prox_mu == 0.0
    assert working_as("fedprox", NONE, 0.25).plan(client, 1.0, 10) == SIT_OUT


def test_a_strategy_that_borrows_from_one_that_borrows():
    """--method local=fedbuff: FedBuff's own plans, which are FedAvg's, and no circle."""
    asked = Experiment(method={"local": "fedbuff"})
    assert build_strategy("fedasync", asked, "input").plan(client, 1.0, 10).work(100) == 1000


def test_an_unknown_strategy_is_refused():
    with pytest.raises(UnknownPlugin, match="no strategy named 'fedpro'"):
        working_as("fedpro", NONE)


def test_only_what_is_named_and_set_is_refused():
    refuse("x", {"optimiser": "sgd", "momentum": 0.0, "clip_norm": 2.0}, "optimiser", "momentum")
    with pytest.raises(BadOption, match=r"^x has no rule for clip_norm, got 2\.0; leave it out$"):
        refuse("x", {"clip_norm": 2.0}, "clip_norm")


def test_pace_shift_and_plans_by_cohort_are_not_borrowed_but_needs_of_the_model_are():
    borrowed = working_as("timelyfl", NONE)
    assert borrowed.in_parts
    assert (borrowed.by_cohort, borrowed.pace) == (None, Pace())
    assert working_as("scaffold", NONE).shift is None
    assert working_as("fedbuff", NONE).pace == Pace()
