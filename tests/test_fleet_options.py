import pytest

from fedcore.config import PANELS, Experiment, option_fields, resolve
from fedcore.errors import BadOption


def own(**given):
    return resolve(given, lambda benchmark, preset: {})


def test_a_deadline_in_seconds_takes_the_place_of_a_share_of_stragglers():
    assert own().stragglers == (10.0, 30.0)
    assert own(deadline=12.5).stragglers == ()
    assert own(deadline=0, stragglers=[20]).stragglers == (20.0,)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"deadline": 5, "stragglers": [30]}, r"deadline is 5 and stragglers are \[30.0\]; give"),
        ({"deadline": -1}, "deadline must be at least 0, got -1"),
        ({"mean_on": 2}, "mean_on is 2 and mean_off is 0; clients that come and go need both"),
        ({"mean_off": 2}, "mean_on is 0 and mean_off is 2"),
        ({"dropout": 1.5}, "dropout must be at most 1, got 1.5"),
        ({"time_budget": -3}, "time_budget must be at least 0, got -3"),
        ({"speed_size_correlation": 1.1}, "speed_size_correlation must be at most 1, got 1.1"),
        ({"speed_size_correlation": -2}, "speed_size_correlation must be at least -1, got -2"),
        (
            {"speed_size_correlation": 0.5, "capability": "size-linked"},
            "speed_size_correlation is 0.5, but speeds are not drawn",
        ),
        ({"speed_size_correlation": 0.5, "speeds": "mine.csv"}, "but speeds are not drawn"),
        ({"stragglers": []}, "stragglers must name at least one"),
    ],
)
def test_what_does_not_go_together_is_one_sentence(given, sentence):
    with pytest.raises(BadOption, match=sentence):
        own(**given)


def test_a_share_beside_a_deadline_is_refused_in_python_too():
    with pytest.raises(BadOption, match="give one of them"):
        Experiment(deadline=5.0)


def test_options_of_the_fleet_are_a_panel_of_the_experiment_in_its_place():
    panels = [item.metadata["panel"] for item in option_fields().values()]
    assert list(dict.fromkeys(panels)) == list(PANELS)


def test_a_budget_of_time_ends_runs_and_rounds_do_not():
    assert own(rounds=7).most_rounds == 7
    assert own(rounds=7, time_budget=3).most_rounds > 100_000
