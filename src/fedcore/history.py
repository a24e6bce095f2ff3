"""The rounds of one run, and what they come to: the numbers of tables and of ``summary.json``."""

import os
import platform
import subprocess
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import version
from itertools import accumulate, compress
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fedcore import __version__
from fedcore.compiled import have_numba
from fedcore.errors import BadOption
from fedcore.records import RoundRecord, RunKey
from fedcore.types import Params
from fedcore.values import accuracies, convert, one_of

STEADY = 10  # the paper's accuracies are means over rounds from this one on


@dataclass(frozen=True, slots=True)
class History:
    """All rounds of a run and the model it ended with."""

    rounds: tuple[RoundRecord, ...]
    params: Params = field(default_factory=dict)

    @property
    def final_test_accuracy(self) -> float | None:
        """Accuracy on the test data after the last round; None without test data."""
        return self.rounds[-1].test_accuracy

    @property
    def best_test_accuracy(self) -> float | None:
        """The best accuracy on the test data after any round; None without test data."""
        return max(self.accuracies("test"), default=None)

    @property
    def final_train_loss(self) -> float | None:
        """L(w) of Eq. 1 after the last round; None where nobody measured it."""
        return self.rounds[-1].train_loss

    @property
    def mean_round_time(self) -> float:
        """Mean length in units of the deadline of rounds that the end of a run did not cut."""
        return float(np.mean([r.time for r in self.rounds if not r.cut] or [self.longest_round]))

    @property
    def longest_round(self) -> float:
        """Length of the longest round in units of the run's deadline."""
        return max(r.time for r in self.rounds)

    @property
    def deadline_misses(self) -> int:
        """How many rounds were late."""
        return sum(r.seconds / (r.allowed or r.deadline) > 1 for r in self.rounds)

    def time_to(self, accuracy: float) -> float | None:
        """Time in deadlines until the test accuracy was first as high; None: it never was."""
        accuracies("accuracy", [convert("accuracy", accuracy, float)])
        tested = (record.test_accuracy for record in self.rounds)
        times = accumulate(record.time for record in self.rounds)
        return next(compress(times, (x is not None and x >= accuracy for x in tested)), None)

    def plot(self, axes: Any = None) -> Any:
        """Draw the test accuracy over time, into ``axes`` of matplotlib or new ones; gives them."""
        if axes is None:
            from matplotlib import pyplot

            axes = pyplot.gca()
        if not hasattr(axes, "plot"):
            raise BadOption(f"axes must be those of a matplotlib figure, got {axes!r}")
        times = accumulate(record.time for record in self.rounds)
        known = compress(times, (r.test_accuracy is not None for r in self.rounds))
        axes.plot([*known], self.accuracies("test"))
        axes.set(xlabel="Time in deadlines", ylabel="Test accuracy")
        return axes

    def accuracies(self, split: str, first: int = 1) -> list[float]:
        """Accuracies on ``split``, 'test' or 'train', from a round on, where they were measured."""
        one_of("test", "train")("split", split)
        values = (getattr(r, f"{split}_accuracy") for r in self.rounds if r.number >= first)
        return [value for value in values if value is not None]

    def steady_accuracy(self, split: str) -> float | None:
        """Mean accuracy from round 10 on, the figure of the paper's Table 2; None before it."""
        values = self.accuracies(split, STEADY)
        return float(np.mean(values)) if values else None


def summarise(run: RunKey, history: History) -> dict[str, Any]:
    """One run in numbers: accuracies in [0, 1], times in units of the deadline."""
    rounds = history.rounds
    clients = [client for record in rounds for client in record.clients]
    return {
        **{name: getattr(run, name) for name in ("benchmark", "stragglers", "strategy", "seed")},
        "rounds": len(rounds),
        "final_test_accuracy": history.final_test_accuracy,
        "best_test_accuracy": history.best_test_accuracy,
        f"mean_test_accuracy_from_round_{STEADY}": history.steady_accuracy("test"),
        "final_train_accuracy": rounds[-1].train_accuracy,
        "best_train_accuracy": max(history.accuracies("train"), default=None),
        f"mean_train_accuracy_from_round_{STEADY}": history.steady_accuracy("train"),
        "final_train_loss": history.final_train_loss,
        "mean_round_time": history.mean_round_time,
        "max_round_time": history.longest_round,
        "deadline_misses": history.deadline_misses,
        "deadline_miss_share": history.deadline_misses / len(rounds),
        "mean_participants": sum(client.work > 0 for client in clients) / len(rounds),
        "rejected": sum(record.rejected for record in rounds),
        "fell_back": sum(client.fell_back for client in clients),
        **{f"final_test_{name}": value for name, value in rounds[-1].metrics.items()},
        "wall_seconds": round(sum(record.wall_seconds for record in rounds), 3),
    }


def environment() -> dict[str, str]:
    """What can change a result: versions, the commit of the source, machine and device."""
    known = {"fedcore": __version__, "python": platform.python_version()}
    known |= {"torch": str(torch.__version__), "numpy": np.__version__}
    there = torch.cuda.is_available()  # not where what was used before is hidden since
    used = there and torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    device = torch.cuda.get_device_name() if used else "cpu"
    return {**known, "machine": platform.machine(), **_source_and_processor(), "device": device}


@cache
def _source_and_processor() -> dict[str, str]:
    """The commit of the checkout this runs from, or of a copy of one as $FEDCORE_COMMIT says."""
    root, ask = Path(__file__).parents[2], "git describe --always --dirty --abbrev=40 --exclude=*"
    known = {"commit": os.environ.get("FEDCORE_COMMIT", "unknown"), "processor": "unknown"}
    known["numba"] = version("numba") if have_numba() else "none"  # compiled sums round otherwise
    with suppress(OSError, subprocess.CalledProcessError):
        if (root / ".git").exists():
            known["commit"] = subprocess.check_output(ask.split(), cwd=root, text=True).strip()
    with suppress(OSError, StopIteration):
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
        known["processor"] = next(x for x in lines if x.startswith("model name")).split(": ")[1]
    return known
