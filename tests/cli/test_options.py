import pytest

pytest.importorskip("typer")
pytest.importorskip("rich")

import inspect

from fedcore.cli.options import _help, experiment_from, with_experiment_options
from fedcore.config import option_fields
from fedcore.errors import BadOption


def test_a_command_gets_every_option_it_does_not_leave_out():
    @with_experiment_options()
    def command(*, own: int = 3, **given):
        """Do nothing."""

    @with_experiment_options()
    def single(*, strategy: str, **given):
        """Do nothing."""

    every = {"data", "method", *option_fields()}
    assert set(inspect.signature(command).parameters) == {"own", *every}
    assert set(inspect.signature(single).parameters) == {"strategy", *every} - {"strategies"}


def test_only_what_was_typed_counts():
    experiment = experiment_from({"rounds": "4", "epochs": None, "data": []}, None)
    assert experiment.rounds == 4
    assert experiment.epochs == 10


def test_data_options_are_numbers_where_they_look_like_numbers():
    given = {"data": ["clients=7", "alpha=0.5", "name=x"]}
    assert experiment_from(given, None).data == {"clients": 7, "alpha": 0.5, "name": "x"}


def test_data_options_of_file_and_command_line_are_merged(tmp_path):
    path = tmp_path / "job.toml"
    path.write_text("[data]\nclients = 4\ndimension = 9\n")
    experiment = experiment_from({"data": ["clients=5"]}, path)
    assert experiment.data == {"clients": 5, "dimension": 9}


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"rounds": "many"}, "rounds must be a whole number, got 'many'"),
        ({"rounds": "１０"}, "rounds must be a whole number, got '１０'"),
        ({"learning_rate": "٣"}, "learning_rate must be a number, got '٣'"),
        ({"rounds": "2.0"}, "rounds must be a whole number, got '2.0'"),
        ({"capability_std": "inf"}, "capability_std must be at least 0, got inf"),
    ],
)
def test_a_number_is_written_in_the_digits_that_we_write(given, sentence):
    with pytest.raises(BadOption, match=sentence):
        experiment_from(given, None)


def test_numbers_are_read_and_minus_nothing_is_nothing():
    experiment = experiment_from({"rounds": "4", "capability_std": "-0.0"}, None)
    assert (experiment.rounds, str(experiment.capability_std)) == (4, "0.0")


def test_own_options_of_a_method_are_a_table_like_those_of_the_data(tmp_path):
    path = tmp_path / "job.toml"
    path.write_text("[method]\nrho = 0.5\nname = 'x'\n")
    assert experiment_from({"method": ["rho=1"]}, path).method == {"rho": 1, "name": "x"}


def test_a_table_of_the_file_is_one_also_where_the_command_line_adds_to_it(tmp_path):
    path = tmp_path / "job.toml"
    path.write_text("data = [[1]]\n")
    with pytest.raises(BadOption, match="data must be a table"):
        experiment_from({"data": ["clients=5"]}, path)


def test_a_data_option_without_a_value_is_refused():
    with pytest.raises(BadOption, match="KEY=VALUE"):
        experiment_from({"data": ["clients"]}, None)


@pytest.mark.parametrize(
    ("name", "shown"),
    [("data_seed", "by benchmark"), ("rounds", "by benchmark"), ("stragglers", "10,30")],
)
def test_a_default_is_shown_only_where_it_holds(name, shown):
    text = _help(name)
    assert text.endswith(f"\\[{shown}][/dim]")
    assert "the paper's is 0" not in text


def test_the_seed_of_a_preset_is_told():
    assert "'authors-code' has seeds of its own" in _help("seed")


def test_paragraphs_flow_so_that_a_terminal_can_break_them():
    @with_experiment_options()
    def command(**given):
        """Do nothing.

        Or do something: that is a long
        sentence.
        """

    assert command.__doc__ == "Do nothing.\n\nOr do something: that is a long sentence."


def test_step_sizes_and_targets_are_lists_on_the_command_line():
    experiment = experiment_from({"learning_rate": "0.01, 0.1", "targets": "0.8,0.9"}, None)
    assert experiment.learning_rates == (0.01, 0.1)
    assert experiment.targets == (0.8, 0.9)
    assert experiment_from({"learning_rate": "0.1"}, None).learning_rates == ()


def test_step_sizes_of_a_file_are_a_list(tmp_path):
    path = tmp_path / "job.toml"
    path.write_text("learning-rate = [0.01, 0.1]\ntargets = [0.8]\n")
    assert experiment_from({}, path).learning_rates == (0.01, 0.1)
    assert experiment_from({"learning_rate": "0.5"}, path).learning_rates == ()
