import sys
import threading
import types

import numpy as np
import pytest

from fedcore import plugins, select_coreset
from fedcore.client.coresets import needs_losses
from fedcore.coreset.selectors import loss_topk
from fedcore.errors import BadOption, UnknownPlugin


def test_files_are_names():
    uniform = ["uniform", "uniform-by-round"]
    assert plugins.names("sampler") == ["oort", "power-of-choice", "proportional", "tifl", *uniform]


def test_helpers_are_no_plugins():
    assert all(not name.startswith(("_", "-")) for name in plugins.names("dataset"))


@pytest.mark.parametrize("kind", list(plugins.KINDS))
def test_every_plugin_introduces_itself_in_a_sentence(kind):
    for name in plugins.names(kind):
        sentence = plugins.summary(kind, name)
        assert sentence.endswith(".")
        assert len(sentence) < 100


def test_an_unknown_name_lists_what_there_is_when_nothing_is_near():
    with pytest.raises(UnknownPlugin, match="there are oort, power-of-choice, proportional,"):
        plugins.load("sampler", "zzz")


def test_a_missing_file():
    with pytest.raises(UnknownPlugin, match=r"no strategy file at 'nowhere.py'"):
        plugins.load("strategy", "nowhere.py")


def test_a_file_of_the_users_own(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text("VALUE = 3\n")
    assert plugins.load("strategy", str(path)).VALUE == 3


def test_a_file_of_the_users_own_may_have_dataclasses_with_annotations_as_text(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(
        "from __future__ import annotations\nfrom dataclasses import dataclass\n\n\n"
        "@dataclass\nclass Knobs:\n    share: float = 0.5\n"
    )
    before = {*sys.modules}
    assert plugins.load("strategy", str(path)).Knobs().share == 0.5
    assert {*sys.modules} == before


def test_a_file_of_the_users_own_is_run_once_until_it_changes(tmp_path):
    """Whatever it compiles or reads, every client's coreset would wait for again."""
    path = tmp_path / "mine.py"
    path.write_text("from fedcore.coreset.selectors.uniform import select\n")
    first = plugins.load("selector", str(path))
    select_coreset(np.zeros((9, 1)), 3, selector=str(path))
    assert plugins.load("selector", str(path)) is first
    assert not needs_losses(str(path))
    path.write_text("from fedcore.coreset.selectors.loss_topk import NEEDS_LOSSES, select\n")
    assert plugins.function("selector", str(path), "select") is loss_topk.select
    assert needs_losses(str(path))


def test_a_broken_file_of_the_users_own_is_one_sentence(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text("def build(:\n")
    with pytest.raises(UnknownPlugin, match=r"mine.py' cannot be imported: SyntaxError"):
        plugins.load("strategy", str(path))


def test_a_users_file_goes_by_its_name():
    assert plugins.title("folder/my_method.py") == "my_method"
    assert plugins.title("fedavg-ds") == "fedavg-ds"


@pytest.mark.parametrize(
    "line",
    [
        "from fedcore.local import step",
        "from fedcore.types import LocalWish",
        "import fedcore.coreset.budget",
        "import nowhere_to_be_found",
    ],
)
def test_what_a_file_cannot_import_is_said_and_where_a_like_one_is(tmp_path, line):
    path = tmp_path / "mine.py"
    path.write_text(line)
    with pytest.raises(UnknownPlugin, match=r"imported: \w+Error: .*; see examples/"):
        plugins.load("strategy", str(path))


@pytest.fixture
def own(tmp_path):
    def write(text):
        (tmp_path / "own.py").write_text(text)
        return str(tmp_path / "own.py")

    return write


def test_a_build_gets_the_options_that_it_names(own):
    path = own("def build(*, epochs=1, rho=2, other=3):\n    return (epochs, rho, other)\n")
    options = {"epochs": 7, "rounds": 8}
    assert plugins.build("strategy", path, tuple, options=options, method={"rho": 9}) == (7, 9, 3)


def test_a_build_may_take_every_own_option_but_not_those_of_the_experiment(own):
    path = own("def build(first, **own):\n    return {'first': first, **own}\n")
    built = plugins.build("model", path, dict, 1, options={"epochs": 7}, method={"rho": 9})
    assert built == {"first": 1, "rho": 9}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "strategy file '.*own.py' has no function 'build'; see examples/"),
        ("build = 3", "has no function 'build'"),
        (
            "def build(*, needed):\n    return 1",
            "cannot be built: .*'needed'; see examples",
        ),
        ("def build(*, rho=1):\n    return rho + 'a'", "cannot be built: unsupported operand"),
        ("def build(*, rho=1):\n    return float('a')", "cannot be built: could not convert"),
        ("def build():\n    return 'a'", "must return a int, got a str"),
        ("from fedcore.errors import *\ndef build():\n    raise BadOption('no rho')", "^no rho$"),
    ],
)
def test_a_build_that_fails_is_one_sentence(own, text, sentence):
    with pytest.raises(BadOption, match=sentence):
        plugins.build("strategy", own(text), int)


