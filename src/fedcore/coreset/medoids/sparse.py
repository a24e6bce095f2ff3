"""The sparse path: k-medoids on neighbour lists, memory O(n K) instead of O(n²).

Because k is a sizeable part of n, a medoid serves a few near points, and swaps need only each
point's K nearest. Start with more medoids than wanted and drop the cheapest until k are left;
swap until no swap helps; give points whose list holds fewer than two medoids their nearest
medoids as extra entries, and swap again. The last step is what trained gradients need: thousands
of them crowd around 0, and neighbour lists there do not reach out of the crowd.
"""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fedcore.coreset.medoids.clock import Deadline
from fedcore.coreset.medoids.layout import Layout, build_lists, layout_of, nearest_among
from fedcore.coreset.medoids.lists import Lists, Reverse, add_extras, reversed_lists
from fedcore.coreset.medoids.moves import drop, sweep
from fedcore.coreset.medoids.solution import Problem, Solution
from fedcore.coreset.medoids.state import State, new_state, settle
from fedcore.coreset.medoids.stream import solve_streamed

LONGEST = 136  # the list where k = n / 40, the fewest medoids that lists serve
ROUNDS = 20  # of repairing and swapping, at most
REPAIR = 8  # nearest medoids given to a point that knows too few
SURPLUS = 0.2  # of the other points are medoids too when dropping begins
POLISHED = 1200  # points up to which the last word is with all n² distances
STRIDE = 512  # candidates between two looks at the clock


