"""Ray for real: a cluster of this machine with two workers, one of which is killed."""

import dataclasses
import json
import os
import signal
import time
from itertools import pairwise
from pathlib import Path
from threading import Thread

import pytest
import torch

from fedcore.cli.grid import prepare
from fedcore.cli.pieces import on_ray, run_piece
from fedcore.cli.table2 import Piece
from fedcore.client.executors.by_name import choose_executor
from fedcore.client.executors.remote import RayExecutor, ray_cluster
from fedcore.config import Experiment
from fedcore.errors import BadOption, DatasetUnavailable
from fedcore.records import RunKey
from fedcore.report.output import ROUNDS
from fedcore.sim.world import train_run
from fedcore.sources.clients import LazyClients

ray = pytest.importorskip("ray", reason="Ray is not installed: install the extra 'ray'")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(180), pytest.mark.filterwarnings("ignore")]

OPTIONS = {"rounds": 40, "epochs": 4, "device": "cpu", "threads": 1}
UNITS = [
    [Piece("paper", "synthetic-1-1", level, "fedavg", 0) for level in (10.0, 30.0)],
    [Piece("paper", "synthetic-1-1", 30.0, "fedcore", 0)],
]


@pytest.fixture(scope="module", autouse=True)
def cluster():
    with pytest.MonkeyPatch.context() as patch:
        # As urgent as other tests beside these, to which Ray's workers give way unless told
        patch.setenv("RAY_worker_niceness", "0")
        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


def workers(title):
    """Processes of the cluster that do what is called so."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            text = path.read_bytes().decode(errors="replace")
        except OSError:
            continue
        if text.startswith(f"ray::{title}"):
            found.append(int(path.parent.name))
    return found


def lasting(path):
    rows = map(json.loads, path.read_text().splitlines())
    return [{k: v for k, v in row.items() if not k.startswith("wall_")} for row in rows]


def test_pieces_are_what_they_are_here_though_a_worker_is_killed(tmp_path):
    here, there = tmp_path / "here", tmp_path / "there"
    pieces = [piece for unit in UNITS for piece in unit]
    for piece in pieces:
        run_piece(piece, here, OPTIONS)
    killed, seen = [], [0]

    def watch():
        """On a thread of its own: rounds are short."""
        path = there / UNITS[1][0].path / ROUNDS
        while seen[-1] < OPTIONS["rounds"]:
            seen.append(len(path.read_bytes().splitlines()) if path.exists() else 0)
            if not killed and 5 < seen[-1] < 35:
                killed.extend(workers("rounds_of"))
                for pid in killed:
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.02)

    watcher = Thread(target=watch, daemon=True)
    watcher.start()
    on_ray(UNITS, there, OPTIONS, "", 0.0, lambda: None)
    watcher.join(5)
    assert killed
    # What a checkpoint is behind is never trained again: at most the round in between is.
    assert all(after >= before - 1 for before, after in pairwise(seen))
    for piece in pieces:
        one, other = (folder / piece.path / ROUNDS for folder in (here, there))
        assert lasting(one) == lasting(other)
        assert (there / piece.path / "summary.json").exists()


def test_what_a_task_refuses_is_the_sentence_itself(tmp_path):
    units = [[Piece("paper", "mnist", 30.0, "fedcore", 0)]]
    options = {**OPTIONS, "data_dir": str(tmp_path / "nothing")}
    with pytest.raises(DatasetUnavailable, match="of mnist is missing; run 'fedcore data fetch"):
        on_ray(units, tmp_path / "out", options, "", 0.0, lambda: None)


def test_a_cluster_that_is_not_there_is_one_sentence(monkeypatch):
    def refuse(**_):
        raise ConnectionError("Could not connect.\nLong advice.")

    monkeypatch.setattr(ray, "init", refuse)
    sentence = r"no Ray cluster at 'far:1' \(Could not connect.\); check its address"
    with pytest.raises(BadOption, match=sentence):
        ray_cluster("far:1")


SMALL = Experiment(
    rounds=4, epochs=2, clients_per_round=6, data={"clients": 9}, device="cpu", threads=1
)


def rounds_on(executor, strategy, between=lambda: None):
    experiment = dataclasses.replace(
        SMALL, stragglers=(30.0,), strategies=(strategy,), executor=executor
    )
    federation = prepare(experiment)[0]
    run, found = RunKey("synthetic-1-1", strategy, 30.0, 0), []
    for record, state in train_run(federation, experiment, run):  # noqa: B007
        found.append(dataclasses.replace(record, wall_seconds=0.0))
        if record.number == 2:
            between()
    return found, state.params


@pytest.mark.parametrize("strategy", ["fedcore", "fedbalancer"])
def test_a_cohort_on_actors_is_the_cohort_here_though_one_is_killed(strategy):
    """FedBalancer's clients remember losses, which an actor that died must not forget."""
    killed = []

    def kill():
        killed.extend(workers("Trainer")[:1])
        os.kill(killed[0], signal.SIGKILL)

    there, params = rounds_on("ray", strategy, kill)
    here, expected = rounds_on("auto", strategy)
    assert killed
    assert there == here
    assert all(torch.equal(params[name], expected[name]) for name in expected)


def test_an_actor_loads_the_clients_that_it_trains_alone(build_client, tmp_path):
    folder = str(tmp_path)

    def load(client):
        (Path(folder) / f"{client}-{os.getpid()}").touch()
        return build_client(size=12, seed=client)

    from fedcore.task import Task
    from fedcore.types import Assignment, LocalPlan, Phase, TrainingSettings, Way

    clients = LazyClients([12] * 6, load)
    task = Task(torch.nn.Linear(3, 2))
    of = task, clients, TrainingSettings(0.1, 4)
    executor = choose_executor("ray", *of, threads=1, device=torch.device("cpu"))
    assert isinstance(executor, RayExecutor)
    plan = LocalPlan((Phase(1),), Way.FULL)
    asked = [Assignment(client, plan, 0, 0) for client in (5, 1, 2, 4)]
    params = task.initial_params()
    answers = executor.run(params, asked)
    assert [answer.client_id for answer in answers] == [5, 1, 2, 4]
    here = choose_executor("auto", *of, threads=1).run(params, asked)
    for one, other in zip(answers, here, strict=True):
        assert all(torch.equal(one.params[name], other.params[name]) for name in params)
    executor.close()
    owners = {}
    for path in Path(folder).iterdir():
        client, owner = path.name.split("-")
        owners.setdefault(int(owner), set()).add(int(client))
    del owners[os.getpid()]
    owned = [clients - {0} for clients in owners.values()]  # the first is everybody's example
    assert sorted(owned, key=min) == [{1, 5}, {2, 4}]
