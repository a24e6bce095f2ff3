import pytest

pytest.importorskip("rich")


from fedcore.report.tables import plain_console


@pytest.mark.parametrize("text", ["pip install 'fedcore[plots]'", "run[red]", "a:smile:b"])
def test_what_is_printed_is_what_was_given(capsys, text):
    plain_console().print(text)
    plain_console(stderr=True).print(text)
    assert capsys.readouterr() == (f"{text}\n", f"{text}\n")


def test_outside_a_terminal_nothing_is_cut_or_wrapped(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    plain_console().print("word " * 60)
    assert len(capsys.readouterr().out.splitlines()) == 1
