"""How local models become the next global model (Algorithm 1, line 15)."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeAlias

import torch
from torch import Tensor

from fedcore.server.method import Merge, Strategy
from fedcore.server.state import ServerState
from fedcore.types import LocalUpdate, Params
from fedcore.values import one_of

Updates: TypeAlias = Sequence[LocalUpdate]
Together = Callable[[ServerState, Updates], ServerState]
Weight = Callable[[LocalUpdate], float]
Names = Iterable[str]


def by_draws(update: LocalUpdate) -> float:
    """w_{r+1} = (1/K) Σ_{i in U_r} w_r^i; a client drawn twice counts twice.

    Where a deployment's user weighs answers by a key, each counts as often as that says.
    """
    own = (update.payload or {}).get("weight")
    return update.copies if own is None else update.copies * float(own)


def by_samples(update: LocalUpdate) -> float:
    """w_{r+1} = Σ m^i w_r^i / Σ m^i, as the authors' code and FedAvg's authors have it."""
    return by_draws(update) * update.num_samples


AGGREGATIONS: dict[str, Weight] = {"mean": by_draws, "samples": by_samples}


def aggregation(name: str) -> Merge:
    """The weighted mean called ``name``."""
    one_of(*AGGREGATIONS)("aggregation", name)
    return partial(RunningMean, AGGREGATIONS[name])


class RunningMean:
    """Σ_i p_i w_i / Σ_i p_i over those who sent a parameter, in memory for one model.

    Beside the merge ``own`` it is that of some ``names`` alone, such as BatchNorm's statistics.
    """

    def __init__(
        self, weight: Weight, state: ServerState, own: Merge | None = None, names: Names = ()
    ) -> None:
        self._weight, self._names = weight, names or state.params
        self._state, self._own = state, None if own is None else own(state)
        self._totals = dict.fromkeys(state.params, 0.0)
        # float64, so that the order of the answers cannot show in a float32 result
        self._sums = {n: torch.zeros_like(v, dtype=torch.float64) for n, v in state.params.items()}

    def add(self, update: LocalUpdate, base: Params) -> None:
        """Take an answer in."""
        weight = self._weight(update)
        if self._own is not None:  # for which these stay, so that no move's length is of them
            kept = {name: base[name] for name in self._names}
            self._own.add(replace(update, params={**update.params, **kept}), base)
        for name in update.params:
            self._totals[name] += weight
        sums = [self._sums[name] for name in update.params]
        torch._foreach_add_(sums, list(update.params.values()), alpha=weight)

    def finish(self) -> ServerState:
        """The state with the mean as its model."""
        state = self._state if self._own is None else self._own.finish()
        now, sent = state.params, {n: self._totals[n] for n in self._names if self._totals[n]}
        if not sent:
            return state
        means = {n: self._sums[n] / total for n, total in sent.items()}
        whole = {n: m if now[n].is_floating_point() else m.round() for n, m in means.items()}
        return replace(state, params={**now, **{n: m.to(now[n].dtype) for n, m in whole.items()}})


class RunningMoves:
    """S = Σ_i u_i Δ_i with Δ_i = w_i - w^v, and the longest |Δ_i|, in memory for one model.

    ``weigh`` gives an answer's u_i, and numbers to be added up; from all of them comes the state.
    """

    def __init__(
        self,
        weigh: Callable[[LocalUpdate], Sequence[float]],
        after: Callable[..., ServerState],  # (state, S, longest |Δ|, the sums of numbers)
        state: ServerState,
    ) -> None:
        self._weigh, self._after, self._state = weigh, after, state
        self._sums = {n: torch.zeros_like(v, dtype=torch.float64) for n, v in state.params.items()}
        # A tensor, so that nobody waits for a device.
        self._longest = torch.zeros((), dtype=torch.float64)
        self._added: list[Sequence[float]] = []

    def add(self, update: LocalUpdate, base: Params) -> None:
        """Take an answer in; who trains a part leaves the rest where it was."""
        weight, *numbers = self._weigh(update)
        sent = moved(update.params, {name: base[name] for name in update.params}, -1.0)
        for name, move in sent.items():
            self._sums[name].add_(move, alpha=weight)
        far = length(sent)
        self._longest = torch.maximum(self._longest.to(far.device), far)
        self._added.append(numbers)

    def finish(self) -> ServerState:
        """The state after all answers."""
        if not self._added:
            return self._state
        totals = map(sum, zip(*self._added, strict=True))
        return self._after(self._state, self._sums, self._longest, *totals)


def averaging(strategy: Strategy, weights: str, names: Sequence[str]) -> Strategy:
    """The strategy, but what these ``names`` are of is averaged, whatever it does with others."""
    mean = partial(RunningMean, AGGREGATIONS[weights], own=strategy.merge, names=names)
    return replace(strategy, merge=mean) if names else strategy


def length(moves: Params) -> Tensor:
    """|Δ| without counters, in float64; scaled by a power of two, for squares may underflow."""
    there = [m.double() for m in moves.values() if m.numel() and m.is_floating_point()]
    peak = torch.stack([move.abs().max() for move in there]).max()
    unit = torch.exp2(torch.frexp(peak).exponent.double() - 1)
    return unit * torch.stack([(move / unit).square().sum() for move in there]).sum().sqrt()


def cosine(moves: Params, others: Params) -> float:
    """Of the angle between two moves, without counters; 0 where one is no move."""
    one, other = (length(some) or 1.0 for some in (moves, others))
    there = (n for n, m in moves.items() if m.is_floating_point())
    return float(sum((moves[n].double() / one * (others[n].double() / other)).sum() for n in there))


def all_at_once(function: Together, *, moves: bool = False) -> Merge:
    """A merge for methods that need all answers together; ``moves``: w_i - w^v in place of w_i."""
    return partial(_AllAtOnce, function, moves)


def summed(updates: Updates, weights: Sequence[float]) -> dict[str, Tensor]:
    """Σ_i u_i w_i over the parameters of answers, computed in float64."""
    pairs = [(u.params, weight) for u, weight in zip(updates, weights, strict=True)]
    total = {n: sum(weight * w[n].double() for w, weight in pairs) for n in updates[0].params}
    return {n: torch.as_tensor(total[n]).to(v.dtype) for n, v in updates[0].params.items()}


def moved(params: Params, moves: Params, step: float = 1.0) -> Params:
    """w + step · moves, computed in float64; {} is zero."""
    if not moves:
        return params
    now = params or {name: torch.zeros_like(value) for name, value in moves.items()}
    return {n: (v.double() + step * moves[n].double()).to(v.dtype) for n, v in now.items()}


@dataclass(slots=True)
class _AllAtOnce:
    function: Together
    moves: bool
    state: ServerState
    updates: list[LocalUpdate] = field(default_factory=list, init=False)

    def add(self, update: LocalUpdate, base: Params) -> None:
        sent = {**base, **update.params}  # who trains a part leaves the rest where it was
        sent = dict(moved(sent, base, -1.0)) if self.moves else sent
        self.updates.append(replace(update, params=sent))

    def finish(self) -> ServerState:
        return self.function(self.state, self.updates) if self.updates else self.state
