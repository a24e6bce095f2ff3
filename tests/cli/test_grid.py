import dataclasses
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import fedcore
from fedcore.cli.grid import prepare, run_grid
from fedcore.config import Experiment
from fedcore.errors import BadData, BadOption, BadRecord, UnknownPlugin
from fedcore.report import output
from fedcore.report.verify import verify
from fedcore.sim.fleet import fleet_of
from fedcore.sources.clients import sizes_of

SMALL = Experiment(
    rounds=1,
    epochs=1,
    clients_per_round=2,
    stragglers=(30.0,),
    strategies=("fedavg", "fedcore"),
    data={"clients": 4, "dimension": 3},
)


def changed(**options):
    return dataclasses.replace(SMALL, **options)


@pytest.mark.parametrize(
    "pair", [("fedcore", "./fedcore.py"), ("a/mine.py", "b/mine.py"), ("a/mine.py", "mine")]
)
def test_two_strategies_of_one_name_are_refused(pair):
    first, second = pair
    sentence = f"strategies '{first}' and '{second}' would both be called '.*'; rename one file"
    with pytest.raises(BadOption, match=sentence):
        prepare(changed(strategies=pair))


@pytest.mark.parametrize(
    ("options", "error", "sentence"),
    [
        ({"device": "cuda"}, BadOption, "device 'cuda' asks for a GPU"),
        ({"executor": "ray"}, BadOption, "Ray is missing"),
        ({"metrics": ("mae",)}, BadData, "needs as many targets as outputs"),
        ({"selector": "none.py"}, UnknownPlugin, "no selector file at 'none.py'"),
        ({"selector": "EMPTY"}, BadOption, r"selector file .* has no function 'select'"),
        ({"model": "EMPTY"}, BadOption, r"model file .* has no function 'build'"),
        ({"strategies": ("EMPTY",)}, BadOption, r"strategy file .* has no function 'build'"),
        ({"executor": "compiled", "model": "OWN"}, BadOption, "executor 'compiled' trains chains"),
        ({"data": {"clients": 0}}, BadOption, "clients must be at least 1"),
        (
            {"stragglers": (), "deadline": 1e-9, "time_budget": 1.0, "strategies": ("fedavg-ds",)},
            BadOption,
            "no client can do what fedavg-ds asks",
        ),
        ({"strategies": ("fedavg", "timelyfl"), "compress": "8bit"}, BadOption, "compress must be"),
        (
            {"model": "NORM", "batch_norm": "average", "compress": "8bit"},
            BadOption,
            "compress must be none where batch_norm is average",
        ),
        (
            {"benchmark": "READ", "proxy": "input", "data": {}},
            BadOption,
            "proxy 'input' needs all of a client",
        ),
    ],
)
def test_what_is_refused_leaves_an_earlier_job_and_a_new_folder_alone(
    tmp_path, monkeypatch, options, error, sentence
):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setitem(sys.modules, "ray", None)
    (tmp_path / "empty.py").write_text('"""Nothing."""\n')
    (tmp_path / "own.py").write_text(
        "from torch import nn\n"
        "def build(example, classes):\n"
        "    return nn.Sequential(nn.Linear(3, 4), nn.ELU(), nn.Linear(4, classes))\n"
    )
    (tmp_path / "norm.py").write_text(
        "from torch import nn\n"
        "def build(example, classes):\n"
        "    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, classes))\n"
    )
    (tmp_path / "read.py").write_text(
        "import dataclasses\n"
        "from torch.utils.data import DataLoader, TensorDataset, default_collate\n"
        "from fedcore.datasets import synthetic\n"
        "def load(*, seed=0):\n"
        "    whole = synthetic.load(seed=seed, clients=4, dimension=3)\n"
        "    items = {\n"
        "        n: DataLoader(TensorDataset(a.x, a.y), collate_fn=lambda b: default_collate(b))\n"
        "        for n, a in whole.clients.items()\n"
        "    }\n"
        "    return dataclasses.replace(whole, clients=items)\n"
    )
    files = {
        "EMPTY": str(tmp_path / "empty.py"),
        "OWN": str(tmp_path / "own.py"),
        "NORM": str(tmp_path / "norm.py"),
        "READ": str(tmp_path / "read.py"),
    }
    given = {
        name: tuple(files.get(v, v) for v in value)
        if isinstance(value, tuple)
        else files.get(str(value), value)
        for name, value in options.items()
    }
    earlier = tmp_path / "earlier"
    run_grid(SMALL, earlier)
    before = {path.name: path.read_bytes() for path in earlier.iterdir()}
    for out, overwrite in ((earlier, True), (tmp_path / "new", False)):
        with pytest.raises(error, match=sentence):
            run_grid(changed(**given), out, overwrite=overwrite)
    assert {path.name: path.read_bytes() for path in earlier.iterdir()} == before
    assert json.loads(before["summary.json"])["results"]
    assert not (tmp_path / "new").exists()


