"""Runs in pieces: a line of JSON each, left alone where it is there already."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import torch

from fedcore.history import environment

Row = dict[str, Any]
One = TypeVar("One")
ROOT = Path(__file__).parents[2]
ENVIRONMENT = "environment.json"  # beside the lines: of the machine that made the first of them


def options(about: str | None, parts: Sequence[str], out: str) -> argparse.ArgumentParser:
    """What every command of the study takes."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--part", choices=parts, default=parts[0])
    parser.add_argument("--piece", default="1/1", help="3/12: the third of twelve")
    parser.add_argument("--minutes", type=float, default=1e9, help="begin no run after them")
    parser.add_argument("--most", type=int, default=10**9, help="runs, to try it out")
    parser.add_argument("--rounds", type=int, default=0, help="fewer, to try it out")
    parser.add_argument("--out", type=Path, default=ROOT / "runs" / out)
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results")
    parser.add_argument("--data-dir")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--threads", type=int, default=1, help="0: one per core")
    parser.add_argument("--condense", action="store_true", help="run nothing; write the results")
    return parser


def machine_of(asked: argparse.Namespace) -> dict[str, Any]:
    """Options of an experiment that the machine, or the hurry, sets."""
    known = {"data_dir": asked.data_dir, "device": asked.device, "threads": asked.threads}
    known["rounds"] = asked.rounds or None
    return {name: value for name, value in known.items() if value is not None}


def lines_of(folder: Path) -> list[Row]:
    """Runs of all pieces; a line that was cut off is left out."""
    found = []
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_text("utf-8").splitlines():
            try:
                found.append(json.loads(line))
            except ValueError:
                continue
    return found


def work_off(
    asked: argparse.Namespace,
    runs: Sequence[One],
    named: Callable[[One], Hashable],
    of_a_line: Callable[[Row], Hashable],
    run: Callable[[One], Row],
) -> Path:
    """Do what is left of a piece; gives the folder of its lines."""
    torch.set_num_threads(1)
    folder: Path = asked.out / asked.part
    folder.mkdir(parents=True, exist_ok=True)
    number, pieces = map(int, asked.piece.split("/"))
    about = folder / ENVIRONMENT
    known = {of_a_line(row) for row in lines_of(folder)}
    left = [one for one in runs[number - 1 :: pieces] if named(one) not in known][: asked.most]
    began, spent = time.monotonic(), time.process_time()
    with (folder / f"{number}-of-{pieces}.jsonl").open("a", encoding="utf-8") as out:
        for place, one in enumerate([] if asked.condense else left, 1):
            if time.monotonic() - began > 60 * asked.minutes:
                break
            row = run(one)
            if not about.exists():  # a GPU has a name once it was used
                about.write_text(json.dumps(environment()) + "\n", encoding="utf-8")
            out.write(json.dumps(row) + "\n")
            out.flush()
            if place % 20 == 0 or place == len(left) or row["seconds"] > 5:
                passed = time.monotonic() - began
                print(f"{passed:7.1f} s: {place} of {len(left)}, {one}", flush=True)
    print(f"{time.process_time() - spent:.0f} s of CPU", flush=True)
    return folder


def made_on(folder: Path) -> dict[str, str]:
    """Versions and machine of a part's runs; this one's where nothing is said."""
    path = folder / ENVIRONMENT
    return dict(json.loads(path.read_text("utf-8"))) if path.exists() else environment()


def write(path: Path, head: Row, rows: Sequence[Row]) -> Path:
    """JSON with a line per row, so that changes can be read."""
    lines = ",\n".join("  " + json.dumps(row) for row in rows)
    text = json.dumps(head, indent=1)[:-2] + ',\n "rows": [\n' + lines + "\n ]\n}\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(f".{time.monotonic_ns()}")  # pieces may end at the same time
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)
    return path
