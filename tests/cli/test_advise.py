"""Advice on a fleet by hand and on a benchmark in short; what is refused before it starts."""

import itertools
import math
import pathlib
import sys

import pytest

import fedcore
from fedcore.cli import advise as module
from fedcore.cli.advise import MULTIPLES, TURNS, Advice
from fedcore.errors import BadOption, FedCoreError
from fedcore.sim.outlook import Outlook, time_to

HEADER = "client,samples_per_second,download,upload,samples\n"
TINY = {"epochs": 2, "clients_per_round": 3, "data": {"clients": 6}, "device": "cpu"}


@pytest.fixture
def fleet(tmp_path):
    path = tmp_path / "fleet.csv"
    path.write_text(HEADER + "0,10,,,100\n1,10,100,100,100\n2,1,100,100,100\n")
    return str(path)


def test_a_fleet_without_data_is_looked_at(fleet):
    """E = 10: 100, 100 and 1000 s; tau, the 70th percentile, is 100 + 0.4 · 900 = 460 s.

    Thirty of a hundred may be missing, so that 100 bytes take the 70th percentile of 0, 2 and 2 s.
    """
    advice = fedcore.advise(fleet, model_bytes=100, epochs=10)
    assert [one.of_tau for one in advice.outlooks] == MULTIPLES
    assert [one.deadline for one in advice.outlooks] == pytest.approx(
        [2.0 + 460 * x for x in MULTIPLES]
    )
    assert advice.best.time == min(one.time for one in advice.outlooks)
    assert [one.slow for one in advice.outlooks][-4:] == pytest.approx([1 / 3, 1 / 3, 1 / 3, 0])
    assert "by arithmetic alone: the time to an accuracy needs data" in str(advice)
    assert {one.tried for one in advice.outlooks} == {0}


def test_what_is_compressed_takes_less_time_to_send(fleet, monkeypatch):
    """4,000 bytes at 100 a second: 40 s down, and up 40 s, or 40 coordinates of 8 bytes: 3.2 s."""
    sent = {"none": 40.0, "topk:0.04": 3.2}
    for compress, up in sent.items():
        advice = fedcore.advise(fleet, model_bytes=4000, epochs=10, compress=compress)
        expected = [40 + up + 460 * x for x in MULTIPLES]
        assert [one.deadline for one in advice.outlooks] == pytest.approx(expected)
    worlds = []
    build = module.build_world
    monkeypatch.setattr(module, "build_world", lambda *of: worlds.append(build(*of)) or worlds[-1])
    links = {"download": 10.0, "upload": 10.0, "compress": "topk:0.04"}
    fedcore.advise("synthetic-1-1", budget=0.1, **links, **TINY)
    for world in worlds:
        assert world.server.profiles[0].upload == world.fleet.profiles[0].upload > 10


def test_one_far_client_of_equal_ones_is_not_waited_for(tmp_path):
    """All train alike, so that tau has no stragglers; 30 % may be too far away all the same."""
    rows = "".join(f"{client},10,100,100,100\n" for client in range(9))
    (tmp_path / "fleet.csv").write_text(f"{HEADER}{rows}9,10,0.001,0.001,100\n")
    advice = fedcore.advise(str(tmp_path / "fleet.csv"), model_bytes=100, epochs=10)
    assert [one.deadline for one in advice.outlooks] == pytest.approx(
        [2 + 100 * x for x in MULTIPLES]
    )


@pytest.mark.parametrize(
    ("options", "tau"),
    [({"deadline": 200.0}, 200), ({"deadline": "auto"}, 460), ({"deadline": 0.0}, 460)],
)
def test_seconds_are_a_tau_of_ones_own(fleet, options, tau):
    """By 200 s one in three is late, by the tau of 30 % too."""
    found = fedcore.advise(fleet, model_bytes=100, epochs=10, **options).outlooks
    assert [one.deadline for one in found] == pytest.approx([2 + tau * x for x in MULTIPLES])


def test_a_file_of_a_spreadsheet_may_begin_with_a_mark(fleet):
    path = pathlib.Path(fleet)
    plain = fedcore.advise(fleet, model_bytes=100)
    path.write_text(path.read_text("utf-8"), "utf-8-sig")
    assert fedcore.advise(fleet, model_bytes=100) == plain


