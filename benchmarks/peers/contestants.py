"""Who is measured, in which variants, and how one of them is run on a piece of work."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.peers.environments import ROOT, PeerUnavailable, interpreter_of, reason_in
from benchmarks.peers.work import Answer

LONGEST_RUN = 300.0  # seconds


@dataclass(frozen=True, slots=True)
class Variant:
    """A way to run somebody: Python options and a module, and what comes behind the files."""

    name: str
    module: tuple[str, ...]
    options: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Contestant:
    """Somebody who does the work; ``peer`` names the environment, None is ours."""

    name: str
    variants: tuple[Variant, ...]
    peer: str | None = None


@dataclass(frozen=True, slots=True)
class Run:
    """One run: the answer, and the whole command's seconds."""

    answer: Answer
    wall_seconds: float

    @property
    def seconds(self) -> float:
        """Mean length of a round; the first, which includes preparation, is left out."""
        later = self.answer.round_seconds[1:]
        return sum(later) / len(later)

    @property
    def overhead(self) -> float:
        """Seconds to start and to end: everything outside of rounds."""
        return self.wall_seconds - sum(self.answer.round_seconds)


Runner = Callable[[Contestant, Variant, Path, float], Run]


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")


def _module(name: str) -> tuple[str, str]:
    return ("-m", f"benchmarks.peers.{name}")


def contestants(cores: int) -> tuple[Contestant, ...]:
    """Everybody, each in the few variants that could be its fastest on ``cores``."""
    threads = sorted({1, cores})
    plain, torchrun = _module("plain_run"), ("-m", "torch.distributed.run", "--standalone")

    def loops(batches: str) -> tuple[Variant, ...]:
        return tuple(
            Variant(_count(n, "thread"), plain, ("--batches", batches, "--threads", str(n)))
            for n in threads
        )

    return (
        Contestant("ours", (Variant("executor auto", _module("ours_run")),)),
        Contestant("plain loop", loops("loader")),
        Contestant("plain loop, no DataLoader", loops("views")),
        Contestant(
            "Flower",
            tuple(
                Variant(
                    f"{_count(actors, 'actor')}, {_count(cores // actors, 'thread')}",
                    _module("flower_run"),
                    ("--actors", str(actors), "--threads", str(cores // actors)),
                )
                for actors in reversed(threads)
            ),
            peer="flower",
        ),
        Contestant(
            "pfl",
            (
                Variant(
                    f"{cores} processes",
                    (*torchrun, "--nproc-per-node", str(cores), *_module("pfl_run")),
                ),
                *(
                    Variant(_count(n, "thread"), _module("pfl_run"), ("--threads", str(n)))
                    for n in threads
                ),
            ),
            peer="pfl",
        ),
    )


def run(contestant: Contestant, variant: Variant, folder: Path, limit: float = LONGEST_RUN) -> Run:
    """Run a variant on ``folder / work.npz``, in a process of its own.

    Raises:
        PeerUnavailable: it failed or took longer than ``limit`` seconds.
    """
    python = sys.executable if contestant.peer is None else str(interpreter_of(contestant.peer))
    answer = folder / "answer.npz"
    answer.unlink(missing_ok=True)
    # Modules that are given to an interpreter take their own arguments behind the files.
    command = [python, *variant.module, str(folder / "work.npz"), str(answer), *variant.options]
    begin = time.perf_counter()
    # A session of its own, so that helpers of a run that hangs end with it.
    with (folder / "output.txt").open("w+") as output:
        process = subprocess.Popen(
            command,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=ROOT,
            env=_environment(contestant, folder),
            start_new_session=True,
        )
        try:
            code = process.wait(limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise PeerUnavailable(f"took longer than {limit:.0f} s") from None
        spent = time.perf_counter() - begin
        output.seek(0)
        if code or not answer.exists():
            raise PeerUnavailable(f"failed: {reason_in(output.read())}")
    return Run(Answer.read(answer), spent)


def _environment(contestant: Contestant, folder: Path) -> dict[str, str]:
    paths = [str(ROOT)]
    if contestant.peer is None and "PYTHONPATH" in os.environ:
        paths.append(os.environ["PYTHONPATH"])
    return os.environ | {
        "PYTHONPATH": os.pathsep.join(paths),
        "OMP_NUM_THREADS": "1",  # each sets the number it was given by itself
        "RAY_TMPDIR": str(folder),
        "FLWR_HOME": str(folder / "flwr"),
    }
