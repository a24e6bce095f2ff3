import pytest

from fedcore.errors import BadOption
from fedcore.strategies.fedcore import build
from fedcore.types import ClientProfile, Path, Weighting


@pytest.mark.parametrize(
    ("deadline", "epochs", "path", "phases"),
    [
        # (epochs, coreset budget) of each phase, for 100 samples at one sample a second
        (1000.0, 10, Path.FULL, [(10, None)]),
        (999.0, 10, Path.CORESET, [(1, None), (9, 99)]),
        (190.0, 10, Path.CORESET, [(1, None), (9, 10)]),
        (108.0, 10, Path.PARTIAL, [(1, None)]),  # b = 0: the full pass is all that fits
        (99.0, 10, Path.STATIC_CORESET, [(10, 9)]),  # no full pass: floor(99 / 10)
        (7.0, 10, Path.STATIC_CORESET, [(7, 1)]),  # fewer samples than epochs
        (0.5, 10, Path.SAT_OUT, []),  # not one sample
        (99.0, 1, Path.STATIC_CORESET, [(1, 99)]),  # E = 1 and late
        (100.0, 1, Path.FULL, [(1, None)]),  # E = 1 and on time
        (150.0, 2, Path.CORESET, [(1, None), (1, 50)]),
    ],
)
def test_plans(deadline, epochs, path, phases):
    plan = build().plan(ClientProfile(100, 1.0), deadline, epochs)
    assert plan.path is path
    shape = [(p.epochs, p.coreset.budget if p.coreset else None) for p in plan.phases]
    assert shape == phases


def test_below_one_pass_only_the_inputs_can_be_compared():
    strategy = build(proxy="last-layer-input")
    late = strategy.plan(ClientProfile(100, 1.0), 190.0, 10)
    very_late = strategy.plan(ClientProfile(100, 1.0), 99.0, 10)
    assert late.phases[1].coreset.proxy == "last-layer-input"
    assert very_late.phases[0].coreset.proxy == "input"


def test_the_authors_choice_is_to_skip_who_cannot_make_a_pass():
    plan = build(below_one_pass="sit-out").plan(ClientProfile(100, 1.0), 99.0, 10)
    assert plan.path is Path.SAT_OUT


def test_options_travel_in_the_plan():
    strategy = build(selector="uniform", weighting="normalised", prox_mu=0.2)
    plan = strategy.plan(ClientProfile(100, 1.0), 190.0, 10)
    assert plan.prox_mu == 0.2
    assert plan.phases[1].coreset.selector == "uniform"
    assert plan.phases[1].coreset.weighting is Weighting.NORMALISED


def test_an_unknown_way_below_one_pass_is_refused():
    with pytest.raises(BadOption, match="below_one_pass must be one of"):
        build(below_one_pass="drop")
