"""The paper's Table 2 in pieces that resume: ``fedcore reproduce``.

``python -m fedcore.reproduce`` is the same, with torch and NumPy alone.
"""

import argparse
import errno
import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from traceback import walk_tb
from typing import Any

from fedcore import plugins
from fedcore.cli.pieces import PARENT, on_processes, on_ray, train_all
from fedcore.cli.table2 import BENCHMARKS, WAYS, Piece, pieces_of
from fedcore.client.executors.by_name import choose_device
from fedcore.config import Experiment
from fedcore.errors import BadOption, FedCoreError, Interrupted, failed
from fedcore.report.output import ROUNDS
from fedcore.report.records import Row
from fedcore.sources.benchmark import find
from fedcore.sources.files import read
from fedcore.values import at_least, read_option, read_pairs

OPTIONS = (
    ("out", None, "Folder of all pieces; the same command goes on in it."),
    ("only", ",".join(BENCHMARKS), "Benchmarks, separated by commas."),
    ("stragglers", "10,30", "Percentages of slow clients."),
    ("seeds", "3", "How many; all pieces of the first come first."),
    ("preset", ",".join(WAYS), "The paper's text, its repository, our own best."),
    ("workers", "1", "Pieces side by side: so many processes, 'ray', or 'ray:ADDRESS'."),
    ("gpus", "0", "Of a piece on Ray, a share such as 0.25; its CPUs are --threads."),
    ("device", "auto", "'auto' is a GPU if there is one."),
    ("threads", "0", "Of a piece; 0: the cores, shared among the workers."),
    ("data-dir", None, "Place of data; else $FEDCORE_DATA, else the user's cache."),
)
EVERY = 30.0  # seconds between two lines about a piece, where there is no terminal
# What pieces, and options beside --set, say of a run.
SAID = {"benchmark", "data_dir", "device", "preset", "seed", "stragglers", "strategies", "threads"}
SET = "Any other option of 'fedcore compare', for a try, as --set rounds=2; may be repeated."


class View:
    """How far pieces are, by what their folders hold, whoever trains, on whichever machine."""

    def __init__(self, out: Path, pieces: Mapping[Piece, Experiment]) -> None:
        self._out, self._pieces, self._live = out, pieces, sys.stderr.isatty()
        self._seen = dict.fromkeys(pieces, (0, False))  # bytes of the file, and whether it is over
        self._first: dict[Piece, tuple[float, float]] = {}  # when it was first seen, which share
        self._shown = dict.fromkeys(pieces, -EVERY)  # when

    def look(self) -> None:
        """Show what is new since the last look: lines, which a terminal writes over."""
        for piece, (before, _) in self._seen.items():
            path = self._out / piece.path / ROUNDS
            size = path.stat().st_size if path.exists() else 0
            if size != before:
                rows = [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]
                if rows:
                    self._seen[piece] = size, "ending" in rows[-1]
                    self._show(piece, rows)

    def _show(self, piece: Piece, rows: Sequence[Row]) -> None:
        of, now, accuracy = self._pieces[piece], time.monotonic(), rows[-1]["test_accuracy"]
        done, passed = len(rows), sum(row["round_time"] for row in rows)
        share = passed / of.time_budget if of.time_budget else done / of.rounds
        began, before = self._first.setdefault(piece, (now, share))
        over, finished = self._seen[piece][1], sum(over for _, over in self._seen.values())
        text = f"[{finished}/{len(self._pieces)}] {piece.path}: round {done}"
        text += "" if of.time_budget else f" of {of.rounds}"
        text += "" if accuracy is None else f", accuracy {100 * accuracy:.1f} %"
        text += f", {passed:.1f} deadlines"
        if before < share and not over:
            text += f", {(now - began) / (share - before) * (1 - share):.0f} s left"
        if self._live or over or now - self._shown[piece] >= EVERY:
            self._shown[piece] = now
            end = "\x1b[K\r" if self._live and not over else "\n"
            print(text, end=end, file=sys.stderr, flush=True)


def command(arguments: Sequence[str]) -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser("fedcore reproduce", description=__doc__)
    for name, default, text in OPTIONS:
        parser.add_argument(f"--{name}", default=default, required=name == "out", help=text)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help=SET)
    parser.add_argument("--quiet", action="store_true", help="Say nothing but errors.")
    given = parser.parse_args(arguments)
    units = pieces_of(given.only, given.stragglers, given.seeds, given.preset)
    ray, _, address = given.workers.partition(":")
    workers = os.cpu_count() or 1 if ray == "ray" else read_option("workers", given.workers, int)
    at_least(1, 1024)("workers", workers)
    choose_device("auto" if ray == "ray" else given.device, "auto")  # who refuses does so at once
    threads = read_option("threads", given.threads, int) or (os.cpu_count() or 1) // workers or 1
    options: dict[str, Any] = read_pairs("set", given.set)
    for name, value in options.items():
        if name in SAID or (name == "learning_rate" and isinstance(value, str)):
            why = "a piece is one run, and other options say which and where"
            raise BadOption(f"set must not hold {name}={value}: {why}; see --help")
    options |= {"device": given.device, "threads": threads}
    options |= {"data_dir": given.data_dir} if given.data_dir else {}
    out, place = Path(given.out), Path(given.data_dir) if given.data_dir else None
    pieces = {piece: piece.experiment(options) for unit in units for piece in unit}
    if PARENT in os.environ:
        train_all(units, out, options)
        return
    for name in dict.fromkeys(piece.benchmark for piece in pieces):
        source: Any = getattr(find(name).module, "SOURCE", None)
        for file in source.files if source else ():  # the same
            read(source, file.name, place)
    look: Callable[[], None] = (lambda: None) if given.quiet else View(out, pieces).look
    try:
        if ray == "ray":
            on_ray(units, out, options, address, read_option("gpus", given.gpus, float), look)
        else:
            on_processes(min(workers, len(units)), [*arguments, f"--threads={threads}"], look)
    except KeyboardInterrupt:
        raise Interrupted("interrupted; the same command goes on from here") from None
    look()


def main() -> None:
    """Run this command alone."""
    in_a_sentence(lambda: command(sys.argv[1:]))


def in_a_sentence(run: Callable[[], None]) -> None:
    """Run a command; what it refuses, or a user's file raises, is one sentence and exit code 2."""
    try:
        run()
        return
    except FedCoreError as error:
        sentence, code = f"error: {error}", 2
    except (Interrupted, KeyboardInterrupt) as stop:
        sentence, code = str(stop) or "interrupted", 130
    except SystemExit as stop:
        if stop.code != 130:  # then typer has caught an interruption, and says nothing
            raise
        sentence, code = "interrupted", 130
    except Exception as error:
        where = ""  # the last line of a user's file, if any is on the way
        for frame, line in walk_tb(error.__traceback__):
            if frame.f_globals.get("__name__", "").startswith(plugins.OWN):
                where = f"line {line} of {frame.f_code.co_filename!r}"
        full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
        if not (where or full):
            raise
        hint = "; make room, then go on as after an interruption" * full
        sentence, code = f"error: {failed(where or 'writing', error, hint)}", 2
    print(sentence, file=sys.stderr)
    sys.exit(code)
