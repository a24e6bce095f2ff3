"""Results on disk: ``rounds.jsonl``, one line per strategy, stragglers, seed and round.

A line ends with the CRC of all lines up to it without their real times, so that one that was
changed, lost, doubled or moved is known. Files without it are accepted where all lines fit.
"""

import json
import math
import sys
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, TypeVar

from fedcore.errors import BadRecord
from fedcore.records import ClientRecord, Ending, RoundRecord, RunKey, Waste
from fedcore.types import Way

Row = dict[str, Any]
Runs = dict[RunKey, list[RoundRecord]]
T = TypeVar("T")

CLIENT = {"client_id": "client", "seconds": "time"}  # names in a line that are other ones there
MEASURED = ("train_loss", "train_accuracy", "test_loss", "test_accuracy")
PARTS = ("training_seconds", "selection_seconds", "waited_seconds", "evaluation_seconds")
REAL_TIME = {**{name: f"wall_{name}" for name in PARTS}, "wall_seconds": "wall_seconds"}
ERRORS = ("gradient_error", "full_gradient_error")
RARE = {"fell_back", "wasted", "staleness", "sent", "ended"}  # of a client, where there is one
OPTIONAL = {*MEASURED, *ERRORS, "coreset_budget", "coreset_size"}  # numbers that may be missing
OPTIONAL |= {"slow_accuracy", "worst_accuracy", "validation_accuracy"}


def to_row(run: RunKey, record: RoundRecord) -> Row:
    """A line of ``rounds.jsonl``, in deadlines; ``wall_...`` alone differs in equal runs."""
    working = sum(client.work > 0 for client in record.clients)
    return {
        **{name: value for name, value in asdict(run).items() if value is not None},
        "round": record.number,
        "round_time": record.time,
        **{name: _finite(getattr(record, name)) for name in MEASURED},
        "participants": working,
        "left_out": len(record.clients) - working,
        "rejected": record.rejected,
        "fell_back": sum(client.fell_back for client in record.clients),
        "clients": [_client_row(client, record.deadline) for client in record.clients],
        **({"ending": asdict(record.ending)} if record.ending else {}),
        **({"cut": True} if record.cut else {}),
        **({} if record.allowed is None else {"deadline": record.allowed / record.deadline}),
        **({"reason": record.reason} if record.reason else {}),
        **({"metrics": {n: _finite(v) for n, v in own.items()}} if (own := record.metrics) else {}),
        **{name: round(getattr(record, field), 6) for field, name in REAL_TIME.items()},
    }


def from_row(row: Row) -> tuple[RunKey, RoundRecord]:
    """The record of a line, in which a deadline lasts 1; raises where a value cannot be one."""
    values: Row = {name: _value(row, name) for name in (*MEASURED, "rejected")}
    values |= {field: _value(row, name) for field, name in REAL_TIME.items()}
    values["cut"] = "cut" in row
    values["allowed"] = _value(row, "deadline") if "deadline" in row else None
    values["reason"], own = str(row.get("reason", "")), row.get("metrics", {})
    values["metrics"] = {name: None if own[name] is None else float(own[name]) for name in own}
    clients = tuple(map(_client, row["clients"]))
    if "ending" in row:
        values["ending"] = Ending(*(_value(row["ending"], f.name) for f in fields(Ending)))
    return run_of(row), RoundRecord(row["round"], _value(row, "round_time"), 1.0, clients, **values)


def run_of(row: Row) -> RunKey:
    """Which run a line is of."""
    return RunKey(**{item.name: row[item.name] for item in fields(RunKey) if item.name in row})


def to_lines(rows: Iterable[Row], check: int = 0) -> tuple[str, int]:
    """Rows as lines of standard JSON after lines that had ``check``; and the check of the last."""
    lines = []
    for row in rows:
        check = _check(row, check)
        lines.append(json.dumps({**row, "check": f"{check:08x}"}, allow_nan=False) + "\n")
    return "".join(lines), check


def is_over(records: Sequence[RoundRecord], most: int) -> bool:
    """Whether a run of at most so many rounds is over; time or patience may have ended it."""
    return len(records) == most or (bool(records) and bool(records[-1].cut or records[-1].ending))


