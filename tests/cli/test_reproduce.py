import re
import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest

from fedcore.cli import reproduce as module
from fedcore.cli.pieces import PARENT
from fedcore.cli.reproduce import main
from fedcore.errors import Interrupted

SMALL = ["--only", "synthetic-1-1", "--seeds", "1", "--preset", "paper", "--stragglers", "30"]
SMALL += ["--set", "rounds=1", "--set", "epochs=1", "--device", "cpu"]
PAGE = Path(__file__).parents[2] / "docs" / "reproduce.md"


def run(*arguments):
    """The exit code of the module's own command."""
    with mock.patch.object(sys, "argv", ["reproduce", *arguments]):
        try:
            main()
        except SystemExit as stop:
            return stop.code
    return 0


def refused(capsys, *arguments):
    assert run("--out", "nowhere", *arguments) == 2
    (sentence,) = capsys.readouterr().err.splitlines()
    assert not Path("nowhere").exists()
    return sentence


def test_what_is_refused_is_one_sentence_before_anything_starts(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(module, "on_processes", None)  # nobody is started
    monkeypatch.delenv("FEDCORE_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert "workers must be a whole number" in refused(capsys, *SMALL, "--workers", "many")
    assert "workers must be at least 1, got 0" in refused(capsys, *SMALL, "--workers", "0")
    assert "set must look like KEY=VALUE" in refused(capsys, *SMALL, "--set", "rounds")
    assert "no option named 'runds'; did you mean 'rounds'?" in refused(
        capsys, *SMALL, "--set", "runds=3"
    )
    for own in ("seed=5", "strategies=tempo", "stragglers=50", "benchmark=mnist", "device=cpu"):
        sentence = refused(capsys, *SMALL, "--set", own)
        assert f"set must not hold {own}: a piece is one run, and other options say" in sentence
    several = refused(capsys, *SMALL, "--set", "learning_rate=0.1,0.01")
    assert "set must not hold learning_rate=0.1,0.01: a piece is one run" in several
    assert "of shakespeare is missing; run 'fedcore data fetch shakespeare'" in refused(
        capsys, *SMALL, "--only", "synthetic-1-1,shakespeare"
    )


def test_cores_are_shared_among_workers_and_there_are_no_more_of_these_than_work(
    tmp_path, monkeypatch
):
    started = []
    monkeypatch.setattr(module, "on_processes", lambda *given: started.append(given[:2]))
    monkeypatch.setattr("os.cpu_count", lambda: 16)
    assert run("--out", str(tmp_path), *SMALL, "--workers", "5") == 0
    assert run("--out", str(tmp_path), *SMALL, "--workers", "2", "--threads", "3") == 0
    assert [(count, arguments[-1]) for count, arguments in started] == [
        (4, "--threads=3"),
        (2, "--threads=3"),
    ]


def test_an_interruption_says_how_to_go_on(tmp_path, monkeypatch, capsys):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "on_processes", interrupted)
    assert run("--out", str(tmp_path), *SMALL) == 130
    assert capsys.readouterr().err == "interrupted; the same command goes on from here\n"


def test_it_runs_with_torch_and_numpy_alone(tmp_path):
    """As a worker does, where nothing else can be imported that a bare machine lacks."""
    absent = ["typer", "rich", "matplotlib", "click", "safetensors", "flwr", "ray", "threadpoolctl"]
    code = f"import sys; sys.modules.update(dict.fromkeys({absent})); "
    code += f"import os; os.environ[{PARENT!r}] = str(os.getppid()); "
    code += "from fedcore.reproduce import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "--out", str(tmp_path), *SMALL],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert len(list(tmp_path.rglob("summary.json"))) == 4
    assert len(list(tmp_path.rglob("model-*.safetensors"))) == 4


def test_the_command_of_the_package_passes_everything_on(monkeypatch, capsys):
    pytest.importorskip("typer")
    from fedcore.cli.main import main as whole

    def note(arguments):
        given.extend(arguments)
        raise Interrupted("interrupted; so it is")

    given, typed = [], ["--out", "a", "--set", "b=1", "--help"]
    monkeypatch.setattr(module, "command", note)
    monkeypatch.setattr(sys, "argv", ["fedcore", "reproduce", *typed])
    with pytest.raises(SystemExit) as stopped:
        whole()
    assert stopped.value.code == 130
    assert capsys.readouterr().err == "interrupted; so it is\n"
    assert given == typed


def test_the_page_has_every_option():
    text = PAGE.read_text()
    named = set(re.findall(r"--([a-z-]+)", text))
    assert {name for name, *_ in module.OPTIONS} | {"set", "quiet"} <= named
