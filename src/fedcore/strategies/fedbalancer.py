"""FedBalancer: clients train on the samples whose loss is above a threshold that the server sets.

A client remembers the losses l_j of its samples: of all from a forward pass when it is first drawn,
later of those it trains on. With H = {j : l_j >= θ}, and w = E floor(c τ / E) samples, or c τ if 0,

    a.  w >= E m      all m samples, E epochs
    b.  w >= E |H|    n = floor(w / E) samples, E epochs
    c.  else          n = |H| samples, floor(w / n) epochs; w of them, once, where that is none

n (1 - q) samples are drawn from H, or all of H, and n q from the others, each counting alike; an
answer counts by how many were chosen, as for clients that are drawn uniformly, and tells the least
loss and the 80th percentile. Over a round's answers, with L the mean of a window's losses,

    θ = LL + r (LH - LL), LL the least of the least, LH the mean of the percentiles
    r <- r + s if L fell from one window of rounds to the next, else r - s, within [0, 1]

Source: Shin et al., "FedBalancer: Data and Pace Control for Efficient Federated Learning on
Heterogeneous Clients", MobiSys 2022. Defaults: r from 0 on, s 0.05, 20 rounds a window, q 0.
Departures: L in place of L / D, as if deadlines stayed; the clock charges all of w, whatever
|H| is; losses are of the model that a round begins with; where none reaches θ, all are in H.
"""

from dataclasses import replace
from functools import partial

import torch

from fedcore.coreset.build import Options
from fedcore.coreset.proxies import REMEMBERED
from fedcore.deadline import coreset_budget
from fedcore.server.merge import RunningMean, Updates, all_at_once
from fedcore.server.method import Plans, Profiles, Strategy
from fedcore.server.state import ServerState
from fedcore.strategies import random_subset
from fedcore.types import SIT_OUT, ClientProfile, CoresetSpec, LocalPlan, Phase, Way
from fedcore.values import at_least, whole_number


def build(
    *, forward_price: float = 1 / 3, easy: float = 0.0, ratio_step: float = 0.05, window: int = 20
) -> Strategy:
    """``easy`` is q, ``ratio_step`` s, and a ``window`` has so many rounds."""
    at_least(0, 1)("easy", easy)
    at_least(0, 1)("ratio_step", ratio_step)
    whole_number("window", window, 1)

    def by_cohort(state: ServerState, cohort: Profiles) -> Plans:
        own = (("threshold", float(state.tensors.get("threshold", 0.0))), ("easy", easy))
        met = set(state.tensors.get("met", torch.empty(0)).tolist())
        return {one: partial(_plan, own, 0.0 if one in met else forward_price) for one in cohort}

    merge = all_at_once(partial(_merged, ratio_step, window))
    return Strategy(random_subset.build().plan, merge, by_cohort=by_cohort, keeps_deadline=True)


def _plan(
    own: Options, price: float, client: ClientProfile, deadline: float, epochs: int
) -> LocalPlan:
    """E epochs on what fits, in which the client finds its place for the rules above."""
    budget, times = coreset_budget(client, deadline, epochs, (price,), shorten=True)
    spec = CoresetSpec(budget, "uniform-plain", REMEMBERED, price=price, options=own)
    path = Way.FULL if budget * times == epochs * client.num_samples else Way.PARTIAL
    return LocalPlan((Phase(times, spec),), path) if budget else SIT_OUT


def _merged(step: float, window: int, state: ServerState, updates: Updates) -> ServerState:
    """The mean by samples chosen, and θ and r for the next round."""
    mean = RunningMean(lambda one: one.copies * (one.coreset_size or one.num_samples), state)
    for one in updates:
        mean.add(one, state.params)
    told = [one.payload for one in updates if one.payload]
    if not told:
        return mean.finish()
    loss = sum(one.loss_sum for one in updates) / max(1, sum(one.loss_count for one in updates))
    losses = [*state.tensors.get("losses", torch.empty(0)).tolist(), loss]
    ratio = float(state.tensors.get("ratio", 0.0))
    if len(losses) % window == 0 and len(losses) >= 2 * window:
        fell = sum(losses[-2 * window : -window]) > sum(losses[-window:])
        ratio = min(1.0, max(0.0, ratio + (step if fell else -step)))
    low = min(float(one["least"]) for one in told)
    high = sum(float(one["percentile"]) for one in told) / len(told)
    own = {"losses": losses, "ratio": ratio, "threshold": low + ratio * (high - low)}
    now = {name: torch.tensor(value, dtype=torch.float64) for name, value in own.items()}
    met = {*state.tensors.get("met", torch.empty(0)).tolist(), *(one.client_id for one in updates)}
    return replace(mean.finish(), tensors={**now, "met": torch.tensor(sorted(met))})