def test_a_fleet_that_cannot_be_is_found_before_anything_is_written(tmp_path, monkeypatch):
    asked = []

    def refuse(sizes, experiment, stragglers, seed):
        asked.append((stragglers, seed))
        if stragglers == 30.0 and seed == 1:
            raise BadOption("no such fleet")

    monkeypatch.setattr("fedcore.cli.grid.fleet_of", refuse)
    with pytest.raises(BadOption, match="no such fleet"):
        run_grid(changed(stragglers=(10.0, 30.0), seed=(0, 1)), tmp_path / "new")
    assert asked == [(10, 0), (10, 1), (30, 0), (30, 1)]
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("selection", ["uniform", "uniform-by-round"])
def test_a_cohort_larger_than_the_fleet_is_told(caplog, selection):
    prepare(changed(selection=selection, clients_per_round=50))
    assert caplog.messages == [
        "clients_per_round is 50, but there are 4 clients: all of them train in every round"
    ]


def test_a_cohort_drawn_with_replacement_may_be_of_any_size(caplog):
    prepare(changed(clients_per_round=50))
    assert caplog.messages == []


LONGER = changed(rounds=12, epochs=2, seed=(0, 1), strategies=("fedprox", "fedcore"))
KILLED = """
import sys
import time
from pathlib import Path
from fedcore.cli.grid import run_grid
from fedcore.report import output
sys.path.insert(0, sys.argv[2])
from test_grid import LONGER
output.CHECKPOINT_EVERY = 0.02
run_grid(LONGER, Path(sys.argv[1]), resume=Path(sys.argv[1]).exists(),
         tell=lambda run, done, share: time.sleep(0.1))
"""


def lasting(path):
    """The lines of a job without their real times: text, so that every digit counts."""
    return re.sub(r'"wall_\w+": [^,}]+', "", (path / "rounds.jsonl").read_text())


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    path = tmp_path_factory.mktemp("jobs") / "whole"
    run_grid(LONGER, path)
    return path


def test_a_job_killed_in_the_middle_resumes_byte_for_byte(whole, tmp_path):
    """SIGKILL, wherever it strikes, again and again until the job is done."""
    out = tmp_path / "job"
    lines = out / "rounds.jsonl"
    kills, same_source = 0, {**os.environ, "PYTHONPATH": str(Path(fedcore.__file__).parents[1])}
    for wanted in (3, 17, 31, 1000):
        began = [sys.executable, "-c", KILLED, str(out), str(Path(__file__).parent)]
        with subprocess.Popen(began, env=same_source) as process:
            while process.poll() is None:
                if lines.exists() and lines.read_bytes().count(b"\n") >= wanted:
                    process.kill()
                    break
                time.sleep(0.005)
        kills += process.returncode == -signal.SIGKILL
        assert process.returncode in (0, -signal.SIGKILL)
    assert kills >= 2  # on a busy machine the last may come too late
    assert lasting(out) == lasting(whole)
    assert (out / "events.jsonl").read_bytes() == (whole / "events.jsonl").read_bytes()
    assert json.loads((out / "summary.json").read_text())["results"]