def test_an_own_option_that_nobody_takes_is_refused(own):
    path = own("def build(*, epochs=1, rho=2):\n    return 1\n")
    plugins.check_taken({"rho": 1}, [("strategy", "fedavg"), ("strategy", path)])
    with pytest.raises(BadOption, match="no method option named 'roh'; did you mean 'rho'"):
        plugins.check_taken({"roh": 1}, [("strategy", path), ("selector", "uniform")])
    with pytest.raises(BadOption, match="no method option named 'rho'; there are none"):
        plugins.check_taken({"rho": 1}, [("selector", "uniform")])
    with pytest.raises(BadOption, match=r"no method option named .x.; there are rho$"):
        plugins.check_taken({"x": 1}, [("strategy", path)], reserved=("epochs",))
    plugins.check_taken({"x": 1}, [("strategy", own("def build(**own):\n    return 1\n"))])


@pytest.mark.parametrize("name", ["step_size", "num_clients", "model_bytes", "around", "options"])
def test_what_a_run_tells_its_methods_is_no_option_of_theirs(name):
    takers = [("strategy", "scaffold"), ("strategy", "fedadam"), ("sampler", "tifl")]
    with pytest.raises(BadOption, match=f"no method option named '{name}'") as refused:
        plugins.check_taken({name: 1}, takers)
    assert not plugins.TOLD & set(str(refused.value).partition(";")[2].replace(",", "").split())


def test_where_to_look_is_told_where_there_is_such_a_place():
    assert plugins.unknown("strategy", "x", ["y"]).endswith("there are y (see 'fedcore list')")
    assert plugins.unknown("key", "x", ["y"], see="").endswith("there are y")


def test_a_plugin_that_another_thread_is_importing_is_waited_for(tmp_path, monkeypatch):
    from fedcore import strategies

    gate = types.ModuleType("gate")
    gate.begun, gate.open = threading.Event(), threading.Event()
    monkeypatch.setitem(sys.modules, "gate", gate)
    monkeypatch.setattr(strategies, "__path__", [str(tmp_path)])
    text = "import gate\ngate.begun.set()\ngate.open.wait(60)\n\n\ndef build(): ...\n"
    (tmp_path / "slowpoke.py").write_text(text)
    found = []

    def ask():
        found.append(hasattr(plugins.load("strategy", "slowpoke"), "build"))

    threads = [threading.Thread(target=ask) for _ in range(2)]
    try:
        threads[0].start()
        assert gate.begun.wait(60)
        threads[1].start()
        threads[1].join(0.3)  # what is half imported was handed out at once
        gate.open.set()
        for thread in threads:
            thread.join(60)
        assert found == [True, True]
    finally:
        sys.modules.pop("fedcore.strategies.slowpoke", None)
        vars(strategies).pop("slowpoke", None)


def test_what_other_libraries_call_an_option_is_an_option_here():
    from fedcore.config import option_fields

    assert set(plugins.USUAL.values()) <= set(option_fields())
    assert not set(plugins.USUAL) & set(option_fields())
    near = {"optimizer": "optimiser", "num_rounds": "rounds", "global_rounds": "rounds"}
    near |= {"local_epochs": "epochs", "num_epochs": "epochs", "lr_scheduler": "schedule"}
    for theirs, ours in (plugins.USUAL | near).items():
        told = plugins.unknown("option", theirs, option_fields())
        assert told.startswith(f"no option named {theirs!r}; did you mean {ours!r}?")


@pytest.mark.parametrize(
    ("text", "value"), [("false", False), ("True", True), (0, False), (1, True)]
)
def test_truth_is_spelled(own, text, value):
    path = own("def build(*, fresh: bool = True):\n    return [fresh]\n")
    assert plugins.build("sampler", path, list, method={"fresh": text}) == [value]


@pytest.mark.parametrize(
    ("method", "sentence"),
    [
        ({"fresh": "no"}, "fresh must be true or false"),
        ({"mixing": "abc"}, "mixing must be a number, got 'abc'"),
        ({"buffer": "ten"}, "buffer must be a whole number, got 'ten'"),
    ],
)
def test_a_build_gets_numbers_where_it_says_so(own, method, sentence):
    path = own(
        "def build(*, fresh: bool = True, mixing: 'float' = 0.1, buffer: int = 1):\n    return []\n"
    )
    with pytest.raises(BadOption, match=sentence):
        plugins.build("sampler", path, list, method=method)