@pytest.mark.parametrize(
    ("times", "says"),
    [
        ({0.2: 11.0, 0.5: 10.0, 1: 40.0}, "80 % of runs), in place of 40 s with tau."),
        ({0.2: 11.0, 0.5: 10.0, 1: math.inf}, "80 % of runs); with tau no trial came near it."),
        ({0.5: 90.0, 1: 10.0}, "after about 10 s (5 to 20 s in 80 % of runs)."),
        ({0.5: 10.0, 1: 40.0}, ", in place of 40 s with tau. None shorter was tried."),
        ({1: 10.0, 2: 40.0}, "in 80 % of runs). None shorter was tried."),
    ],
)
def test_the_sentence_tells_of_tau_where_it_is_another_and_of_what_was_not_tried(times, says):
    rest = 0.3, 9.0, (), 0.1, 0.2, 0.3, 0.4
    known = [Outlook(100 * x, x, *rest, time=time, within=2.0) for x, time in times.items()]
    assert str(Advice(tuple(known), 0.8)).endswith(says)


def test_speeds_may_be_of_data_too(tmp_path):
    """The column is of no use there, and no harm."""
    rows = "".join(f"{client},100,,,5\n" for client in range(6))
    (tmp_path / "own.csv").write_text(HEADER + rows)
    clients = [([[0.0]] * 4, [0, 1, 0, 1]) for _ in range(6)]
    import numpy as np
    from torch import nn

    arrays = [(np.array(x, np.float32), np.array(y)) for x, y in clients]
    options = {"speeds": str(tmp_path / "own.csv"), "deadline": 100.0}
    history = fedcore.simulate(arrays, nn.Linear(1, 2), rounds=1, **options)
    assert len(history.rounds) == 1


def test_the_better_half_is_tried_again_on_the_same_fleet(monkeypatch):
    """Runs of a made-up law: the deadline of 1/4 tau is best, by far."""
    seen = []

    def trained(world, target, until):
        deadline = world.fleet.deadline
        speeds = tuple(profile.capability for profile in world.server.profiles.values())
        seen.append((world.server.seed, deadline, speeds))
        rounds = 1 + round(50 * abs(math.log2(deadline / (units[0] / 4))))
        return [0.1] * rounds + [0.9], deadline

    units = [fedcore.advise("synthetic-1-1", budget=1e-6, **TINY).outlooks[5].deadline]
    monkeypatch.setattr(module, "_trained", trained)
    advice = fedcore.advise("synthetic-1-1", targets=0.8, **TINY)
    assert advice.best.of_tau == 0.25
    counts = [len(list(same)) for _, same in itertools.groupby(seed for seed, *_ in seen)]
    assert counts == list(TURNS)
    assert len({speeds for *_, speeds in seen}) == 1
    assert advice.best.time == pytest.approx(2 * units[0] / 4, rel=1e-6)
    again = time_to(0.8, [([0.1, 0.9], units[0] / 4)] * len(TURNS))
    assert (advice.best.time, advice.best.within) == pytest.approx(again)
    assert "80.0% accuracy after about" in str(advice)


def test_short_runs_end_at_the_target_and_tell_how_far_they_are():
    told = []
    advice = fedcore.advise("synthetic-1-1", targets=1e-9, budget=60, tell=told.append, **TINY)
    assert sum(one.tried for one in advice.outlooks) == len(told) == sum(TURNS)  # a round each
    assert told[0].startswith("0%: trying a deadline of ")


def test_without_a_target_there_is_one():
    advice = fedcore.advise("synthetic-1-1", budget=3, **TINY)
    assert 0 < advice.target < 0.95
    assert any(one.time < math.inf for one in advice.outlooks)


def test_a_budget_for_single_rounds_makes_no_target_of_them():
    advice = fedcore.advise("synthetic-1-1", budget=1e-6, **TINY)
    assert advice.target is None
    assert "a budget for 5 rounds of a trial" in str(advice)


def test_where_no_trial_comes_near_it_says_so():
    advice = fedcore.advise("synthetic-1-1", targets=0.999, budget=0.1, **TINY)
    assert str(advice) == "No trial came near 99.9%; raise the budget or lower the target."


