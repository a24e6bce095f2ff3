import pytest

from fedcore.config import resolve
from fedcore.errors import BadOption, FedCoreError, UnknownPlugin
from fedcore.sources.benchmark import benchmark_names, find


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


def test_a_dataset_without_variants_has_no_options_in_its_name():
    assert find("mnist").options == {}
    with pytest.raises(BadOption, match="benchmark must be 'mnist', got 'mnist-0'"):
        find("mnist-0")


@pytest.mark.parametrize("seed", [-1, 0.5, 2**32, True])
def test_a_seed_is_one_that_the_legacy_generator_takes(seed):
    with pytest.raises(BadOption, match="seed must be"):
        find("synthetic-1-1").load(seed=seed, data_dir=None, options={})


@pytest.fixture
def own(tmp_path):
    def write(text):
        (tmp_path / "table.py").write_text("from fedcore.types import *\n" + text)
        return find(str(tmp_path / "table.py"))

    return write


DATA = "FederatedDataset({0: ClientData([[0.5]] * rows, [1] * rows)}, None, 2)"


def test_a_file_with_a_function_load_is_a_dataset_named_like_the_file(own):
    found = own(f"def load(*, seed=0, data_dir=None, rows=3):\n    return {DATA}\n")
    assert (found.name, found.options, found.hyperparameters("paper")) == ("table", {}, {})
    assert len(found.load(seed=0, data_dir=None, options={"rows": 5}).clients[0].y) == 5
    with pytest.raises(BadOption, match="no data option named 'row'; did you mean 'rows'"):
        found.load(seed=0, data_dir=None, options={"row": 5})


def test_a_file_names_the_arguments_it_wants(own):
    found = own(f"def load(rows=3):\n    return {DATA}\n")
    assert len(found.load(seed=0, data_dir=None, options={}).clients) == 1
    found = own(f"def load(**own):\n    rows = own['x'] + own['seed']\n    return {DATA}\n")
    assert len(found.load(seed=1, data_dir=None, options={"x": 3}).clients[0].y) == 4


def test_a_file_may_set_hyperparameters(own):
    text = "def load(): ...\ndef hyperparameters(preset):\n    return {'rounds': 3}\n"
    assert own(text).hyperparameters("paper") == {"rounds": 3}
    always = own("def load(): ...\nHYPERPARAMETERS = {'rounds': 4}\n")
    assert (
        always.hyperparameters("paper") == always.hyperparameters("authors-code") == {"rounds": 4}
    )


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "def load():\n    return open('/none.csv')",
            r"table.py' failed with FileNotFoundError: .*none",
        ),
        ("def load():\n    return {}['x']", "failed with KeyError: 'x'"),
        ("def load():\n    return 3", "'table' must return a fedcore FederatedDataset, got a int"),
        ("", "dataset file '.*table.py' has no function 'load'; see examples/"),
    ],
)
def test_a_file_that_does_not_load_is_one_sentence(own, text, sentence):
    with pytest.raises(FedCoreError, match=sentence):
        own(text).load(seed=0, data_dir=None, options={})


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "def hyperparameters(preset):\n    return {'lr': 0.1}",
            "'lr'; did you mean 'learning_rate'",
        ),
        (
            "def hyperparameters(preset):\n    return {'rounds': '9'}",
            "rounds must be a whole number",
        ),
        ("def hyperparameters(preset):\n    pass", "hyperparameters must be a table, got None"),
    ],
)
def test_hyperparameters_that_are_no_options_are_refused_in_a_sentence(own, text, sentence):
    found = own(f"def load():\n    return 3\n\n{text}")
    with pytest.raises(FedCoreError, match=sentence):
        resolve({}, lambda name, preset: found.hyperparameters(preset))


def test_a_failure_of_our_own_is_seen_whole(monkeypatch):
    found = find("synthetic-1-1")
    monkeypatch.setattr(found.module, "load", lambda **options: {}["x"])
    with pytest.raises(KeyError):
        found.load(seed=0, data_dir=None, options={})


@pytest.mark.parametrize(("key", "flag"), [("seed", "--data-seed"), ("data_dir", "--data-dir")])
def test_what_has_an_option_of_its_own_is_no_data_option(key, flag):
    with pytest.raises(BadOption, match=rf"data must not hold '{key}'.* use {flag}"):
        find("synthetic-1-1").load(seed=0, data_dir=None, options={key: 4})


def test_only_data_options_are_offered():
    with pytest.raises(BadOption) as found:
        find("synthetic-1-1").load(seed=0, data_dir=None, options={"zzz": 4})
    assert str(found.value) == (
        "no data option named 'zzz'; there are alpha, beta, classes, clients, dimension, how, "
        "least, shards"
    )


def test_a_rule_of_dealing_out_without_the_way_is_explained():
    with pytest.raises(BadOption, match="data option 'least' is for how=iid, dirichlet or shards"):
        find("synthetic-1-1").load(seed=0, data_dir=None, options={"least": 1})
