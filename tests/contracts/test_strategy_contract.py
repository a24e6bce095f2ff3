"""What every strategy must do, whatever its name; the examples too, for they get copied."""

import pytest

pytest.importorskip("hypothesis")


import pathlib

from hypothesis import given
from hypothesis import strategies as st

from fedcore import plugins
from fedcore.server.method import Strategy
from fedcore.server.state import ServerState
from fedcore.types import ClientProfile, LocalPlan, LocalUpdate, Way

EXAMPLES = sorted((pathlib.Path(__file__).parents[2] / "examples").glob("*_strategy.py"))

pytestmark = pytest.mark.parametrize("name", [*plugins.names("strategy"), *map(str, EXAMPLES)])

# They wait, or go on, or cancel.
WITHOUT_DEADLINE = {
    *("fedavg", "fedavg-os", "fedavgm", "fedadam", "fedyogi", "fedadagrad", "scaffold", "feddyn"),
    *("fedasync", "fedbuff", "fadas", "ca2fl"),
}

LONGER = {"fedcore", "timelyfl", "fedbalancer"}

profiles = st.builds(ClientProfile, st.integers(1, 5000), st.floats(0.01, 50))
deadlines = st.floats(0.01, 1e5)
asked = st.integers(1, 30)


def build(name) -> Strategy:
    strategy = plugins.load("strategy", name).build()
    assert isinstance(strategy, Strategy)
    return strategy


@given(profiles, deadlines, asked)
def test_who_promises_the_deadline_keeps_it(name, client, deadline, epochs):
    plan = build(name).plan(client, deadline, epochs)
    if pathlib.Path(name).stem not in WITHOUT_DEADLINE:
        assert client.seconds(plan.work(client.num_samples)) <= deadline


@given(profiles, asked)
def test_a_fast_client_trains_in_full(name, client, epochs):
    enough = client.seconds(epochs * client.num_samples)
    plan = build(name).plan(client, enough, epochs)
    assert plan.path is Way.FULL
    assert plan.work(client.num_samples) == epochs * client.num_samples
    assert all(phase.coreset is None for phase in plan.phases)


@given(profiles, deadlines, asked)
def test_a_plan_is_small_hashable_data(name, client, deadline, epochs):
    plan = build(name).plan(client, deadline, epochs)
    assert isinstance(plan, LocalPlan)
    assert hash(plan) == hash(build(name).plan(client, deadline, epochs))
    assert len(plan.phases) <= (epochs if name == "random-epochs" else 3)
    assert len(set(plan.phases)) <= 3
    for phase in plan.phases:
        assert phase.epochs >= 1
        assert phase.coreset is None or 1 <= phase.coreset.budget <= client.num_samples


@given(profiles, deadlines, asked)
def test_only_who_sits_out_has_nothing_to_do(name, client, deadline, epochs):
    plan = build(name).plan(client, deadline, epochs)
    assert (plan.path is Way.SAT_OUT) == (plan.work(client.num_samples) == 0)


def test_equal_answers_merge_to_themselves(name):
    import torch

    params = {"w": torch.tensor([1.0, -2.0])}
    state = ServerState(params)
    for i in range(3):
        merging = build(name).merge(state)
        merging.add(LocalUpdate(i, params, 5 + i, copies=1 + i, steps=3), params)
        state = merging.finish()
        assert torch.allclose(state.params["w"], params["w"])


def test_no_answers_leave_the_model_as_it_is(name):
    import torch

    state = ServerState({"w": torch.tensor([1.0, -2.0])})
    assert torch.equal(build(name).merge(state).finish().params["w"], state.params["w"])


def test_a_method_fits_on_a_page(name):
    lines = pathlib.Path(plugins.load("strategy", name).__file__).read_text().splitlines()
    assert len(lines) <= (150 if name in LONGER else 60)
