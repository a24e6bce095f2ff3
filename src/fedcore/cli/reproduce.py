"""The paper's Table 2 in pieces that resume: ``fedcore reproduce``.

``python -m fedcore.reproduce`` is the same, with torch and NumPy alone.
"""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from fedcore.cli.table2 import BENCHMARKS, WAYS, pieces_of
from fedcore.cli.view import View
from fedcore.cli.workers import PARENT, on_processes, train_all
from fedcore.errors import FedCoreError
from fedcore.sources.benchmark import find
from fedcore.sources.files import read
from fedcore.values import at_least, read_option, read_pairs

OPTIONS = (
    ("out", None, "Folder of all pieces; the same command goes on in it."),
    ("only", ",".join(BENCHMARKS), "Benchmarks, separated by commas."),
    ("stragglers", "10,30", "Percentages of slow clients."),
    ("seeds", "3", "How many; all pieces of the first come first."),
    ("preset", ",".join(WAYS), "The paper's text, its repository, our own best."),
    ("workers", "1", "Pieces side by side: so many processes."),
    ("device", "auto", "'auto' is a GPU if there is one."),
    ("threads", "0", "Of a piece; 0: the cores, shared among the workers."),
    ("data-dir", None, "Place of data; else $FEDCORE_DATA, else the user's cache."),
)
SET = "Any other option of 'fedcore compare', for a try, as --set rounds=2; may be repeated."


def run_command(given: argparse.Namespace, arguments: Sequence[str]) -> None:
    """Do what the command line says; ``arguments`` are what it said."""
    units = pieces_of(given.only, given.stragglers, given.seeds, given.preset)
    workers = read_option("workers", given.workers, int)
    at_least(1, 1024)("workers", workers)
    shared = max(1, (os.cpu_count() or 1) // workers)
    threads = read_option("threads", given.threads, int) or shared
    options = {**read_pairs("set", given.set), "device": given.device, "threads": threads}
    options |= {"data_dir": given.data_dir} if given.data_dir else {}
    out, place = Path(given.out), Path(given.data_dir).expanduser() if given.data_dir else None
    rounds = {piece: piece.experiment(options).rounds for unit in units for piece in unit}
    if PARENT in os.environ:
        train_all(units, out, options)
        return
    for name in dict.fromkeys(piece.benchmark for piece in rounds):
        source: Any = getattr(find(name).module, "SOURCE", None)
        for file in source.files if source else ():  # what is missing shows before anything starts
            read(source, file.name, place)
    with closing(View(out, rounds)) as view:
        look: Callable[[], None] = (lambda: None) if given.quiet else view.look
        on_processes(min(workers, len(units)), [*arguments, f"--threads={threads}"], look)
        look()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it; what is refused is one sentence on standard error and exit code 2."""
    arguments = sys.argv[1:] if arguments is None else arguments
    parser = argparse.ArgumentParser("fedcore reproduce", description=__doc__)
    for name, default, text in OPTIONS:
        parser.add_argument(f"--{name}", default=default, required=name == "out", help=text)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help=SET)
    parser.add_argument("--quiet", action="store_true", help="Say nothing but errors.")
    try:
        run_command(parser.parse_args(arguments), arguments)
    except FedCoreError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted; the same command goes on from here", file=sys.stderr)
        return 130
    return 0
