import dataclasses

import numpy as np
import pytest

from fedcore.config import PRESETS, Experiment, option_fields, read_toml, resolve
from fedcore.errors import BadOption
from fedcore.sources.benchmark import find


def hyperparameters(benchmark, preset):
    return find(benchmark).hyperparameters(preset)


def test_nothing_given_is_the_papers_text():
    experiment = resolve({}, hyperparameters)
    assert experiment.selection == "proportional"
    assert experiment.aggregation == "mean"
    assert experiment.capability_std**2 == 0.25
    assert experiment.learning_rate == 0.001
    assert experiment.fedprox_mu == 0.1
    assert experiment.weighting == "scaled"


def test_the_authors_code_differs_where_their_repository_does():
    experiment = resolve({"preset": "authors-code"}, hyperparameters)
    assert experiment.selection == "uniform-by-round"
    assert experiment.aggregation == "samples"
    assert experiment.learning_rate == 0.01
    assert experiment.fedprox_mu == 1.0
    assert experiment.model == "logistic-sigmoid"
    assert experiment.seed == (3,)
    assert experiment.first_round == "parallel"  # a defect is no choice


def test_recommended_is_our_own_best_on_the_papers_settings():
    experiment = resolve({"preset": "recommended"}, hyperparameters)
    own = {"strategies": ("tempo",), "deadline": "auto", "stragglers": (30.0,)}
    paper = resolve(own, hyperparameters)
    assert experiment == dataclasses.replace(paper, preset="recommended")
    fixed = resolve({"preset": "recommended", "deadline": 50}, hyperparameters)
    assert (fixed.deadline, fixed.stragglers) == (50, ())


def test_compare_lists_the_papers_method_and_our_own():
    assert {"fedcore", "tempo"} <= set(Experiment().strategies)


def test_what_is_given_wins_over_preset_and_benchmark():
    given = {"preset": "authors-code", "learning_rate": 0.5, "selection": "uniform"}
    experiment = resolve(given, hyperparameters)
    assert (experiment.learning_rate, experiment.selection) == (0.5, "uniform")


def test_every_choice_of_a_preset_is_an_option_of_its_own():
    for choices in PRESETS.values():
        assert set(choices) <= set(option_fields())