@pytest.mark.parametrize("checked", [True, False])
@pytest.mark.parametrize(
    ("damage", "line"),
    [
        (lambda lines: lines.pop(16), 17),
        (lambda lines: lines.insert(4, lines[4]), 6),
        (lambda lines: lines.insert(30, lines.pop(13)), 14),
        (lambda lines: lines.append(lines[-1]), 49),
        (lambda lines: lines.__setitem__(20, lines[20].replace('"seed": 1', '"seed": 2')), 21),
        (lambda lines: lines.__setitem__(0, "{}\n"), 1),
    ],
)
def test_a_damaged_job_is_refused_and_the_remedy_works(whole, tmp_path, damage, line, checked):
    out = tmp_path / "job"
    shutil.copytree(whole, out)
    text = (out / "rounds.jsonl").read_text()
    if not checked:  # as the version before wrote it
        text = re.sub(r', "(check": "\w+"|fell_back": 0)', "", text)
    lines = text.splitlines(keepends=True)
    damage(lines)
    (out / "rounds.jsonl").write_text("".join(lines))
    with pytest.raises(BadRecord, match=rf"delete the lines from {line} on and resume again"):
        run_grid(LONGER, out, resume=True)
    (out / "rounds.jsonl").write_text("".join(lines[: line - 1]))
    run_grid(LONGER, out, resume=True)
    assert lasting(out) == lasting(whole)


STRATEGY = """
from fedcore import SIT_OUT, LocalPlan, Way, Phase, Strategy
from fedcore.server.merge import aggregation


def build(*, share=1.0):
    def plan(client, deadline, epochs):
        return LocalPlan((Phase(1),), Way.PARTIAL) if client.num_samples * share > 60 else SIT_OUT

    return Strategy(plan, aggregation("mean"))
"""
SELECTOR = """
from fedcore.coreset.selectors import uniform


def build(*, most=1000):
    return lambda candidates, budget, generator: uniform.select(
        candidates, min(most, budget), generator
    )
"""
MODEL = """
from torch import nn


def build(example, num_classes, *, width=2):
    return nn.Sequential(nn.Linear(example.numel(), width), nn.Linear(width, num_classes))
"""


@pytest.fixture
def own(tmp_path):
    """Plug-ins of one's own, each with an option of its own."""
    for name, text in (("sitting", STRATEGY), ("few", SELECTOR), ("wide", MODEL)):
        (tmp_path / f"{name}.py").write_text(text)
    return lambda name: str(tmp_path / f"{name}.py")


def test_own_options_reach_the_plug_ins_that_take_them(own):
    experiment = changed(
        strategies=("fedcore", own("sitting")),
        selector=own("few"),
        model=own("wide"),
        epochs=5,
        method={"share": 0.0, "most": 3, "width": 7},
    )
    federation = prepare(experiment)[0]
    assert federation.initial["0.weight"].shape == (7, 3)
    _, runs = run_grid(experiment, None)
    clients = [
        (run.strategy, client)
        for run, records in runs.items()
        for record in records
        for client in record.clients
    ]
    sizes = [c.coreset_size for name, c in clients if name == "fedcore" and c.coreset_size]
    assert sizes
    assert max(sizes) <= 3
    assert all(client.work == 0 for name, client in clients if name == "sitting")


@pytest.mark.parametrize(
    ("method", "sentence"),
    [
        ({"shar": 1}, "no method option named 'shar'; did you mean 'share'"),
        ({"zzz": 1}, "there are most, share, width$"),
        (
            {"width": "x"},
            "model '.*wide.py' cannot be built: .*; see examples/, and --method KEY=VALUE",
        ),
    ],
)
def test_an_own_option_that_nobody_takes_or_can_use_is_one_sentence(own, method, sentence):
    experiment = changed(
        strategies=(own("sitting"),), selector=own("few"), model=own("wide"), method=method
    )
    with pytest.raises(BadOption, match=sentence):
        prepare(experiment)


@pytest.mark.parametrize(
    "name", ["scaffold", "fedbuff", "fedasync", "fadas", "ca2fl", "fedcore-buff", "fedcore-async"]
)
@pytest.mark.parametrize("stopped", [1, 5, 11])
def test_a_method_with_state_resumes_from_disk_byte_for_byte(tmp_path, monkeypatch, name, stopped):
    """State of the strategy, memory of clients and jobs in flight go through the checkpoint."""
    own = changed(rounds=12, epochs=2, strategies=(name,), selection="uniform")
    run_grid(own, tmp_path / "whole")
    monkeypatch.setattr(output, "CHECKPOINT_EVERY", -1.0)

    def stop(run, done, share):
        if done == stopped:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_grid(own, tmp_path / "part", tell=stop)
    heard = []
    run_grid(own, tmp_path / "part", resume=True, tell=lambda run, done, share: heard.append(done))
    assert heard == list(range(stopped, 13))
    assert lasting(tmp_path / "part") == lasting(tmp_path / "whole")


