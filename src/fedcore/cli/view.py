"""How far a reproduction is, by what its folders hold, whoever trains, on whichever machine."""

import json
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from fedcore.cli.table2 import Piece
from fedcore.report.output import ROUNDS

EVERY = 30.0  # seconds between two lines about a piece, where they are not written over


class View:
    """Looks at folders when told to, and shows what is new; on a terminal with rich, in place."""

    def __init__(self, out: Path, rounds: Mapping[Piece, int]) -> None:
        self._out, self._rounds = out, rounds
        self._seen = dict.fromkeys(rounds, (0, 0))  # bytes of the file, and its rounds
        self._first: dict[Piece, tuple[float, int]] = {}  # when rounds were first seen, how many
        self._shown: dict[Piece, tuple[float, str]] = {}  # when, and what
        self._live: Any = None
        with suppress(ImportError):
            from rich import console, live

            if sys.stderr.isatty():
                self._live = live.Live(console=console.Console(stderr=True, markup=False))
                self._live.start()

    def look(self) -> None:
        """Show what is new since the last look."""
        for piece, (before, _) in self._seen.items():
            path = self._out / piece.path / ROUNDS
            size = path.stat().st_size if path.exists() else 0
            if size != before:
                rows = [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]
                self._seen[piece] = size, len(rows)
                if rows:
                    self._show(piece, rows[-1]["test_accuracy"], sum(r["round_time"] for r in rows))

    def close(self) -> None:
        """Leave the terminal as it was."""
        if self._live is not None:
            self._live.stop()

    def _show(self, piece: Piece, accuracy: float | None, passed: float) -> None:
        (_, done), most, now = self._seen[piece], self._rounds[piece], time.monotonic()
        began, before = self._first.setdefault(piece, (now, done))
        finished = sum(self._seen[one][1] == count for one, count in self._rounds.items())
        text = f"[{finished}/{len(self._rounds)}] {piece.path}: round {done} of {most}"
        text += "" if accuracy is None else f", accuracy {100 * accuracy:.1f} %"
        text += f", {passed:.1f} deadlines"
        if before < done < most:
            text += f", {(now - began) / (done - before) * (most - done):.0f} s left"
        if self._live is not None:
            self._shown[piece] = now, text
            left = (one for one in self._shown if self._seen[one][1] < self._rounds[one])
            self._live.update("\n".join(self._shown[one][1] for one in left) or text)
        elif done == most or now - self._shown.get(piece, (-EVERY, ""))[0] >= EVERY:
            self._shown[piece] = now, text
            print(text, file=sys.stderr, flush=True)