def list_length(count: int, k: int) -> int:
    """Return K: the second medoid of a point is some 2 n / k neighbours away, or twice that."""
    return min(-(-(3 * count // k + 17) // 8) * 8, LONGEST)


def solve_sparse(problem: Problem, deadline: Deadline) -> Solution:
    """Drop, swap, repair, repeat; see the module's first lines."""
    layout = layout_of(problem)
    start = layout.places(problem.start)
    work = deadline.earlier(_time_to_assign(layout, start) if deadline.moment is not None else 0.0)
    lists = build_lists(layout, list_length(len(layout), problem.k), work)
    if lists is None:
        return _solution(layout, start, None, None, 0, False)
    chosen = start
    if not problem.warm:
        # The problem's points come in random order. Beginning with all of them as medoids is a
        # little worse where k is large, beginning with k at random where k is small.
        surplus = int(SURPLUS * (len(layout) - problem.k))
        first = np.arange(len(layout) - problem.k)[:surplus]
        others = np.setdiff1d(np.arange(len(layout)), problem.start, assume_unique=True)
        chosen = layout.places(np.concatenate((problem.start, others[first])))
    state = new_state(chosen, layout.weights, layout.far)
    settle(lists, state)
    repairs = Repairs(layout, lists, state)
    _thin(layout, lists, state, repairs, problem.k, work)
    swaps, finished = _improve(lists, state, repairs, work)
    settle(lists, state)
    solution = _solution(layout, state.chosen, lists, state, swaps, finished)
    if solution.certified < 1.0 and len(layout) <= POLISHED and not work.over():
        return _polished(problem, solution, work)
    return solution


def _polished(problem: Problem, solution: Solution, work: Deadline) -> Solution:
    """Make sure that no swap helps by all distances, where these are few."""
    better = solve_streamed(replace(problem, start=solution.medoids), work)
    return replace(better, swaps=solution.swaps + better.swaps, path="sparse")


def uncertified(lists: Lists, state: State) -> NDArray[np.int64]:
    """Return the points without two medoids inside the radius of their list."""
    known = (state.second >= 0) & (state.second_distance <= lists.radius)
    return np.flatnonzero(~known & (lists.radius < state.far[0]))


class Repairs:
    """Gives points that may not know their medoids the nearest ones as extra entries."""

    def __init__(self, layout: Layout, lists: Lists, state: State) -> None:
        self._layout, self._lists, self._state = layout, lists, state
        self._told = np.zeros(len(layout), np.bool_)  # medoids that everybody poor knows of

    def run(self, work: Deadline) -> bool:
        """Repair all lists that need it; False if the time ran out."""
        lists, state = self._lists, self._state
        poor = uncertified(lists, state)
        # Who was told of all medoids before needs to hear of new ones only, unless too many of
        # those it knew have gone.
        lost = state.second_distance[poor] > lists.reach[poor]
        done = self._tell(poor[lost], state.chosen, True, work) and self._tell(
            poor[~lost], state.chosen & ~self._told, False, work
        )
        rich = np.ones(len(state.chosen), np.bool_)
        rich[poor] = False
        lists.reach[rich] = lists.radius[rich]
        self._told = state.chosen.copy()
        return done

    def _tell(
        self, who: NDArray[np.int64], members: NDArray[np.bool_], fresh: bool, work: Deadline
    ) -> bool:
        if not len(who) or not members.any():
            return True
        found = nearest_among(self._layout, members, who, REPAIR, work)
        if found is None:
            return False
        add_extras(self._lists, self._state.chosen, who, found[0], found[1], fresh)
        return True


def _thin(
    layout: Layout, lists: Lists, state: State, repairs: Repairs, k: int, work: Deadline
) -> None:
    """Drop medoids, cheapest first, until k are left; repair lists as medoids grow rare."""
    left = int(state.chosen.sum())
    reverse = reversed_lists(lists)
    limit = layout.far / 2  # what costs that much leaves somebody without a medoid to turn to
    # While lists hold six medoids on average, few points run short; after a repair, halve.
    target = max(k, 6 * len(layout) // int(lists.exact.max()))
    while left > k:
        before = left
        while left > target and not work.over():
            dropped = drop(lists, reverse, state, min(left - target, 8 * STRIDE), limit)
            left -= dropped
            if not dropped:
                break
        if left <= k:
            return
        if work.over() or not repairs.run(work):
            # No time to do it one by one: drop what is cheapest now.
            cheapest = np.argsort(state.removal[: len(layout)], kind="stable")[: left - k]
            state.chosen[cheapest] = False
            return
        reverse = reversed_lists(lists)
        settle(lists, state)
        limit = layout.far / 2 if left < before else np.inf
        target = max(k, min(target, left) // 2)


def _improve(lists: Lists, state: State, repairs: Repairs, work: Deadline) -> tuple[int, bool]:
    """Swap and repair in turns; returns the swaps, and whether the last turn ran to its end."""
    swaps, before = 0, np.inf
    for _ in range(ROUNDS):
        if not repairs.run(work):
            return swaps, False
        total = settle(lists, state)
        # Repairing shows the last turn's true result. Stop when turns gain next to nothing.
        if total > before * (1 - 5e-4):
            break
        before = total
        made, finished = _swap(lists, reversed_lists(lists), state, 1e-9 * total, work)
        swaps += made
        if not finished:
            return swaps, False
        if not made or not len(uncertified(lists, state)):
            break
    return swaps, True


def _swap(
    lists: Lists, reverse: Reverse, state: State, least: float, work: Deadline
) -> tuple[int, bool]:
    """Swap until a pass over all candidates changes nothing."""
    count, swaps, before, first = len(state.chosen), 0, -1, 0
    while swaps != before:
        before, quiet = swaps, 0
        # Only stale candidates are tried again, but a swap far away may have made some medoid
        # cheap for all: so the last pass leaves nobody out.
        state.stale[:] = True
        while quiet < count:
            tries = count if work.moment is None else STRIDE
            first, quiet, made = sweep(lists, reverse, state, first, quiet, tries, least)
            swaps += made
            if work.over():
                return swaps, False
    return swaps, True


def _time_to_assign(layout: Layout, members: NDArray[np.bool_]) -> float:
    """Estimate, from a few hundred points, the seconds it takes to find everybody's medoid."""
    sample = np.arange(0, len(layout), max(1, len(layout) // 512))
    nearest_among(layout, members, sample[:1], 1, Deadline())  # compiles, if it must
    begin = time.monotonic()
    nearest_among(layout, members, sample, 1, Deadline())
    return 1.2 * (time.monotonic() - begin) * len(layout) / len(sample)


def _solution(
    layout: Layout,
    chosen: NDArray[np.bool_],
    lists: Lists | None,
    state: State | None,
    swaps: int,
    finished: bool,
) -> Solution:
    """Find everybody's medoid for certain, and go back from places to points."""
    unsure = np.arange(len(layout))
    near = np.empty(len(layout), np.int64)
    certified = 0.0
    if lists is not None and state is not None:
        near = state.near.astype(np.int64)
        unsure = np.flatnonzero((state.near < 0) | (state.near_distance > lists.radius))
        certified = 1.0 - len(uncertified(lists, state)) / len(layout)
    found = nearest_among(layout, chosen, unsure, 1, Deadline())
    assert found is not None  # there was no deadline
    near[unsure] = found[0][:, 0]
    names = np.sort(layout.order[chosen])
    owner = np.empty(len(layout), np.int64)
    owner[layout.order] = layout.order[near]
    return Solution(names, np.searchsorted(names, owner), certified, swaps, "sparse", finished)
