"""Who trains the pieces of Table 2: this process, or several.

Workers go through all pieces and take those that are neither finished nor another's.
"""

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from fedcore.cli.piece import Train, claimed, rounds_of, run_piece
from fedcore.cli.table2 import Piece
from fedcore.config import Options
from fedcore.errors import BadOption

Units = Sequence[Sequence[Piece]]  # the pieces of one come one after another
ATTEMPTS = 5  # after which workers that are killed are no accident
PARENT = "FEDCORE_PARENT"  # of a worker: the process that it ends with


def train_all(units: Units, out: Path, options: Options, train: Train = rounds_of) -> None:
    """Train every piece that is neither finished nor being trained by another worker."""
    if parent := os.environ.get(PARENT):
        with suppress(OSError, AttributeError):  # Linux alone
            ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # when the parent ends
        if os.getppid() != int(parent):
            return
    for unit in units:
        path = unit[0].path.parent if unit[0].strategy == "fedavg" else unit[0].path
        with claimed(out / path) as ours:
            for piece in unit if ours else ():
                run_piece(piece, out, options, train)


def on_processes(count: int, arguments: Sequence[str], look: Callable[[], None]) -> None:
    """Start this command so many times; one that is killed costs a round, and is started again."""
    command = [sys.executable, "-m", "fedcore.reproduce", *arguments, "--workers=1", "--quiet"]
    environment = {**os.environ, PARENT: str(os.getpid())}
    start = partial(subprocess.Popen[bytes], command, env=environment, start_new_session=True)
    running, killed = [start() for _ in range(count)], 0
    try:
        while running:
            time.sleep(0.5)
            look()
            for worker in [one for one in running if one.poll() is not None]:
                running.remove(worker)
                if worker.returncode > 0:  # it has said why
                    raise SystemExit(worker.returncode)
                if worker.returncode < 0:
                    killed += 1
                    running.append(start())
                if killed == ATTEMPTS:
                    fewer = f"ask for fewer than {count}, or for less memory"
                    raise BadOption(f"workers were killed {killed} times; {fewer}")
    finally:  # a folder is whole at any time, so nobody needs to be waited for
        for worker in running:
            worker.kill()
