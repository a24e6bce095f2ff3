"""Folders of results: those of several machines in one, what differs in two, models once more."""

import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from fedcore.cli.grid import prepare, runs_of
from fedcore.client.executors.by_name import choose_device
from fedcore.config import resolve
from fedcore.errors import BadOption, BadRecord
from fedcore.records import RunKey
from fedcore.report.output import EXPERIMENT, OF_A_MACHINE, ROUNDS, SUMMARY, load_model, model_name
from fedcore.report.page.jobs import jobs_of
from fedcore.report.records import to_lines
from fedcore.sim.measure import Measure, Score
from fedcore.sim.world import levels_of


def merge(sources: Sequence[Path], out: Path) -> int:
    """Copy all jobs to ``out`` as they are, of two that agree the longer; gives how many."""
    best: dict[Path, Path] = {}
    for source in (*([out] if any(out.rglob(EXPERIMENT)) else []), *sources):
        for place, job in jobs_of(source).items():
            name = place if place.parts else Path(source.resolve().name)
            other = best.setdefault(name, job)
            mine, theirs = _checks(job), _checks(other)
            wrong = [what for what, *_ in _unlike(_options(job), _options(other))]
            if wrong or any(one != two for one, two in zip(mine, theirs, strict=False)):
                where = f"{str(job)!r} and {str(other)!r}"
                raise BadOption(f"{[*wrong, 'rounds'][0]} of {where} differ; leave out one of them")
            if (len(mine), (job / SUMMARY).exists()) > (len(theirs), (other / SUMMARY).exists()):
                best[name] = job
    if any(source.resolve() in out.resolve().parents for source in sources):
        raise BadOption(f"out must not lie in a folder that is merged, got {str(out)!r}; move it")
    for name, job in best.items():
        if job != (target := out / name):
            shutil.rmtree(target, ignore_errors=True)
            shutil.copytree(job, target, ignore=shutil.ignore_patterns(EXPERIMENT))
            shutil.copy2(job / EXPERIMENT, target)  # last: what is cut off here is no job
    return len(best)


def differences(one: Path, other: Path) -> Iterator[str]:
    """Which options, versions and results of two folders differ; real times do not count."""
    mine, theirs = jobs_of(one), jobs_of(other)
    for name in sorted({*mine, *theirs}):
        if name not in mine or name not in theirs:
            yield f"{name}: only in {one if name in mine else other}"
            continue
        for what, first, second in _unlike(_described(mine[name]), _described(theirs[name])):
            yield f"{name}: {what}: {first} and {second}"


def evaluate(folder: Path, data_dir: str | None) -> Iterator[tuple[RunKey, Score | None]]:
    """Loss and accuracy of every model in and below a folder; None without held-out data."""
    for job in jobs_of(folder).values():
        here = {"data_dir": data_dir, "device": "auto", "executor": "auto"}  # of this machine
        given = _content(job / EXPERIMENT) | here
        one = resolve({n: v for n, v in given.items() if v is not None}, lambda *_: {})
        device, several = choose_device("auto", "auto"), len(one.learning_rates) > 1
        federations = prepare(one)
        for run in runs_of(one, levels_of(one, federations)):
            measure = Measure(federations[run.seed], one.evaluate_samples, device, 1, split=several)
            params = load_model(path := job / model_name(run))
            known = federations[run.seed].initial  # the rest stands in the module
            for name, own in known.items():
                if name not in params or params[name].shape != own.shape:
                    what = f"{str(path)!r} has no {name!r} of shape {tuple(own.shape)}"
                    raise BadOption(f"{what}; evaluate it with the model that was trained")
            yield run, measure.test({name: params[name].to(device) for name in known})


def _unlike(one: dict[str, Any], other: dict[str, Any]) -> list[tuple[str, Any, Any]]:
    return [(k, one.get(k), other.get(k)) for k in one | other if one.get(k) != other.get(k)]


def _described(job: Path) -> dict[str, Any]:
    known, checks = _options(job), ["none", *_checks(job)]
    known["rounds and their check"] = f"{len(checks) - 1} {checks[-1]}"
    if (job / SUMMARY).exists():
        content = _content(job / SUMMARY)
        known |= {f"environment {key}": value for key, value in content["environment"].items()}
        for row in content["results"]:
            run = f"{row['strategy']} at {row['stragglers']:g} % with seed {row['seed']}"
            known |= {f"{key} of {run}": row[key] for key in row if not key.startswith("wall_")}
    return known


def _options(job: Path) -> dict[str, Any]:
    known = _content(job / EXPERIMENT)
    return {f"option {name}": known[name] for name in known if name not in OF_A_MACHINE}


def _content(path: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(path.read_text("utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise BadRecord(f"{str(path)!r} cannot be read ({error}); leave that job out") from None


def _checks(job: Path) -> list[str]:
    """Of each whole line of a job's rounds the sum of all up to it, which knows no real time."""
    path = job / ROUNDS
    with suppress(ValueError, TypeError, AttributeError):
        lines = path.read_text("utf-8").split("\n")[:-1] if path.exists() else []
        again = to_lines(map(json.loads, lines))[0].splitlines()
        if again == lines or '"check": ' not in "".join(lines):  # earlier versions wrote none
            return [line[-10:-2] for line in again]
    raise BadRecord(f"{str(path)!r} is not as it was written; resume that job, or leave it out")
