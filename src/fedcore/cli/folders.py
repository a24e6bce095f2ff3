"""Folders of results brought together: pieces that several machines trained."""

import json
import re
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from fedcore.errors import BadOption
from fedcore.report.output import EXPERIMENT, OF_A_MACHINE, ROUNDS, SUMMARY


def merge(sources: Sequence[Path], out: Path) -> int:
    """Copy all jobs to ``out`` as they are, of one that is there twice the longer; how many.

    Their options and the rounds that both have must be the same, or nothing is copied.
    """
    best: dict[Path, Path] = {}
    for source in (*([out] if any(out.rglob(EXPERIMENT)) else []), *sources):
        for place, job in jobs_of(source).items():
            name = place if place.parts else Path(source.resolve().name)
            other = best.setdefault(name, job)
            mine, theirs = _checks(job), _checks(other)
            both = min(len(mine), len(theirs))
            one, two = _options(job), _options(other)
            wrong = [f"option {key}" for key in one | two if one.get(key) != two.get(key)]
            if wrong or mine[:both] != theirs[:both]:
                where = f"{str(job)!r} and {str(other)!r}"
                raise BadOption(f"{[*wrong, 'rounds'][0]} of {where} differ; leave out one of them")
            if (len(mine), (job / SUMMARY).exists()) > (len(theirs), (other / SUMMARY).exists()):
                best[name] = job
    for name, job in best.items():
        if job != (target := out / name):
            shutil.rmtree(target, ignore_errors=True)
            shutil.copytree(job, target)
    return len(best)


def jobs_of(folder: Path) -> dict[Path, Path]:
    """All jobs in a folder, by where they lie in it."""
    places = sorted(path.parent for path in folder.rglob(EXPERIMENT))
    found = {place.relative_to(folder): place for place in places}
    if not found:
        raise BadOption(f"{str(folder)!r} holds no results; name a folder that a job wrote")
    return found


def _options(job: Path) -> dict[str, Any]:
    known = json.loads((job / EXPERIMENT).read_text("utf-8"))
    return {name: known[name] for name in known if name not in OF_A_MACHINE}


def _checks(job: Path) -> list[str]:
    """What each line of a job's rounds says of all up to it: a sum that knows no real time."""
    with suppress(FileNotFoundError):
        return re.findall(r'"check": "(\w+)"}', (job / ROUNDS).read_text("utf-8"))
    return []