HARD = {
    "epochs": 2, "selection": "uniform", "capability": "phones", "mean_on": 2.0, "mean_off": 0.5,
    "dropout": 0.2, "time_budget": 14.0, "data": {"clients": 8, "dimension": 3},
}  # fmt: skip


@pytest.mark.parametrize("kind", [-1.0, 1e9])  # a checkpoint after every round; none
@pytest.mark.parametrize("stopped", [1, 4, 9, 13])
def test_clients_that_come_go_and_drop_out_resume_byte_for_byte(
    tmp_path, monkeypatch, stopped, kind
):
    """With a budget of time, and so with as many rounds as it makes."""

    hard = changed(strategies=("fedcore", "fedbuff"), clients_per_round=4, **HARD)
    run_grid(hard, tmp_path / "whole")
    monkeypatch.setattr(output, "CHECKPOINT_EVERY", kind)
    told = []

    def stop(run, done, share):
        told.append(done)
        if done and sum(number > 0 for number in told) == stopped:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_grid(hard, tmp_path / "part", tell=stop)
    with (tmp_path / "part" / "events.jsonl").open("a") as file:
        file.write('{"strategy": "fedc')  # as a crash may leave it
    run_grid(hard, tmp_path / "part", resume=True)
    assert lasting(tmp_path / "part") == lasting(tmp_path / "whole")
    events = [(tmp_path / name / "events.jsonl").read_bytes() for name in ("part", "whole")]
    assert events[0] == events[1]
    assert verify(tmp_path / "part")[0] == []


def test_a_finished_job_with_a_budget_is_left_as_it_is(tmp_path):
    hard = changed(strategies=("fedavg", "fedcore"), seed=(0, 1), **HARD)
    first, _ = run_grid(hard, tmp_path / "job")
    before = (tmp_path / "job" / "rounds.jsonl").read_bytes()
    heard = []
    again, _ = run_grid(hard, tmp_path / "job", resume=True, tell=lambda *told: heard.append(told))
    assert (tmp_path / "job" / "rounds.jsonl").read_bytes() == before
    assert again["results"] == first["results"]
    assert len(heard) == 4


def test_a_budget_in_which_nobody_can_do_anything_is_refused():
    hopeless = changed(strategies=("fedavg-ds",), stragglers=(), deadline=1e-6, time_budget=5.0)
    with pytest.raises(BadOption, match="no client can do what fedavg-ds asks in 1e-06 seconds"):
        run_grid(hopeless, None)


def test_a_deadline_in_seconds_is_told_as_a_share_of_stragglers_and_resumes(tmp_path):
    """One row of results, called by the mean share over the fleets of both seeds."""
    own = changed(stragglers=(), deadline=300.0, seed=(0, 1), rounds=2)
    content, runs = run_grid(own, tmp_path / "job")
    late = []
    for seed, federation in prepare(own).items():
        fleet = fleet_of(sizes_of(federation.dataset.clients), own, 0.0, seed)
        whole = [c.seconds(own.epochs * c.num_samples) for c in fleet.profiles.values()]
        late.append(sum(seconds > 300 for seconds in whole) / len(whole))
    assert {run.stragglers for run in runs} == {round(100 * sum(late) / 2, 1)}
    assert 0 < sum(late) < 2
    again, _ = run_grid(own, tmp_path / "job", resume=True)
    assert again["results"] == content["results"]


def test_a_job_that_an_earlier_version_left_goes_on(whole, tmp_path, monkeypatch):
    """Its lines have no check, and its checkpoint is of another kind: that run begins again."""
    monkeypatch.setattr(output, "CHECKPOINT_EVERY", -1.0)
    out = tmp_path / "job"
    done = []

    def stop(run, number, share):
        done.append(number)
        if len(done) == 20:  # in the second run
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_grid(LONGER, out, tell=stop)
    text = (out / "rounds.jsonl").read_text()
    (out / "rounds.jsonl").write_text(re.sub(r', "(check": "\w+"|fell_back": 0)', "", text))
    (out / output.CHECKPOINT).rename(out / "checkpoint.npz")
    heard = []
    run_grid(LONGER, out, resume=True, tell=lambda run, number, share: heard.append(number))
    assert heard[:3] == [12, 0, 1]  # the first run is done
    assert lasting(out) == lasting(whole)


