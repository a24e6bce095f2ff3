"""Steps of slow clients grow by what the deadline took away."""

import pytest

pytest.importorskip("hypothesis")


from hypothesis import given
from hypothesis import strategies as st

from fedcore.config import Experiment
from fedcore.deadline import caught_up
from fedcore.errors import BadOption
from fedcore.strategies import fedcore, fedprox
from fedcore.types import SIT_OUT, ClientProfile, LocalPlan, Phase, Way

client = ClientProfile(100, 1.0)


@pytest.mark.parametrize(
    ("deadline", "scale"),
    [
        (1000.0, 1.0),  # on time: nothing to make up for
        (190.0, 1000 / 190),  # one epoch of 100, nine of 10
        (99.0, 10.0),  # 6 samples ten times after a forward pass: 16.7, limited
        (0.5, 1.0),  # sits out
    ],
)
def test_fedcore_by_hand(deadline, scale):
    plan = fedcore.build(proxy="logits", catch_up=10).plan(client, deadline, 10)
    assert plan.step_scale == pytest.approx(scale)


def test_fedprox_by_hand():
    plan = fedprox.build(catch_up=10).plan(client, 399.0, 10)
    assert plan.trained(100) == 300
    assert plan.step_scale == pytest.approx(10 / 3)


@given(st.floats(0.1, 2000), st.floats(1, 50))
def test_never_smaller_steps_never_above_the_limit(deadline, limit):
    plan = fedcore.build(proxy="logits", catch_up=limit).plan(client, deadline, 10)
    assert 1 <= plan.step_scale <= limit
    if plan.trained(100):
        assert plan.step_scale * plan.trained(100) <= 10 * 100 * (1 + 1e-12)


def test_the_papers_steps_unless_asked_for():
    assert fedcore.build().plan(client, 190.0, 10).step_scale == 1
    assert fedprox.build().plan(client, 190.0, 10).step_scale == 1


def test_forward_passes_are_no_training():
    plan = LocalPlan((Phase(1, forward_price=0.5), Phase(2)), Way.FORWARD_CORESET)
    assert plan.trained(100) == 200
    assert plan.work(100) == 250


def test_the_price_of_choosing_is_no_training():
    """Of 190 samples 100 go into the first epoch, 30 into choosing, and 9 x 6 into steps."""
    plan = fedcore.build(catch_up=10, selection_price=0.3).plan(client, 190.0, 10)
    assert (plan.trained(100), plan.work(100)) == (154, 184)
    assert plan.step_scale == pytest.approx(1000 / 154)


def test_who_sits_out_has_nothing_to_scale():
    assert caught_up(SIT_OUT, 100, 10, 2.0) is SIT_OUT


def test_limits_below_one_are_refused():
    with pytest.raises(BadOption, match=r"catch_up must be at least 1, got 0.5"):
        Experiment(catch_up=0.5)
