import pytest

from fedcore.data._benchmark import benchmark_names, find
from fedcore.errors import BadOption, UnknownPlugin


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
