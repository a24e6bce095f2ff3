"""What folders of jobs hold, brought together: runs under other options stay apart."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from fedcore.config import Experiment, resolve
from fedcore.errors import BadOption, BadRecord, FedCoreError
from fedcore.report import paper
from fedcore.report.grids import Cells, Result, results_by_level
from fedcore.report.output import EXPERIMENT, OF_A_MACHINE, ROUNDS, SUMMARY
from fedcore.report.records import Runs, from_row
from fedcore.report.summary import chosen_runs, summary
from fedcore.sources.benchmark import find

# Options that say what was run and where, and change no run; and those that make it another size.
AXES = {"benchmark", "preset", "strategies", "stragglers", "seed", "targets", "executor"}
AXES |= {"measure_full_gradient", *OF_A_MACHINE}
SIZES = {"rounds", "time_budget", "evaluate_samples", "data_seed", "data"}


class Job(NamedTuple):
    """The folder of a job: the content of its summary, and its rounds where they are kept."""

    path: Path
    content: Mapping[str, Any]
    runs: Runs


class Level(NamedTuple):
    """Results under the same options, each with its ``job``, ``records``, and ``notes`` on it."""

    variant: str
    benchmark: str
    stragglers: float
    results: Cells

    @property
    def runs(self) -> list[Result]:
        """All results."""
        return [run for runs in self.results.values() for run in runs]

    @property
    def first(self) -> Job:
        """The job of its first run."""
        return self.runs[0]["job"]  # type: ignore[no-any-return]

    @property
    def title(self) -> str:
        """Which benchmark at which share of stragglers."""
        return f"{paper.title_of(self.benchmark)}, {self.stragglers:g} % stragglers"

    @property
    def name(self) -> str:
        """The same and the options, for files."""
        return re.sub(r"[^\w.]+", "-", f"{self.benchmark} {self.stragglers:g} {self.variant}")


def read_jobs(folders: Iterable[Path]) -> list[Job]:
    """Every job in ``folders`` and below them; one that was interrupted counts as far as it is."""
    jobs: list[Job] = []
    for folder in folders:
        found = sorted(path.parent for path in folder.rglob(EXPERIMENT))
        if not found:
            what = f"{str(folder)!r} holds no job"
            raise BadOption(f"{what}; name a folder that 'fedcore compare' wrote, or one above it")
        jobs += map(_read, found)
    return jobs


def _read(path: Path) -> Job:
    runs: Runs = {}
    try:
        experiment = json.loads((path / EXPERIMENT).read_text("utf-8"))
        lines = (path / ROUNDS).read_text("utf-8").splitlines() if (path / ROUNDS).exists() else []
        for line in lines:
            if line is not lines[-1] or line.endswith("}"):  # a crash may have torn the last
                run, record = from_row(json.loads(line))
                runs.setdefault(run, []).append(record)
        if (path / SUMMARY).exists():
            return Job(path, json.loads((path / SUMMARY).read_text("utf-8")), runs)
        return Job(path, summary(runs, experiment) | {"environment": {}}, runs)
    except (OSError, ValueError, TypeError, LookupError, AttributeError) as error:
        what = f"the job in {str(path)!r} cannot be read: {error}"
        raise BadRecord(f"{what}; resume it, or move it away") from None


def levels_of(jobs: Sequence[Job]) -> list[Level]:
    """All runs by options, benchmark and share of stragglers; of two that are the same, one."""
    variants: dict[str, list[Job]] = {}
    for job in jobs:
        variants.setdefault(_departures(job)[0], []).append(job)
    levels = []
    for variant, members in variants.items():
        homes = {run: job for job in members for run in job.runs}
        runs = {run: job.runs[run] for run, job in homes.items()}
        results = summary(runs, members[0].content["experiment"])["results"]
        for result, (run, records) in zip(results, chosen_runs(runs).items(), strict=True):
            result |= {"job": homes[run], "records": records}
        for job in members:
            results += [one | {"job": job} for one in job.content["results"] if not job.runs]
        for result in results:
            result["notes"] = _departures(result["job"])[1]
        levels += [Level(variant, *at, cells) for at, cells in results_by_level(results).items()]
    return levels


def _departures(job: Job) -> tuple[str, tuple[str, ...]]:
    """A job's preset with the options that it changes; and those that make it another size."""
    experiment = json.loads(json.dumps(job.content["experiment"]))
    named = {name: experiment[name] for name in ("benchmark", "preset") if name in experiment}
    try:
        usual = asdict(resolve(named, lambda name, preset: find(name).hyperparameters(preset)))
    except FedCoreError:  # a file of the user's own that is no longer there
        usual = asdict(Experiment())
    label, notes = [f"preset {experiment.get('preset', 'unknown')}"], []
    for name, value in json.loads(json.dumps(usual)).items():
        here, told = experiment.get(name, value), name.replace("_", " ")
        of_several = name == "learning_rate" and experiment.get("learning_rates")
        if here != value and name in SIZES:
            notes.append(f"{told.capitalize()}: {here}, where the preset has {value}.")
        elif here != value and name not in AXES and not of_several:
            label.append(f"{told} {here}")
    return ", ".join(label), tuple(notes)
