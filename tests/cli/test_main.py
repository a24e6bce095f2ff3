"""The real command: good input in a process of its own, bad input through the same ``main``."""

import errno

import pytest

pytest.importorskip("typer")
pytest.importorskip("rich")


import inspect
import json
import signal
import subprocess
import sys
import time
from itertools import product
from pathlib import Path

from fedcore.cli.main import main
from fedcore.cli.options import TABLES, experiment_from
from fedcore.cli.reproduce import in_a_sentence
from fedcore.config import PANELS, option_fields
from fedcore.datasets import synthetic
from fedcore.errors import BadOption

EXAMPLES = Path(__file__).parents[2] / "examples"
FAST = ["--rounds", "2", "--epochs", "2", "--clients-per-round", "3", "--data", "clients=6"]


def fedcore(*arguments, cwd=None):
    code = "from fedcore.cli.main import main; main()"
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=cwd,
        check=False,
    )


def compare(out, *arguments):
    return fedcore("compare", *FAST, "--out", out, *arguments)


def test_compare_shows_tables_and_writes_results(tmp_path):
    out = tmp_path / "job"
    result = compare(out, "--stragglers", "10,30")
    assert result.returncode == 0, result.stderr
    for word in ("10 % stragglers", "30 % stragglers", "FedAvg-DS", "FedProx", "FedCore", "Tempo"):
        assert word in result.stdout
    runs = product(("fedavg", "fedavg-ds", "fedprox", "fedcore", "tempo"), (10, 30))
    assert {path.name for path in out.iterdir()} == {
        "experiment.json",
        "summary.json",
        "rounds.jsonl",
        "events.jsonl",
        "loss.png",
        "accuracy_by_round.png",
        "accuracy_by_time.png",
        "round_lengths.png",
        "client_times.png",
        "timeline.png",
        "report.html",
        *(f"model-{strategy}-{level}-seed-0.safetensors" for strategy, level in runs),
    }
    summary = json.loads((out / "summary.json").read_text())
    assert summary["schema"] == 1
    assert len(summary["results"]) == 10
    for entry in summary["results"]:
        assert 0 <= entry["final_test_accuracy"] <= 1
        if entry["strategy"] != "fedavg":
            assert entry["max_round_time"] <= 1.0
    lines = (out / "rounds.jsonl").read_text().splitlines()
    assert len(lines) == 10 * 2


