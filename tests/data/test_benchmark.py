import pytest

from fedcore.data import _benchmark
from fedcore.errors import BadOption, UnknownPlugin

NOTHING = {"seed": 0, "data_dir": None, "options": {}}


@pytest.mark.parametrize("name", _benchmark.benchmark_names())
def test_every_benchmark_is_found_and_has_hyperparameters(name):
    for preset in ("paper", "authors-code"):
        assert "model" in _benchmark.find(name).hyperparameters(preset)


def test_a_hyphen_in_a_datasets_name_is_no_option():
    assert _benchmark.find("fashion-mnist").module.__name__ == "fedcore.data.fashion_mnist"


def test_an_unknown_benchmark_is_refused_with_the_nearest():
    with pytest.raises(UnknownPlugin, match="did you mean 'shakespeare'"):
        _benchmark.find("shakespere")


def test_sizes_are_counted_as_the_paper_counts():
    benchmark = _benchmark.find("synthetic-1-1")
    assert not benchmark.counts_test
    assert sum(benchmark.client_sizes(**NOTHING)) == 20_101
    assert _benchmark.find("mnist").counts_test


def test_an_unknown_option_is_refused():
    for ask in (_benchmark.find("mnist").load, _benchmark.find("mnist").client_sizes):
        with pytest.raises(BadOption, match="did you mean 'sigma'"):
            ask(seed=0, data_dir=None, options={"sigmma": 1})


def test_a_dataset_without_variants_has_no_options_in_its_name():
    assert _benchmark.no_suffix("mnist", "") == {}
    with pytest.raises(BadOption, match="mnist-0"):
        _benchmark.no_suffix("mnist", "0")