GRID = changed(rounds=2, seed=(0, 1), learning_rate=0.01, learning_rates=(0.01, 0.3))


def test_every_method_tries_every_step_size_and_a_job_goes_on_in_the_middle(tmp_path):
    content, runs = run_grid(GRID, tmp_path / "whole")
    tried = [(run.strategy, run.learning_rate, run.seed) for run in runs]
    assert tried == [
        (strategy, rate, seed)
        for strategy in ("fedavg", "fedcore")
        for rate in (0.01, 0.3)
        for seed in (0, 1)
    ]
    assert [choice["strategy"] for choice in content["step_sizes"]] == ["fedavg", "fedcore"]
    best = {choice["strategy"]: choice["learning_rate"] for choice in content["step_sizes"]}
    shown = [(r["strategy"], r["learning_rate"], r["seed"]) for r in content["results"]]
    assert shown == [(strategy, rate, s) for strategy, rate in best.items() for s in (0, 1)]
    done = []

    def stop(run, number, share):
        done.append(run)
        if len(done) == 8:  # in the third run, at the second step size
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_grid(GRID, tmp_path / "part", tell=stop)
    assert done[-1].learning_rate == 0.3
    again, _ = run_grid(GRID, tmp_path / "part", resume=True)
    assert lasting(tmp_path / "part") == lasting(tmp_path / "whole")
    for result in [*again["results"], *content["results"]]:
        del result["wall_seconds"]
    assert again["results"] == content["results"]
    with pytest.raises(BadOption, match="learning_rates is"):
        run_grid(
            dataclasses.replace(GRID, learning_rates=(0.01, 0.2)), tmp_path / "part", resume=True
        )


def test_a_step_size_of_a_grid_trains_as_it_does_alone():
    """Weights, and so training losses, are the same; only what is held out is halved."""
    _, runs = run_grid(GRID, None)
    for rate in GRID.learning_rates:
        _, alone = run_grid(dataclasses.replace(GRID, learning_rate=rate, learning_rates=()), None)
        for run, rounds in alone.items():
            tried = runs[dataclasses.replace(run, learning_rate=rate)]
            assert [r.train_loss for r in tried] == [r.train_loss for r in rounds]
            assert tried[-1].ending.validation_accuracy is not None
            assert rounds[-1].ending.validation_accuracy is None


def test_without_held_out_data_there_is_nothing_to_choose_by(tmp_path):
    (tmp_path / "bare.py").write_text(
        "import dataclasses\n"
        "from fedcore.datasets import synthetic\n"
        "def load(*, seed=0):\n"
        "    whole = synthetic.load(seed=seed, clients=4, dimension=3)\n"
        "    return dataclasses.replace(whole, test=None)\n"
    )
    bare = dataclasses.replace(GRID, benchmark=str(tmp_path / "bare.py"), data={})
    with pytest.raises(BadOption, match=r"learning_rate 0.01,0.3 needs held-out data .*; give one"):
        run_grid(bare, tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_torch_datasets_can_be_asked_for_the_compiled_loop(tmp_path):
    pytest.importorskip("numba")
    (tmp_path / "own.py").write_text(
        "import dataclasses\n"
        "from torch.utils.data import TensorDataset\n"
        "from fedcore.datasets import synthetic\n"
        "def load(*, seed=0):\n"
        "    whole = synthetic.load(seed=seed, clients=4, dimension=3)\n"
        "    items = {n: TensorDataset(own.x, own.y) for n, own in whole.clients.items()}\n"
        "    return dataclasses.replace(whole, clients=items)\n"
    )
    own = changed(benchmark=str(tmp_path / "own.py"), data={}, executor="compiled")
    _, runs = run_grid(own, None)
    assert all(len(rounds) == 1 for rounds in runs.values())


def test_with_a_budget_of_time_the_round_that_it_cuts_tells_whom_the_model_serves():
    experiment = changed(epochs=3, time_budget=2.5, strategies=("fedavg", "fedcore"))
    content, runs = run_grid(experiment, None)
    for rounds in runs.values():
        assert rounds[-1].cut
        assert [record.ending is not None for record in rounds] == [False] * (len(rounds) - 1) + [
            True
        ]
    for result in content["results"]:
        assert result["virtual_seconds"] == pytest.approx(2.5 * result["deadline_seconds"])
