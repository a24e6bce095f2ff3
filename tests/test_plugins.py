import pytest

from fedcore import plugins
from fedcore.errors import UnknownPlugin


def test_files_are_names():
    assert plugins.names("strategy") == ["fedavg", "fedavg-ds", "fedcore", "fedprox"]


def test_helpers_are_no_plugins():
    assert all(not name.startswith(("_", "-")) for name in plugins.names("dataset"))


@pytest.mark.parametrize("kind", list(plugins.KINDS))
def test_every_plugin_introduces_itself_in_a_sentence(kind):
    for name in plugins.names(kind):
        sentence = plugins.summary(kind, name)
        assert sentence.endswith(".")
        assert len(sentence) < 100


def test_an_unknown_name_lists_what_there_is_when_nothing_is_near():
    with pytest.raises(UnknownPlugin, match="there are fedavg, fedavg-ds, fedcore, fedprox"):
        plugins.load("strategy", "zzz")


def test_a_missing_file():
    with pytest.raises(UnknownPlugin, match=r"no strategy file at 'nowhere.py'"):
        plugins.load("strategy", "nowhere.py")


def test_a_file_of_the_users_own(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text("VALUE = 3\n")
    assert plugins.load("strategy", str(path)).VALUE == 3


def test_a_broken_file_of_the_users_own_is_one_sentence(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text("def build(:\n")
    with pytest.raises(UnknownPlugin, match=r"mine.py' cannot be imported: SyntaxError"):
        plugins.load("strategy", str(path))


def test_where_to_look_is_told_where_there_is_such_a_place():
    assert plugins.unknown("strategy", "x", ["y"]).endswith("there are y (see 'fedcore list')")
    assert plugins.unknown("key", "x", ["y"], see="").endswith("there are y")