@pytest.mark.parametrize(
    ("source", "options", "sentence"),
    [
        ("synthetic-1-1", {"budget": 0}, "budget must be above 0, got 0"),
        ("synthetic-1-1", {"budget": "a"}, "budget must be"),
        ("synthetic-1-1", {"model_bytes": -1}, "model_bytes must be at least 0"),
        ("synthetic-1-1", {"strategies": "fedavg,fedcore"}, "strategies must be one here"),
        ("synthetic-1-1", {"stragglers": [10, 30]}, "stragglers must be one here"),
        ("synthetic-1-1", {"targets": 1.5}, "targets must be"),
        ("synthetic-1-1", {"method": {"rho": 1}}, "no method option named 'rho'"),
        ("synthetic-9", {}, "benchmark must look like"),
        ("nowhere", {}, "no benchmark named 'nowhere'"),
        ("nowhere.csv", {}, "cannot be read"),
        (pathlib.Path("nowhere.csv"), {}, "cannot be read"),
        (["nowhere"], {}, "no benchmark named"),
        ("nowhere.py", {}, "no dataset file at 'nowhere.py'"),
    ],
)
def test_what_is_wrong_is_one_sentence(source, options, sentence):
    with pytest.raises(FedCoreError, match=sentence):
        fedcore.advise(source, **options)


@pytest.mark.parametrize("text", ["client,samples_per_second\n0,1\n", HEADER, HEADER + "0,1,,,\n"])
def test_a_fleet_needs_its_samples(tmp_path, text):
    path = tmp_path / "fleet.csv"
    path.write_text(text)
    with pytest.raises(BadOption, match="must have a last column 'samples' here; add it"):
        fedcore.advise(str(path))


def test_links_need_the_size_of_the_model(fleet):
    """Without one, sending took no time, and the deadline was too short for anybody's answer."""
    with pytest.raises(BadOption, match="model_bytes must be above 0 where a fleet has links"):
        fedcore.advise(fleet)
    pathlib.Path(fleet).write_text(HEADER + "0,1,,,5\n1,1,,,5\n")
    assert fedcore.advise(fleet).best.deadline > 0


def test_samples_that_are_a_slip_of_the_hand_are_refused(fleet):
    pathlib.Path(fleet).write_text(HEADER + "0,1,,,1e30\n")
    with pytest.raises(BadOption, match="samples must be at most 1,000,000,000,000, got 1"):
        fedcore.advise(fleet)


def run(monkeypatch, *arguments):
    from fedcore.cli.main import main

    monkeypatch.setattr(sys, "argv", ["fedcore", "advise", *map(str, arguments)])
    main()


def test_the_command_shows_a_table_a_sentence_and_a_picture(monkeypatch, capsys, fleet, tmp_path):
    pytest.importorskip("typer")
    pytest.importorskip("matplotlib")
    given = "--benchmark", fleet, "--model-bytes", 100, "--epochs", "10"
    with pytest.raises(SystemExit) as left:
        run(monkeypatch, *given, "--plot", tmp_path / "a.png")
    shown = capsys.readouterr().out
    assert left.value.code == 0
    assert "on_coresets" in shown
    assert "Take a deadline of" in shown
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_a_picture_leaves_out_what_never_gets_there(tmp_path):
    pytest.importorskip("matplotlib")
    from fedcore.report.plots import draw_advice

    draw_advice([(10.0, math.inf, math.inf), (20.0, 30.0, 1.5)], tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    "arguments",
    [
        ["--benchmark", "nowhere"],
        ["--budget", "0"],
        ["--plot", "no/such/folder/a.png"],
    ],
)
def test_bad_input_is_a_sentence_and_leaves_nothing(monkeypatch, capsys, tmp_path, arguments):
    pytest.importorskip("typer")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as left:
        run(monkeypatch, *arguments, "--plot", "b.png") if "--plot" not in arguments else run(
            monkeypatch, *arguments
        )
    assert left.value.code == 2
    assert capsys.readouterr().err.startswith("error: ")
    assert not list(tmp_path.iterdir())
