"""How long the next round may last: what a server has seen, and who decides by it."""

import math
from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from fedcore.errors import BadOption
from fedcore.server.method import table
from fedcore.server.state import Job
from fedcore.sources.clients import ClientSizes
from fedcore.task import sent_bytes
from fedcore.types import ClientId, LocalUpdate, Params
from fedcore.values import above_zero, convert

Floats = NDArray[np.float64]

PROBE = 2.0**-20  # seconds of a first round; a server doubles them until somebody can work
ROOM = 1.1  # the shortest deadline, in median transfers
NEAR = 0.05  # to a deadline, in logarithms: coresets of one size are chosen once
SHARE = 0.5  # of a new measurement in an average, and of the way to a new deadline


class Seen(NamedTuple):
    """What a server saw and nothing else: a row of each client that answered, and its rounds."""

    epochs: int  # E
    samples: Floats  # m^i
    speeds: Floats  # c^i = work / (seconds - s^i)
    transfers: Floats  # s^i, seconds to send the model there and back
    drawn: NDArray[np.bool_]  # who of them takes part in the next round
    clients: int  # of the fleet, with those who never answered
    rounds: Floats  # [R, 3]: deadline, Σ of the losses met in it, and their number
    most: float = math.inf  # seconds that a round may last

    def seconds(self, epochs: float) -> Floats:
        """t^i(e) = e m^i / c^i + s^i."""
        return epochs * self.samples / self.speeds + self.transfers

    def towards(self, wanted: float) -> float:
        """Half of the way there from the last deadline, in logarithms; one that is near stays."""
        old = float(self.rounds[-1, 0]) if len(self.rounds) > 1 else wanted  # after the probe
        return old if abs(math.log(wanted / old)) < NEAR else old * (wanted / old) ** SHARE


class Controller(NamedTuple):
    """A way to set deadlines: ``aim`` is (seen) -> (seconds, reason), by its argument alone."""

    aim: Callable[[Seen], tuple[float, str]]
    bounded: bool = True  # by transfers and the longest job; else it is taken at its word

    def decide(self, seen: Seen) -> tuple[float, str]:
        """Seconds of the next round, and why."""
        if self.bounded and not len(seen.samples):
            probe = PROBE * 2.0 ** len(seen.rounds) if seen.most == math.inf else seen.most
            return probe, "nobody has answered yet"
        told: object = self.aim(seen)  # of the user's own, perhaps
        if not (isinstance(told, tuple) and len(told) == 2):
            raise BadOption(f"aim of a Controller must give (seconds, reason), got {told!r}")
        seconds, reason = convert("deadline", told[0], float), str(told[1])
        above_zero("deadline", seconds)
        if not self.bounded:
            return seconds, reason
        least = ROOM * float(np.median(seen.transfers))
        kept = min(max(least, seconds), float(seen.seconds(seen.epochs).max()), seen.most)
        bound = f"; at {'least' if kept > seconds else 'most'} {kept:.4g} s"
        return kept, reason + bound * (kept != seconds)


def begin(memory: Params, deadline: float) -> Params:
    """The memory with a round more, of which nothing was heard yet."""
    new = torch.tensor([[deadline, 0.0, 0.0]], dtype=torch.float64)
    return {**memory, "rounds": torch.cat([table(memory, "rounds", 0, 3), new])}


def learn(memory: Params, sizes: ClientSizes, job: Job, update: LocalUpdate) -> Params:
    """The memory with an answer in it: how much data, how fast and how far; and its losses."""
    plan, whole = job.assignment.plan, sent_bytes(job.base, 1)
    transfer = job.profile.transfer_seconds(whole, sent_bytes(job.base, plan.trained_share))
    work = plan.work(update.num_samples) if update.work is None else update.work
    speed = work / max((update.seconds or 0.0) - transfer, math.ulp(1.0))
    now = torch.tensor([update.num_samples, speed, transfer], dtype=torch.float64)
    clients, rounds = table(memory, "clients", len(sizes), 3), memory["rounds"].clone()
    row = clients[sizes.place(update.client_id)]
    row += (SHARE if row[0] else 1.0) * (now - row)
    rounds[-1, 1:] += torch.tensor([update.loss_sum, update.loss_count], dtype=torch.float64)
    return {"clients": clients, "rounds": rounds}


def recall(memory: Params, sizes: ClientSizes, cohort: Iterable[ClientId], epochs: int) -> Seen:
    """What was seen up to now, for the round of a ``cohort``."""
    seen, drawn = table(memory, "clients", len(sizes), 3).numpy(), np.zeros(len(sizes), bool)
    drawn[[sizes.place(client) for client in cohort]] = True
    known, rounds = seen[:, 0] > 0, table(memory, "rounds", 0, 3).numpy()
    samples, speeds, transfers = seen[known].T  # m, c, s
    return Seen(epochs, samples, speeds, transfers, drawn[known], len(sizes), rounds)