def read_runs(path: Path, expected: Sequence[RunKey], rounds: int) -> Runs:
    """At most ``rounds`` records of expected runs; a torn last line goes, others are refused."""
    try:
        text = path.read_text("utf-8", errors="replace") if path.exists() else ""
    except OSError as error:
        why = f"{str(path)!r} cannot be read: {error.strerror}"
        raise BadRecord(f"{why}; move it away and resume again") from None
    waiting = iter(expected)
    due: tuple[RunKey | None, int] = next(waiting, None), 1
    runs: Runs = {}
    check, checked = 0, False
    for index, line in enumerate(lines := text.splitlines()):
        try:
            row = json.loads(line)
            check = _check(row, check)
            checked = checked or "check" in row
            run, record = from_row(row)
            if due[0] is None:
                raise ValueError(f"the job has {index} rounds")
            if type(record.number) is not int or (run, record.number) != due:
                name = "round {1} of {0.strategy} at {0.stragglers} % with seed {0.seed}"
                found = name.format(run, record.number)
                raise ValueError(f"{found} in place of {name.format(*due)}")
            if checked and row.get("check") != f"{check:08x}":
                raise ValueError("it was changed after it was written")
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
            if isinstance(error, json.JSONDecodeError) and index == len(lines) - 1:
                break
            reasons = {ValueError: str(error), KeyError: f"no field {error}"}
            why = reasons.get(type(error), "it is no round")
            what = f"line {index + 1} of {str(path)!r} is not the round that belongs there ({why})"
            again = f"delete the lines from {index + 1} on and resume again"
            raise BadRecord(f"{what}; {again}") from None
        runs.setdefault(run, []).append(record)
        due = (next(waiting, None), 1) if is_over(runs[run], rounds) else (run, record.number + 1)
    return runs


def by_level(runs: Mapping[RunKey, T]) -> dict[tuple[str, float], dict[str, list[T]]]:
    """What is known of runs by (benchmark, share of stragglers), then by strategy: one per seed."""
    levels: dict[tuple[str, float], dict[str, list[T]]] = {}
    for run, value in runs.items():
        level = levels.setdefault((run.benchmark, run.stragglers), {})
        level.setdefault(run.strategy, []).append(value)
    return levels


def _check(row: Row, before: int) -> int:
    """CRC-32 of a row without real times, after that of the rows before it."""
    lasting = {k: v for k, v in row.items() if not k.startswith("wall_") and k != "check"}
    return zlib.crc32(json.dumps(lasting).encode(), before)


def _client_row(client: ClientRecord, deadline: float) -> Row:
    row = {CLIENT.get(field, field): value for field, value in asdict(client).items()}
    row |= {"path": str(client.path), "time": client.seconds / deadline}
    row["ended"] = None if client.ended is None else client.ended / deadline
    row |= {name: _finite(row[name]) for name in ERRORS}
    # Hardly ever set, and lines are long
    return {name: value for name, value in row.items() if value or name not in RARE}


def _client(row: Row) -> ClientRecord:
    kinds = {"path": Way, "fell_back": bool, "wasted": Waste}
    values: Row = {name: kind(row[name]) for name, kind in kinds.items() if name in row}
    names = {f.name for f in fields(ClientRecord) if f.name in row or f.name not in RARE} - {*kinds}
    return ClientRecord(**values, **{name: _value(row, CLIENT.get(name, name)) for name in names})


def _value(row: Row, name: str) -> Any:
    """A number of a row, refused where it is none or out of range."""
    value, most = row[name], sys.float_info.max
    low, high = -most if name.endswith("loss") else 0, 1 if name.endswith("accuracy") else most
    if value is None and name in OPTIONAL:
        return None
    if type(value) not in (int, float) or not low <= value <= high:
        raise ValueError(f"its {name} is {value!r}")
    return value


def _finite(value: float | None) -> float | None:
    """JSON has no NaN and no infinity: a diverged loss is null."""
    return value if value is not None and math.isfinite(value) else None
