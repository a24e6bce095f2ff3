import pytest

from fedcore.strategies.fedcore import build
from fedcore.types import ClientProfile, Way, Weighting


@pytest.mark.parametrize(
    ("deadline", "epochs", "path", "phases"),
    [
        # (epochs, coreset budget) of each phase, for 100 samples at one sample a second
        (1000.0, 10, Way.FULL, [(10, None)]),
        (999.0, 10, Way.CORESET, [(1, None), (9, 99)]),
        (190.0, 10, Way.CORESET, [(1, None), (9, 10)]),
        (108.0, 10, Way.PARTIAL, [(1, None)]),  # b = 0: the full pass is all that fits
        (99.0, 10, Way.STATIC_CORESET, [(10, 9)]),  # no full pass: floor(99 / 10)
        (7.0, 10, Way.STATIC_CORESET, [(7, 1)]),  # fewer samples than epochs
        (0.5, 10, Way.SAT_OUT, []),  # not one sample
        (99.0, 1, Way.STATIC_CORESET, [(1, 99)]),  # E = 1 and late
        (100.0, 1, Way.FULL, [(1, None)]),  # E = 1 and on time
        (150.0, 2, Way.CORESET, [(1, None), (1, 50)]),
    ],
)
def test_plans(deadline, epochs, path, phases):
    plan = build().plan(ClientProfile(100, 1.0), deadline, epochs)
    assert plan.path is path
    shape = [(p.epochs, p.coreset.budget if p.coreset else None) for p in plan.phases]
    assert shape == phases


@pytest.mark.parametrize(
    ("way", "deadline", "path", "phases"),
    [
        # 100 samples, a forward pass costs ceil(100 / 3) = 34; (epochs, price, budget, proxy)
        ("auto", 99.0, Way.FORWARD_CORESET, [(1, 1 / 3, None, ""), (10, None, 6, "logits")]),
        ("forward", 44.0, Way.FORWARD_CORESET, [(1, 1 / 3, None, ""), (10, None, 1, "logits")]),
        ("auto", 43.0, Way.RANDOM_SUBSET, [(1, None, 43, "none")]),  # 9 left for 10 epochs
        ("random", 99.0, Way.RANDOM_SUBSET, [(1, None, 99, "none")]),
        ("static-coreset", 99.0, Way.STATIC_CORESET, [(10, None, 9, "input")]),
        ("auto", 0.5, Way.SAT_OUT, []),
    ],
)
def test_networks_below_one_pass(way, deadline, path, phases):
    strategy = build(proxy="logits", below_one_pass=way)
    plan = strategy.plan(ClientProfile(100, 1.0), deadline, 10)
    assert plan.path is path
    shape = [
        (
            p.epochs,
            p.forward_price,
            p.coreset.budget if p.coreset else None,
            p.coreset.proxy if p.coreset else "",
        )
        for p in plan.phases
    ]
    assert shape == phases
    assert plan.work(100) <= deadline


@pytest.mark.parametrize(
    ("deadline", "phases"),
    [
        (340.0, [(1, None), (3, 80)]),
        (99.0, [(1, None), (2, 32)]),  # after a forward pass that costs 34
        (1000.0, [(10, None)]),
    ],
)
def test_fewer_epochs_on_a_larger_coreset(deadline, phases):
    strategy = build(proxy="logits", coreset_epochs=2)
    plan = strategy.plan(ClientProfile(100, 1.0), deadline, 10)
    shape = [(p.epochs, p.coreset.budget if p.coreset else None) for p in plan.phases]
    assert shape == phases


def test_exact_gradients_cost_a_forward_pass_out_of_the_coresets_budget():
    """c·τ = 190 on 100 samples: 90 left, less 34 for the pass: floor(56 / 9) = 6 instead of 10."""
    strategy = build(proxy="logits", gradients="exact")
    plan = strategy.plan(ClientProfile(100, 1.0), 190.0, 10)
    assert [phase.forward_price for phase in plan.phases] == [None, 1 / 3, None]
    assert plan.phases[2].coreset.budget == 6
    assert plan.work(100) == 100 + 34 + 54


def test_exact_gradients_are_not_paid_for_where_they_leave_no_coreset():
    plan = build(proxy="logits", gradients="exact").plan(ClientProfile(100, 1.0), 120.0, 10)
    assert [phase.forward_price for phase in plan.phases] == [None, None]
    assert plan.phases[1].coreset.budget == 2


def test_inputs_need_no_gradients_at_all():
    plan = build(gradients="exact").plan(ClientProfile(100, 1.0), 190.0, 10)
    assert len(plan.phases) == 2


def test_the_authors_choice_is_to_skip_who_cannot_make_a_pass():
    plan = build(below_one_pass="sit-out").plan(ClientProfile(100, 1.0), 99.0, 10)
    assert plan.path is Way.SAT_OUT


def test_options_travel_in_the_plan():
    strategy = build(selector="uniform", weighting="normalised", prox_mu=0.2)
    plan = strategy.plan(ClientProfile(100, 1.0), 190.0, 10)
    assert plan.prox_mu == 0.2
    assert plan.phases[1].coreset.selector == "uniform"
    assert plan.phases[1].coreset.weighting is Weighting.NORMALISED
