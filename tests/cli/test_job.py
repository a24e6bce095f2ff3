import dataclasses
import sys

import pytest

pytest.importorskip("rich")

from fedcore.cli import job
from fedcore.cli.grid import prepare, run_grid, runs_of
from fedcore.cli.job import run_job
from fedcore.config import Experiment
from fedcore.errors import Interrupted

SMALL = Experiment(
    rounds=2,
    epochs=1,
    clients_per_round=2,
    stragglers=(30.0,),
    strategies=("fedavg", "fedcore"),
    seed=(0, 1),
    data={"clients": 4, "dimension": 3},
)


def test_the_grid_is_levels_by_strategies_by_seeds():
    grid = [(r.stragglers, r.strategy, r.seed) for r in runs_of(SMALL)]
    assert grid == [(30, "fedavg", 0), (30, "fedavg", 1), (30, "fedcore", 0), (30, "fedcore", 1)]


def test_seeds_share_the_data_and_differ_in_the_model():
    one, two = prepare(SMALL).values()
    for client, data in one.dataset.clients.items():
        assert data.x is two.dataset.clients[client].x
    assert not one.initial["linear.weight"].equal(two.initial["linear.weight"])


def test_without_a_folder_only_the_result_comes_back(capsys):
    content = run_job(dataclasses.replace(SMALL, seed=(0,)), None)
    assert [r["strategy"] for r in content["results"]] == ["fedavg", "fedcore"]
    told = capsys.readouterr().out
    assert "At 30 % stragglers, every round on time: FedCore" in told


def test_rounds_are_told_as_they_end():
    heard = []
    one = dataclasses.replace(SMALL, seed=(0,), strategies=("fedcore",))
    _, runs = run_grid(one, None, tell=lambda run, *told: heard.append((run.strategy, *told)))
    assert heard == [("fedcore", 0, 0.0), ("fedcore", 1, 0.5), ("fedcore", 2, 1.0)]
    assert [[record.number for record in rounds] for rounds in runs.values()] == [[1, 2]]


def test_under_a_budget_of_time_what_has_passed_of_it_is_told(tmp_path, capsys):
    heard = []
    timed = dataclasses.replace(SMALL, seed=(0,), strategies=("fedcore",), time_budget=2.5)
    _, runs = run_grid(timed, tmp_path / "job", tell=lambda run, *told: heard.append(told))
    (records,) = runs.values()
    passed = [sum(record.time for record in records[:done]) for done in range(len(records))]
    assert heard[:-1] == [(done, time / 2.5) for done, time in enumerate(passed)]
    assert heard[-1] == (len(records), 1.0)
    run_grid(timed, tmp_path / "job", resume=True, tell=lambda run, *told: heard.append(told))
    assert heard[-1] == heard[-2]
    run_job(timed, tmp_path / "job", resume=True, plots=False)
    assert capsys.readouterr().err == f"FedCore, 30 % stragglers: {len(records)} rounds done\n"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({}, "interrupted; the same command with --resume goes on from here"),
        ({"resume": True}, "interrupted; the same command with --resume goes on from here"),
        (
            {"overwrite": True},
            "interrupted; the same command with --resume in place of --overwrite goes on from here",
        ),
        ({"out": None}, "interrupted; nothing was written"),
        ({"rounds_began": False}, "interrupted; nothing was written"),
    ],
)
def test_who_interrupts_hears_how_to_go_on(tmp_path, monkeypatch, options, sentence):
    began = options.pop("rounds_began", True)

    def stopped(experiment, out, *, overwrite, resume, tell):
        if began:
            tell(next(runs_of(experiment)), 1, 0.5)
        raise KeyboardInterrupt

    monkeypatch.setattr(job, "run_grid", stopped)
    with pytest.raises(Interrupted) as found:
        run_job(SMALL, **{"out": tmp_path / "job", **options})
    assert str(found.value) == sentence


def test_brackets_are_printed_as_they_are(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    out = tmp_path / "run[red]"
    run_job(dataclasses.replace(SMALL, rounds=1, seed=(0,)), out)
    heard = capsys.readouterr()
    assert f"Written to {out}: summary.json" in heard.out
    assert "install FedCore with its extra 'plots'" in heard.err
    assert "FedCore, 30 % stragglers: 1 round done" in heard.err


def test_answers_that_were_left_out_are_told_below_the_table(monkeypatch, capsys):
    wild = dataclasses.replace(SMALL, seed=(0,), strategies=("fedavg",), learning_rate=1e38)
    run_job(wild, None)
    assert "FedAvg at 30 % stragglers left out" in capsys.readouterr().out
