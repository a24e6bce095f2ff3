"""What folders of jobs hold, brought together: runs under other options stay apart."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

from fedcore.config import Experiment, resolve
from fedcore.errors import BadOption, BadRecord, FedCoreError
from fedcore.history import History
from fedcore.records import RunKey
from fedcore.report import paper
from fedcore.report.grids import Result, results_by_level
from fedcore.report.output import EXPERIMENT, OF_A_MACHINE, ROUNDS, SUMMARY, load_model, model_name
from fedcore.report.records import Runs, from_row, run_of, to_row
from fedcore.report.summary import chosen_runs, summary
from fedcore.sources.benchmark import find

# Options that say what was run and where, and change no run; and those that make it another size.
AXES = {"benchmark", "preset", "strategies", "stragglers", "seed", "targets", "executor"}
AXES |= {"measure_full_gradient", *OF_A_MACHINE}
LONGEST = 200  # bytes of a file's name, without its beginning and ending
PROVENANCE = "provenance.jsonl"  # of a piece that was trained in parts
OUTCOME = ("rounds", "mean_round_time", "final_train_loss", "final_test_accuracy")  # of a run
Notes = tuple[str, ...]
SIZES = {"rounds", "time_budget", "evaluate_samples", "data_seed", "data"}


class Job(NamedTuple):
    """The folder of a job: the content of its summary, and its rounds where they are kept."""

    path: Path
    content: Result
    runs: Runs


class Level(NamedTuple):
    """Results of runs under the same options; each has its ``job``, ``records`` and ``notes``."""

    variant: str
    benchmark: str
    stragglers: float
    runs: list[Result]

    @property
    def title(self) -> str:
        """Which benchmark, at which share of stragglers."""
        return f"{paper.title_of(self.benchmark)}, {self.stragglers:g} % stragglers"

    @property
    def name(self) -> str:
        """The same for files, with its options."""
        name = f"{self.benchmark} {self.stragglers:g} {self.variant}"
        own = re.sub(r"[^\w-]+", "-", name).encode()
        rest = f"-{crc32(own):08x}" if len(own) > LONGEST else ""
        return own[:LONGEST].decode(errors="ignore") + rest


def read_jobs(folders: Iterable[Path]) -> list[Job]:
    """Every job in ``folders`` and below them; one that was interrupted counts as far as it is."""
    return [_read(path) for folder in folders for path in jobs_of(folder).values()]


def jobs_of(folder: Path) -> dict[Path, Path]:
    """All jobs in a folder, by where they lie in it."""
    places = sorted(path.parent for path in folder.rglob(EXPERIMENT))
    if not places:
        raise BadOption(f"{str(folder)!r} holds no job; name a folder of a job, or one above it")
    return {place.relative_to(folder): place for place in places}


def _read(path: Path) -> Job:
    runs: Runs = {}
    try:
        names = (EXPERIMENT, SUMMARY, ROUNDS, PROVENANCE)
        known = {n: (path / n).read_text("utf-8") for n in names if (path / n).exists()}
        lines = known.get(ROUNDS, "").split("\n")[:-1]  # behind the last end a crash tore one
        for run, record in (from_row(json.loads(line)) for line in lines):
            runs.setdefault(run, []).append(record)
        if SUMMARY in known:
            content = json.loads(known[SUMMARY])
        else:
            content = summary(runs, json.loads(known[EXPERIMENT])) | {"environment": {}}
        content["provenance"] = [*map(json.loads, known.get(PROVENANCE, "").splitlines())]
        return Job(path, content, runs)
    except (OSError, ValueError, TypeError, LookupError, AttributeError) as error:
        what = f"the job in {str(path)!r} cannot be read: {error}"
        raise BadRecord(f"{what}; resume it, or move it away") from None


def levels_of(jobs: Sequence[Job]) -> list[Level]:
    """All runs by options, from fewest changes to most, benchmark and share of stragglers."""
    variants: dict[str, list[Job]] = {}
    notes, seen = dict[Path, Notes](), dict[tuple[str, RunKey], tuple[Notes, list[Any]]]()
    known = [(job, *_departures(job.content["experiment"])) for job in jobs]
    for job, label, sizes in sorted(known, key=lambda one: len(one[2])):  # usual ones first
        own = notes[job.path] = tuple(sizes.values())
        came = {run_of(one): [*map(one.get, OUTCOME)] for one in job.content["results"]}
        other = any(seen.get((label, run), (own, 0))[0] != own for run in came)  # at another size
        variant = ", ".join([label, *(sizes if other else ())])
        if any(seen.get((variant, run), (own, found))[1] != found for run, found in came.items()):
            variant += f", in {job.path}"  # as after a change of a user's file, or a part of it
        seen |= {(variant, run): (own, found) for run, found in came.items()}
        variants.setdefault(variant, []).append(job)
    levels = []
    for variant, members in sorted(variants.items(), key=lambda item: len(item[0])):
        homes = {run: job for job in members for run in job.runs}
        runs = {run: job.runs[run] for run, job in homes.items()}
        found = summary(runs, members[0].content["experiment"])["results"]
        kept = zip(chosen_runs(runs).items(), found, strict=True)
        rows = [one | {"job": homes[run], "records": records} for (run, records), one in kept]
        for job in (job for job in members if not job.runs):
            rows += [one | {"job": job, "records": []} for one in job.content["results"]]
        rows = [one | {"notes": notes[one["job"].path]} for one in rows]
        for at, cells in results_by_level(rows).items():
            levels.append(Level(variant, *at, [run for own in cells.values() for run in own]))
    return levels


def _departures(options: Mapping[str, Any]) -> tuple[str, dict[str, str]]:
    """A job's preset with the options that it changes; and, as notes, those of its size."""
    named = {name: options[name] for name in ("benchmark", "preset") if name in options}
    try:
        usual = asdict(resolve(named, lambda name, preset: find(name).hyperparameters(preset)))
    except FedCoreError:  # a file of the user's own that is no longer there
        usual = asdict(Experiment())
    label, sizes = [f"preset {options.get('preset', 'unknown')}"], {}
    for name in (name for name in usual if name in options and name not in AXES):
        here, value = (json.dumps(of[name]).strip('"') for of in (options, usual))
        of_several = name == "learning_rate" and options.get("learning_rates")
        told = f"{name.replace('_', ' ')} {here}"
        if here != value and name in SIZES:
            sizes[told] = f"{told[0].upper()}{told[1:]}, where the preset has {value}."
        elif here != value and not of_several:
            label.append(told)
    return ", ".join(label), sizes


class Results(dict[RunKey, History]):
    """The runs of a folder, by benchmark, strategy, share of stragglers, seed and step size."""

    def frame(self) -> Any:
        """A pandas table with a row for every round, named as in ``rounds.jsonl``."""
        import pandas  # type: ignore[import-untyped]

        rows = (to_row(run, one) for run, history in self.items() for one in history.rounds)
        return pandas.DataFrame([{k: v for k, v in row.items() if k != "clients"} for row in rows])


def load(folder: str | Path) -> Results:
    """All runs of the jobs in ``folder`` and below it; ``params`` of each are its last model."""
    if not isinstance(folder, str | Path):
        raise BadOption(f"folder must be the path of a job's folder, got {folder!r}")
    found, homes = Results(), dict[RunKey, Path]()
    for job in read_jobs([Path(folder)]):
        for run, rounds in job.runs.items():
            if run in found:
                both = f"{str(homes[run])!r} and {str(job.path)!r}"
                raise BadOption(f"{run} is in {both}; load one of them at a time")
            model = job.path / model_name(run)
            params = load_model(model) if model.exists() else {}
            found[run], homes[run] = History(tuple(rounds), params), job.path
    return found
