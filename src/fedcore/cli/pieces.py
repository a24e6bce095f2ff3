"""Pieces of Table 2: one, trained or what is left of it, and all, on processes or on Ray.

A piece is a folder as ``fedcore compare`` writes it, with a checkpoint after every round, and
``provenance.jsonl``: who trained it, from which round on. Workers go through all pieces and take
those that are neither finished nor another's.
"""

import ctypes
import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from threading import Thread

import torch

from fedcore.cli.grid import prepare, runs_of
from fedcore.cli.table2 import Piece
from fedcore.client.executors.remote import ray_cluster
from fedcore.config import Experiment, Options
from fedcore.errors import BadOption
from fedcore.history import History, environment
from fedcore.records import RoundRecord, Snapshot
from fedcore.report.output import EXPERIMENT, SUMMARY, OutputFolder, load_model, model_name
from fedcore.report.records import Row, is_over
from fedcore.report.summary import spread
from fedcore.server.state import to_snapshot
from fedcore.sim.world import train_run

Units = Sequence[Sequence[Piece]]  # the pieces of one come one after another
BY_DEADLINE = {"deadline", "mean_on", "selection", "time_budget"}  # so FedAvg may, where it is set
ATTEMPTS = 5  # after which workers that are killed are no accident
PARENT = "FEDCORE_PARENT"  # of a worker: the process that it ends with
Trained = Iterator[tuple[RoundRecord, Snapshot, dict[str, str], Row]]
Start = tuple[Snapshot | None, Sequence[RoundRecord]]  # where a run goes on, and what was before
Train = Callable[[Experiment, Start, History | None], Trained]


def rounds_of(experiment: Experiment, start: Start, known: History | None) -> Trained:
    """The rounds of a piece, what it takes to go on from each, who trained it and on what."""
    torch.set_num_threads(1)  # steps are small: threads inside one cost more than they bring
    (run,) = runs_of(experiment)
    federation = prepare(experiment)[run.seed]
    data = spread(federation.dataset)
    with closing(train_run(federation, experiment, run, *start, known)) as rounds:
        for record, state in rounds:
            saved = to_snapshot(replace(state, params=known.params) if known else state)
            tensors = {name: value.cpu() for name, value in saved.tensors.items()}
            yield record, replace(saved, tensors=tensors), environment(), data


def run_piece(piece: Piece, out: Path, options: Options, train: Train = rounds_of) -> None:
    """Train a piece, or what is left of it; a finished one is left as it is."""
    experiment, place = piece.experiment(options), out / piece.path
    (run,), settings = runs_of(experiment), asdict(experiment)
    finished = (place / SUMMARY).exists()
    known = None if finished else twin_of(piece, out, options)
    if known or not (place / EXPERIMENT).exists():  # what is known is written in one go
        folder = OutputFolder.create(place, settings, overwrite=True)
    else:
        folder = OutputFolder.resume(place, settings, [run])
    if finished:
        return
    folder.every_round = True
    folder.begin()
    _, snapshot = folder.position(run, most := experiment.most_rounds)
    past, more = tuple(folder.runs.get(run, [])), dict[str, Row]()
    left = () if is_over(past, most) else train(experiment, (snapshot, past), known)
    for record, saved, who, data in left:
        if who != folder.environment:
            folder.environment = who
            with (place / "provenance.jsonl").open("a", encoding="utf-8") as file:
                file.write(json.dumps({"from_round": record.number, **who}) + "\n")
        named = saved.tensors.items()
        model = {name[6:]: value for name, value in named if name.startswith("param/")}
        folder.add(record, run, partial(replace, saved), model)
        more["data"] = data
    folder.finish(**more)


