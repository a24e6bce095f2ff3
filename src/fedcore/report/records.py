"""Results on disk: ``rounds.jsonl``, one line per strategy, stragglers, seed and round."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from fedcore.errors import BadRecord
from fedcore.records import RoundRecord, RunKey

Row = dict[str, Any]
NEEDED = ("benchmark", "strategy", "stragglers", "seed", "round", "round_time", "train_loss")


def to_row(key: RunKey, record: RoundRecord) -> Row:
    """One line of ``rounds.jsonl``; times in units of the deadline.

    What begins with ``wall_`` comes last and is all that differs between two runs with one seed.
    """
    clients = [
        {
            "client": client.client_id,
            "path": str(client.path),
            "copies": client.copies,
            "work": client.work,
            "time": client.seconds / record.deadline,
            "coreset_budget": client.coreset_budget,
            "coreset_size": client.coreset_size,
            "gradient_error": _number(client.gradient_error),
            "full_gradient_error": _number(client.full_gradient_error),
        }
        for client in record.clients
    ]
    working = sum(client.work > 0 for client in record.clients)
    return {
        "benchmark": key.benchmark,
        "strategy": key.strategy,
        "stragglers": key.stragglers,
        "seed": key.seed,
        "round": record.number,
        "round_time": record.time,
        "train_loss": _number(record.train_loss),
        "train_accuracy": record.train_accuracy,
        "test_loss": _number(record.test_loss),
        "test_accuracy": record.test_accuracy,
        "participants": working,
        "left_out": len(record.clients) - working,
        "rejected": record.rejected,
        "clients": clients,
        "wall_training_seconds": round(record.training_seconds, 6),
        "wall_selection_seconds": round(record.selection_seconds, 6),
        "wall_waited_seconds": round(record.waited_seconds, 6),
        "wall_evaluation_seconds": round(record.evaluation_seconds, 6),
        "wall_seconds": round(record.wall_seconds, 6),
    }


def key_of(row: Row) -> RunKey:
    """The run that a line belongs to."""
    return RunKey(row["benchmark"], row["strategy"], row["stragglers"], row["seed"])


def to_line(row: Row) -> str:
    """A row as a line of JSON; standard JSON, so no NaN."""
    return json.dumps(row, allow_nan=False) + "\n"


def read_rows(path: Path) -> list[Row]:
    """All lines of a ``rounds.jsonl``; a torn last line, as a crash leaves it, is dropped."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise BadRecord(f"{str(path)!r} cannot be read as results: {error}") from None
    rows = []
    for number, line in enumerate(lines, start=1):
        try:
            row = json.loads(line)
            rows.append({**row, **{name: row[name] for name in NEEDED}})
        except (json.JSONDecodeError, TypeError, KeyError):
            if number == len(lines):
                break
            raise BadRecord(
                f"line {number} of {str(path)!r} is not a round; restore the file or start anew"
            ) from None
    return rows


def group(rows: Iterable[Row]) -> dict[RunKey, list[Row]]:
    """Rows by run, in the order in which runs first appear."""
    runs: dict[RunKey, list[Row]] = {}
    for row in rows:
        runs.setdefault(key_of(row), []).append(row)
    return runs


def _number(value: float | None) -> float | None:
    """JSON has no NaN and no infinity: a diverged loss is null."""
    return value if value is not None and math.isfinite(value) else None
