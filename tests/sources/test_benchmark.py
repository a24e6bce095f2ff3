import pytest

from fedcore.errors import BadOption, UnknownPlugin
from fedcore.sources.benchmark import benchmark_names, find, no_suffix


def test_a_name_carries_options():
    assert find("synthetic-0.5-2").options == {"alpha": 0.5, "beta": 2.0}


def test_every_listed_benchmark_can_be_found():
    for name in benchmark_names():
        assert find(name).name == name


def test_an_unknown_name_gets_a_suggestion():
    with pytest.raises(UnknownPlugin, match="did you mean 'synthetic-1-1'"):
        find("sinthetic-1-1")


def test_options_of_the_user_win_over_the_name():
    data = find("synthetic-1-1").load(seed=0, data_dir=None, options={"clients": 3})
    assert len(data.clients) == 3


def test_an_unknown_data_option_is_refused():
    with pytest.raises(BadOption, match="did you mean 'clients'"):
        find("synthetic-1-1").load(seed=0, data_dir=None, options={"client": 3})


@pytest.mark.parametrize("name", benchmark_names())
@pytest.mark.parametrize("preset", ["paper", "authors-code"])
def test_every_benchmark_has_hyperparameters(name, preset):
    assert "model" in find(name).hyperparameters(preset)


def test_a_hyphen_in_a_datasets_name_is_no_option():
    assert find("fashion-mnist").module.__name__ == "fedcore.datasets.fashion_mnist"


def test_sizes_are_counted_as_the_paper_counts():
    benchmark = find("synthetic-1-1")
    assert not benchmark.counts_test
    assert sum(benchmark.client_sizes(seed=0, data_dir=None, options={})) == 20_101
    assert find("mnist").counts_test


def test_sizes_refuse_an_unknown_data_option_too():
    with pytest.raises(BadOption, match="did you mean 'sigma'"):
        find("mnist").client_sizes(seed=0, data_dir=None, options={"sigmma": 1})


def test_a_dataset_without_variants_has_no_options_in_its_name():
    assert no_suffix("mnist", "") == {}
    with pytest.raises(BadOption, match="mnist-0"):
        no_suffix("mnist", "0")


@pytest.mark.parametrize(("key", "flag"), [("seed", "--data-seed"), ("data_dir", "--data-dir")])
def test_what_has_an_option_of_its_own_is_no_data_option(key, flag):
    with pytest.raises(BadOption, match=rf"data must not hold '{key}'.* use {flag}"):
        find("synthetic-1-1").load(seed=0, data_dir=None, options={key: 4})


def test_only_data_options_are_offered():
    with pytest.raises(BadOption) as found:
        find("synthetic-1-1").load(seed=0, data_dir=None, options={"zzz": 4})
    assert str(found.value) == (
        "no data option named 'zzz'; there are alpha, beta, clients, dimension, classes"
    )