def twin_of(piece: Piece, out: Path, options: Options) -> History | None:
    """The same training at another share of stragglers, by which FedAvg does not go, if done."""
    same = piece.strategy == "fedavg" and not options.keys() & BY_DEADLINE
    places = sorted((out / piece.path).parent.glob("*")) if same else []
    for place in (place for place in places if (place / SUMMARY).exists()):
        experiment = replace(piece, stragglers=float(place.name)).experiment(options)
        (run,) = runs_of(experiment)
        rounds = OutputFolder.resume(place, asdict(experiment), [run]).runs[run]
        if not any(record.rejected for record in rounds):  # of which nothing is known
            return History(tuple(rounds), load_model(place / model_name(run)))
    return None


@contextmanager
def claimed(place: Path) -> Iterator[bool]:
    """Whether a folder is this worker's; the system gives back what a dead one had."""
    place.mkdir(parents=True, exist_ok=True)
    handle, ours = os.open(place, os.O_RDONLY), False
    try:
        with suppress(BlockingIOError):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            ours = True
        yield ours
    finally:
        os.close(handle)


def train_all(units: Units, out: Path, options: Options, train: Train = rounds_of) -> None:
    """Train every piece that is neither finished nor being trained by another worker."""
    if parent := os.environ.get(PARENT):
        with suppress(OSError, AttributeError):  # Linux alone
            ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # when the parent ends
        if os.getppid() != int(parent):
            return
    for unit in units:
        path = unit[0].path.parent if unit[0].strategy == "fedavg" else unit[0].path
        with claimed(out / path) as ours:
            for piece in unit if ours else ():
                run_piece(piece, out, options, train)


def on_processes(count: int, arguments: Sequence[str], look: Callable[[], None]) -> None:
    """Start this command so many times; one that is killed costs a round, and is started again."""
    command = [sys.executable, "-m", "fedcore.reproduce", *arguments, "--workers=1", "--quiet"]
    environment = {**os.environ, PARENT: str(os.getpid())}
    start = partial(subprocess.Popen[bytes], command, env=environment, start_new_session=True)
    running, killed = [start() for _ in range(count)], 0
    try:
        while running:
            time.sleep(0.5)
            look()
            for worker in [one for one in running if one.poll() is not None]:
                running.remove(worker)
                if worker.returncode > 0:  # it has said why
                    raise SystemExit(worker.returncode)
                if worker.returncode < 0:
                    killed += 1
                    running.append(start())
                if killed == ATTEMPTS:
                    raise BadOption(f"workers were killed {killed} times; try fewer than {count}")
    finally:  # a folder is whole at any time, so nobody needs to be waited for
        for worker in running:
            worker.kill()


def on_ray(
    units: Units, out: Path, options: Options, address: str, gpus: float, look: Callable[[], None]
) -> None:
    """On a Ray cluster: rounds come here one by one, so whoever dies costs the one in progress."""
    ray, cpus = ray_cluster(address), options["threads"]
    how = {"num_cpus": cpus, "num_gpus": gpus, "max_retries": 0, "num_returns": "streaming"}
    how["_generator_backpressure_num_objects"] = 1  # nobody is more than a round ahead
    task, failed = ray.remote(**how)(rounds_of), list[Exception]()

    def train(experiment: Experiment, start: Start, known: History | None) -> Trained:
        for item in task.remote(experiment, start, known):
            yield ray.get(item)

    def work(attempts: int = ATTEMPTS) -> None:
        try:
            train_all(units, out, options, train)
        except Exception as error:
            cause = getattr(error, "cause", None)  # what a task raised itself
            if isinstance(error, ray.exceptions.RayError) and cause is None and attempts > 1:
                work(attempts - 1)
            else:
                failed.append(cause or error)

    there = ray.cluster_resources()
    room = min(there.get("CPU", 0) / cpus, there.get("GPU", 0) / gpus if gpus else len(units))
    threads = [Thread(target=work, daemon=True) for _ in range(max(1, min(int(room), len(units))))]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads) and not failed:
        time.sleep(0.5)
        look()
    if failed:
        raise failed[0]
