"""FedBalancer: clients train on the samples whose loss is above a threshold that the server sets.

A client remembers the losses l_j of its samples: of all from a forward pass when it is first drawn,
later of those it trains on. With H = {j : l_j >= θ}, and w samples that fit before the deadline,

    a.  w >= E m      all m samples, E epochs
    b.  w >= E |H|    n = floor(w / E) samples, E epochs
    c.  else          n = |H| samples, floor(w / n) epochs; w of them, once, where that is none

n (1 - q) samples are drawn from H, or all of H, and n q from the others, each counting alike; the
answer counts by how many were chosen, and tells the least loss and the 80th percentile. Over the
answers of a round, with L the mean of a window's training losses,

    θ = LL + r (LH - LL), LL the least of the least, LH the mean of the percentiles
    r <- r + s if L fell from one window of rounds to the next, else r - s, within [0, 1]

Source: Shin et al., "FedBalancer: Data and Pace Control for Efficient Federated Learning on
Heterogeneous Clients", MobiSys 2022. Defaults: r from 0 on, s 0.05, 20 rounds a window, q 0.
Departures: the deadline is the fleet's, so their L / D is L; the clock charges all of w, whatever
|H| is; losses are of the model that a round begins with; where none reaches θ, all are in H.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import torch

from fedcore.coreset.build import Options
from fedcore.coreset.proxies import REMEMBERED
from fedcore.deadline import coreset_budget
from fedcore.server.merge import RunningMean
from fedcore.server.method import Plans, Profiles, Strategy
from fedcore.server.state import ServerState
from fedcore.strategies import random_subset
from fedcore.types import (
    SIT_OUT,
    ClientProfile,
    CoresetSpec,
    LocalPlan,
    LocalUpdate,
    Params,
    Path,
    Phase,
)
from fedcore.values import at_least


def build(
    *, forward_price: float = 1 / 3, easy: float = 0.0, ratio_step: float = 0.05, window: int = 20
) -> Strategy:
    """``easy`` is q, ``ratio_step`` s, and a ``window`` has so many rounds."""
    at_least(0, 1)("easy", easy)

    def by_cohort(state: ServerState, cohort: Profiles) -> Plans:
        threshold = float(state.tensors.get("threshold", 0.0))
        met = set(state.tensors.get("met", torch.empty(0)).tolist())
        own = (("threshold", threshold), ("easy", easy))
        return {one: partial(_plan, own, 0.0 if one in met else forward_price) for one in cohort}

    merge = partial(_Balancing, ratio_step, window)
    return Strategy(random_subset.build().plan, merge, by_cohort=by_cohort)


def _plan(
    own: Options, price: float, client: ClientProfile, deadline: float, epochs: int
) -> LocalPlan:
    """E epochs on what fits, in which the client finds its place for the rules above."""
    budget, times = coreset_budget(client, deadline, epochs, (price,), shorten=True)
    spec = CoresetSpec(budget, "uniform-plain", REMEMBERED, price=price, options=own)
    everything = budget * times == epochs * client.num_samples
    path = Path.FULL if everything else Path.PARTIAL
    return LocalPlan((Phase(times, spec),), path) if budget else SIT_OUT


class _Balancing(RunningMean):
    """The mean by samples chosen, and θ and r for the next round."""

    def __init__(self, step: float, window: int, state: ServerState) -> None:
        super().__init__(lambda one: one.copies * (one.coreset_size or one.num_samples), state)
        self._step, self._window = step, window
        self._met: set[int] = set(state.tensors.get("met", torch.empty(0)).tolist())
        self._told: list[tuple[float, float, float, int]] = []

    def add(self, update: LocalUpdate, base: Params) -> None:
        super().add(update, base)
        self._met.add(update.client_id)
        if update.payload:
            least, percentile = (float(update.payload[n]) for n in ("least", "percentile"))
            self._told.append((least, percentile, update.loss_sum, update.loss_count))

    def finish(self) -> ServerState:
        after, window = super().finish(), self._window
        if not self._told:
            return after
        least, percentiles, sums, counts = zip(*self._told, strict=True)
        losses = [*after.tensors.get("losses", torch.empty(0)).tolist(), sum(sums) / sum(counts)]
        ratio = float(after.tensors.get("ratio", 0.0))
        if len(losses) % window == 0 and len(losses) >= 2 * window:
            fell = sum(losses[-2 * window : -window]) > sum(losses[-window:])
            ratio = min(1.0, max(0.0, ratio + (self._step if fell else -self._step)))
        low, high = min(least), sum(percentiles) / len(percentiles)
        own = {"losses": losses, "ratio": ratio, "threshold": low + ratio * (high - low)}
        now = {name: torch.tensor(value, dtype=torch.float64) for name, value in own.items()}
        return replace(after, tensors={**now, "met": torch.tensor(sorted(self._met))})