def test_every_option_has_a_help_text_and_a_panel():
    for item in dataclasses.fields(Experiment):
        if item.name not in ("data", "method", "learning_rates"):
            assert item.metadata["help"].endswith(".")
            assert item.metadata["panel"]


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"rouns": 3}, "no option named 'rouns'; did you mean 'rounds'"),
        ({"lr": 0.1}, "no option named 'lr'; did you mean 'learning_rate'"),
        ({"num_clients": 3}, "no option named 'num_clients'; did you mean 'clients_per_round'"),
        ({"rounds": 0}, "rounds must be at least 1, got 0"),
        ({"rounds": "many"}, "rounds must be a whole number, got 'many'"),
        ({"rounds": 2.5}, "rounds must be a whole number, got 2.5"),
        ({"rounds": True}, "rounds must be a whole number"),
        ({"epochs": -2}, "epochs must be at least 1"),
        ({"learning_rate": 0}, "learning_rate must be above 0"),
        ({"learning_rate": float("nan")}, "learning_rate must be above 0, got nan"),
        ({"learning_rate": "fast"}, "learning_rate must be a number"),
        ({"learning_rate": "0.1,0.1"}, "learning_rate must not name anything twice"),
        ({"learning_rate": [0.1, -1]}, "learning_rate must be above 0, got -1"),
        ({"learning_rate": [0.1, float("nan")]}, "learning_rate must be above 0, got nan"),
        ({"learning_rate": "0.1,fast"}, "learning_rate must be numbers such as 10,30, got 'fast'"),
        ({"learning_rate": []}, "learning_rate must name at least one"),
        ({"targets": "0.8,1.01"}, "targets must be accuracies above 0 and at most 1, got 1.01; 80"),
        ({"targets": [80]}, "targets must be accuracies .*, got 80; 80 % is written 0.8"),
        ({"targets": [0]}, "targets must be accuracies above 0 and at most 1, got 0"),
        ({"targets": float("nan")}, "targets must be accuracies above 0 and at most 1, got nan"),
        ({"targets": "0.8,0.8"}, "targets must not name anything twice"),
        ({"stragglers": "0"}, "stragglers must be percentages above 0 and below 100, got 0"),
        ({"stragglers": [10, 100]}, "got 100"),
        ({"stragglers": "10,10"}, "stragglers must not name anything twice"),
        ({"stragglers": "10,abc"}, "stragglers must be numbers such as 10,30, got 'abc'"),
        ({"stragglers": [True]}, "stragglers must be numbers such as 10,30, got True"),
        ({"strategies": ""}, "strategies must name at least one"),
        ({"seed": "1,-2"}, "seed must be at least 0, got -2"),
        ({"seed": "1.5"}, "seed must be whole numbers such as 0,1,2, got '1.5'"),
        ({"seed": [10**23]}, "seed must be at most 9,223,372,036,854,775,807, got 1000000000"),
        ({"data_seed": 99999999999}, "data_seed must be at most 4,294,967,295, got 99999999999"),
        ({"strategies": [1, 2]}, "strategies must be names separated by commas, got 1"),
        ({"epochs": 999999999999}, "epochs must be at most 1,000,000, got 999999999999"),
        ({"epochs": 10**400}, "epochs must be at most 1,000,000, got one of 1329 bits"),
        ({"learning_rate": 10**400}, "learning_rate must be a number, got one of 1329 bits"),
        ({"rouns": 3}, "see 'fedcore compare --help'"),
        (
            {"preset": "papers"},
            "preset must be one of paper, authors-code, recommended, got 'papers'",
        ),
        ({"selection": "best"}, "no sampler named 'best'"),
        ({"selector": "kmeans"}, "no selector named 'kmeans'"),
        ({"model": "logist"}, "no model named 'logist'; did you mean 'logistic'"),
        ({"capability_floor": 0}, "capability_floor must be above 0"),
        ({"data": 3}, "data must be a table"),
        ({"method": "rho=1"}, "method must be a table"),
        ({"method": {1: 2}}, "method must be a table"),
        ({"method": {"epochs": 3}}, "method must not hold 'epochs'.* use --epochs"),
        ({"coreset_epochs": 10**7}, "coreset_epochs must be at most 1,000,000, got 10000000"),
        ({"strategies": "fedavg,,fedcore"}, "got an empty part in 'fedavg,,fedcore'"),
        ({"seed": "１０"}, "seed must be whole numbers such as 0,1,2, got '１０'"),
        ({"capability_std": float("-inf")}, "capability_std must be at least 0"),
        ({"model": 3}, "model must be text"),
        ({"optimiser": "adagrad"}, "optimiser must be one of sgd, adam, got 'adagrad'"),
        ({"momentum": 1}, "momentum must be at least 0 and below 1, got 1"),
        ({"momentum": float("nan")}, "momentum must be at least 0 and below 1, got nan"),
        ({"momentum": 0.9, "optimiser": "adam"}, "momentum is an option of optimiser 'sgd'"),
        ({"weight_decay": -1}, "weight_decay must be at least 0, got -1"),
        ({"clip_norm": float("nan")}, "clip_norm must be at least 0, got nan"),
        ({"schedule": "linear"}, "schedule must be one of constant, step, cosine, inverse-time"),
        ({"schedule_decay": 0}, "schedule_decay must be above 0, got 0"),
        ({"schedule_every": 0}, "schedule_every must be at least 1, got 0"),
    ],
)
def test_bad_values_are_one_sentence(given, sentence):
    with pytest.raises(BadOption, match=sentence):
        resolve(given, lambda benchmark, preset: {})


def test_toml(tmp_path):
    path = tmp_path / "job.toml"
    path.write_text("rounds = 7\nclients-per-round = 3\nstragglers = [20, 40]\nseed = 5\n")
    experiment = resolve(read_toml(path), hyperparameters)
    assert experiment.rounds == 7
    assert experiment.clients_per_round == 3
    assert experiment.stragglers == (20.0, 40.0)
    assert experiment.seed == (5,)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"rounds = ", "not valid TOML"),
        (b"capability-std = 1\ncapability_std = 2", "has an option twice"),
        (b"\xff\xfe", "not valid TOML"),
        (b"rounds = " + b"9" * 5000, "not valid TOML"),
        (b"data = " + b"[" * 100_000, "not valid TOML"),
    ],
)
def test_malformed_toml_is_refused(tmp_path, content, sentence):
    path = tmp_path / "job.toml"
    path.write_bytes(content)
    with pytest.raises(BadOption, match=sentence):
        read_toml(path)


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(BadOption, match="cannot be read"):
        read_toml(tmp_path / "none.toml")


@pytest.mark.parametrize("given", ["0.03,0.01,0.1", [0.03, 0.01, 0.1], (0.03, 0.01, 0.1)])
def test_several_step_sizes_are_a_grid(given):
    experiment = resolve({"learning_rate": given}, hyperparameters)
    assert experiment.learning_rates == (0.03, 0.01, 0.1)
    assert experiment.learning_rate == 0.03


@pytest.mark.parametrize("given", [0.03, [0.03], np.float64(0.03)])
def test_one_step_size_is_no_grid(given):
    experiment = resolve({"learning_rate": given}, hyperparameters)
    assert (experiment.learning_rate, experiment.learning_rates) == (0.03, ())


def test_targets_may_be_left_out_or_one_or_several():
    assert resolve({}, hyperparameters).targets == ()
    assert resolve({"targets": 1}, hyperparameters).targets == (1.0,)
    assert resolve({"targets": "0.8,0.9"}, hyperparameters).targets == (0.8, 0.9)