@pytest.fixture
def refuse(monkeypatch, capsys):
    """Run the command in this process; it must end with code 2 and one sentence."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["fedcore", *map(str, arguments)])
        with pytest.raises(SystemExit) as stopped:
            main()
        sentence = capsys.readouterr().err
        assert stopped.value.code == 2
        assert sentence.startswith("error: ")
        assert len(sentence.strip().splitlines()) == 1
        return sentence

    return run


def without_wall_clock(path):
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return [{k: v for k, v in row.items() if not k.startswith("wall_")} for row in rows]


def test_the_same_seed_gives_the_same_file_but_for_the_wall_clock(tmp_path):
    for name in ("one", "two"):
        assert compare(tmp_path / name, "--no-plots").returncode == 0
    one, two = (without_wall_clock(tmp_path / name / "rounds.jsonl") for name in ("one", "two"))
    assert one == two


def test_the_command_line_wins_over_the_file(tmp_path):
    config = tmp_path / "job.toml"
    config.write_text('rounds = 5\nseed = 3\nstrategies = ["fedcore"]\n[data]\nclients = 5\n')
    out = tmp_path / "job"
    result = fedcore(
        "compare", "--config", config, "--rounds", "1", "--epochs", "1", "--out", out, "--no-plots"
    )
    assert result.returncode == 0, result.stderr
    experiment = json.loads((out / "experiment.json").read_text())
    assert (experiment["rounds"], experiment["seed"]) == (1, [3])
    assert experiment["data"] == {"clients": 5}


def test_run_trains_one_strategy_and_writes_nothing_unless_told(tmp_path):
    result = fedcore("run", "--strategy", "fedcore", *FAST, "--stragglers", "30", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "FedCore" in result.stdout
    assert "FedAvg" not in result.stdout
    assert list(tmp_path.iterdir()) == []


def test_an_own_strategy_stands_beside_the_others(tmp_path):
    own = tmp_path / "lazy.py"
    own.write_text(
        "from fedcore import *\n"
        "from fedcore.server.merge import aggregation\n"
        "def build():\n"
        "    return Strategy(lambda c, t, e: SIT_OUT, aggregation('mean'))\n"
    )
    out = tmp_path / "job"
    result = compare(out, "--strategies", f"fedcore,{own}", "--no-plots")
    assert result.returncode == 0, result.stderr
    assert "lazy" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--benchmark", "synthetik-1-1"], ["synthetik-1-1", "did you mean"]),
        (["--benchmark", "synthetic-a-b"], ["synthetic-a-b", "synthetic-0.5-0.5"]),
        (["--strategies", "fedpox"], ["fedpox", "did you mean 'fedprox'"]),
        (["--selector", "kmedoid"], ["kmedoid", "did you mean 'kmedoids'"]),
        (["--rounds", "-3"], ["rounds", "-3", "at least 1"]),
        (["--stragglers", "0"], ["stragglers", "got 0", "above 0"]),
        (["--stragglers", "100"], ["stragglers", "got 100"]),
        (["--learning-rate", "nan"], ["learning_rate", "nan"]),
        (["--capability-std", "0", "--capability-floor", "1.5"], ["capability_floor", "got 1.5"]),
        (["--data", "clients=0"], ["clients", "got 0"]),
        (["--data", "clients"], ["KEY=VALUE", "clients"]),
        (["--data", "colour=3"], ["colour"]),
        (["--config", "/nonexistent.toml"], ["/nonexistent.toml", "cannot be read"]),
        (["--strategies", "./none.py"], ["none.py"]),
    ],
)
def test_bad_input_is_one_sentence_and_changes_nothing(tmp_path, refuse, arguments, words):
    out = tmp_path / "job"
    sentence = refuse("compare", *FAST, "--out", out, *arguments)
    for word in words:
        assert word in sentence
    assert not out.exists()


def test_the_process_says_so_too(tmp_path):
    result = compare(tmp_path / "job", "--strategies", "fedpox")
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr == (
        "error: no strategy named 'fedpox'; did you mean 'fedprox'? (see 'fedcore list')\n"
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [("rounds = ", ["not valid TOML"]), ("rouns = 3", ["rouns", "did you mean 'rounds'"])],
)
def test_bad_files_are_one_sentence(tmp_path, refuse, text, words):
    config = tmp_path / "job.toml"
    config.write_text(text)
    sentence = refuse("compare", "--config", config, "--out", tmp_path / "job")
    assert all(word in sentence for word in words)
    assert not (tmp_path / "job").exists()


def test_an_existing_folder_is_left_alone(tmp_path, refuse):
    (tmp_path / "notes.txt").write_text("mine")
    assert "exists and holds something else" in refuse("compare", *FAST, "--out", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_file_in_the_way_is_one_sentence(tmp_path, refuse):
    blocker = tmp_path / "file"
    blocker.write_text("")
    assert "file" in refuse("compare", *FAST, "--out", blocker / "job")


def test_nan_in_data_is_one_sentence(tmp_path, refuse, monkeypatch):
    load = synthetic.load

    def poisoned(**options):
        data = load(**options)
        data.clients[0].x[3, 1] = float("nan")
        return data

    monkeypatch.setattr(synthetic, "load", poisoned)
    monkeypatch.setattr(poisoned, "__signature__", inspect.signature(load), raising=False)
    sentence = refuse("compare", *FAST, "--out", tmp_path / "job")
    assert "client 0 has NaN or infinity among its inputs" in sentence
    assert not (tmp_path / "job").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--resume"], ["resume needs the folder of an earlier job", "--out"]),
        (["--overwrite"], ["overwrite needs the folder of an earlier job", "--out"]),
        (["--out", "a", "--resume", "--overwrite"], ["leave out one of them"]),
    ],
)
def test_ways_to_use_a_folder_that_mean_nothing_are_refused(
    tmp_path, refuse, monkeypatch, arguments, words
):
    monkeypatch.chdir(tmp_path)
    sentence = refuse("run", "--strategy", "fedcore", *FAST, *arguments)
    assert all(word in sentence for word in words)
    assert list(tmp_path.iterdir()) == []


def test_run_takes_one_strategy(refuse):
    sentence = refuse("run", "--strategy", "fedavg,fedcore", *FAST)
    assert "strategy must be one, got 'fedavg,fedcore'" in sentence


def test_an_interrupted_job_says_how_to_go_on(tmp_path):
    out = tmp_path / "job"
    code = "from fedcore.cli.main import main; main()"
    arguments = ["compare", *FAST, "--rounds", "100000", "--out", str(out)]
    with subprocess.Popen(
        [sys.executable, "-c", code, *arguments], stderr=subprocess.PIPE, text=True
    ) as process:
        until = time.monotonic() + 100
        while not (out / "rounds.jsonl").exists() and time.monotonic() < until:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        sentence = process.communicate(timeout=60)[1]
    assert process.returncode == 130
    assert sentence == "interrupted; the same command with --resume goes on from here\n"


def test_an_interruption_anywhere_else_is_one_word(monkeypatch, capsys):
    def stopped():
        raise KeyboardInterrupt

    monkeypatch.setattr("fedcore.cli.main.plain_console", stopped)
    monkeypatch.setattr(sys, "argv", ["fedcore", "list"])
    with pytest.raises(SystemExit) as found:
        main()
    assert (found.value.code, capsys.readouterr().err) == (130, "interrupted\n")


def test_version_list_and_help():
    assert fedcore("--version").stdout.startswith("fedcore 0.")
    listed = fedcore("list").stdout
    for word in ("synthetic-1-1", "fedcore", "kmedoids-per-class", "logistic"):
        assert word in listed
    for command in ("compare", "run"):
        text = fedcore(command, "--help").stdout
        assert "Example" in text
        assert "--below-one-pass" in text
    assert "fedcore compare --out" in fedcore("--help").stdout


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("report",), "Folders of jobs."),
        (("verify",), "Folder of a job."),
        (("data", "fetch"), "Dataset, e.g. mnist"),
    ],
)
def test_help_says_what_arguments_are(command, said):
    """Which some versions of click leave out."""
    assert said in fedcore(*command, "--help").stdout


def test_a_file_may_hold_what_the_help_of_it_says(tmp_path):
    """All tables of options but the first, of which it has --data and --method."""
    text = " ".join(fedcore("compare", "--help").stdout.replace("│", " ").split())
    assert "TOML file of data, method and all options from 'Job' on;" in text
    assert (PANELS[0], set(TABLES)) == ("Job", {"data", "method"})
    path = tmp_path / "job.toml"
    path.write_text("rounds = 3\n[data]\nclients = 5\n[method]\nbuffer = 2\n")
    found = experiment_from({}, path)
    assert (found.rounds, found.data, found.method) == (3, {"clients": 5}, {"buffer": 2})
    for name in ("out", "resume", "plots", "csv"):
        assert name not in option_fields()
        path.write_text(f"{name} = true\n")
        with pytest.raises(BadOption, match=f"no option named '{name}'"):
            experiment_from({}, path)


@pytest.mark.parametrize("kept", [4, 5])  # torn in the first, or in the second round of a run
def test_an_interrupted_job_resumes_to_the_same_result(tmp_path, kept):
    whole, part = tmp_path / "whole", tmp_path / "part"
    assert compare(whole, "--no-plots").returncode == 0
    assert compare(part, "--no-plots").returncode == 0
    # As a crash leaves it: no summary, and the last rounds torn off.
    (part / "summary.json").unlink()
    lines = (part / "rounds.jsonl").read_text().splitlines(keepends=True)
    (part / "rounds.jsonl").write_text("".join(lines[:kept]) + lines[kept][:40])
    resumed = compare(part, "--no-plots", "--resume")
    assert resumed.returncode == 0, resumed.stderr
    assert without_wall_clock(part / "rounds.jsonl") == without_wall_clock(whole / "rounds.jsonl")


def test_a_fleet_of_ones_own_and_a_log_that_is_verified(tmp_path):
    """Client 5 needs 2 epochs on all its data for longer than any deadline but this one."""
    rows = [f"{client},{100 if client < 5 else 1e-6}" for client in range(6)]
    (tmp_path / "own.csv").write_text("\n".join(["client,samples_per_second", *rows]) + "\n")
    out = tmp_path / "job"
    options = ["--speeds", tmp_path / "own.csv", "--deadline", "2e3", "--time-budget", "1.5"]
    options += ["--strategies", "fedavg-ds,fedcore", "--no-plots"]
    result = compare(out, *options)
    assert result.returncode == 0, result.stderr
    assert "16.7 % stragglers, " in result.stdout  # one of six
    good = fedcore("verify", out)
    assert (good.returncode, good.stderr) == (0, "")
    assert good.stdout.endswith(" events: nothing is wrong with them\n")
    lines = (out / "events.jsonl").read_text().splitlines(keepends=True)
    place = next(place for place, line in enumerate(lines) if '"merged"' in line)
    lines.insert(place, lines[place])
    (out / "events.jsonl").write_text("".join(lines))
    bad = fedcore("verify", out)
    assert bad.returncode == 1
    first = bad.stdout.splitlines()[0]
    assert first.startswith(f"events.jsonl, line {place + 2}: an answer of client ")
    assert first.endswith(" is merged twice")


def test_both_a_deadline_and_stragglers_are_one_sentence(tmp_path, refuse):
    told = refuse(
        "compare", *FAST, "--out", tmp_path / "x", "--deadline", "5", "--stragglers", "30"
    )
    assert "deadline is 5 and stragglers are [30.0]; give one of them" in told
    assert "cannot be read" in refuse("verify", tmp_path / "none")


def test_what_a_strategy_of_ones_own_raises_is_one_sentence_that_says_where(refuse, tmp_path):
    mine = tmp_path / "mine.py"
    text = (EXAMPLES / "own_strategy.py").read_text()
    mine.write_text(text.replace("budget = max(", "budget = {}['a']; max("))
    sentence = refuse("run", *FAST, "--strategy", mine, "--stragglers", "90")
    line = 1 + text[: text.index("budget = max(")].count("\n")
    assert sentence == f"error: line {line} of {str(mine)!r} failed with KeyError: 'a'\n"


def test_a_full_disk_is_one_sentence(capsys, monkeypatch):
    def broken():
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(sys, "argv", ["fedcore"])
    with pytest.raises(SystemExit) as stop:
        in_a_sentence(broken)
    assert stop.value.code == 2
    told = "error: writing failed with OSError: [Errno 28] No space left on device; make room"
    assert capsys.readouterr().err == f"{told}, then go on as after an interruption\n"


def test_what_this_package_raises_by_mistake_keeps_its_traceback(monkeypatch):
    def broken():
        raise KeyError("ours")

    monkeypatch.setattr(sys, "argv", ["fedcore"])
    with pytest.raises(KeyError, match="ours"):
        in_a_sentence(broken)
