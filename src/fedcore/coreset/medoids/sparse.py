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

from fedcore.coreset.medoids.centre import centre_large
from fedcore.coreset.medoids.clock import Deadline
from fedcore.coreset.medoids.hurry import NONE, Plan, hurried, plan_of, spread_out
from fedcore.coreset.medoids.layout import (
    Layout,
    assign_places,
    build_lists,
    layout_of,
    nearest_among,
)
from fedcore.coreset.medoids.lists import Lists, Reverse, add_extras, reversed_again, reversed_lists
from fedcore.coreset.medoids.moves import drop, sweep
from fedcore.coreset.medoids.solution import Problem, Solution
from fedcore.coreset.medoids.state import State, new_state, settle
from fedcore.coreset.medoids.stream import solve_streamed

ROUNDS = 20  # of repairing and swapping, at most
REPAIR = 8  # nearest medoids given to a point that knows too few
SURPLUS = 0.2  # of the other points are medoids too when dropping begins
# n, and n² d, up to which the last word is with all n² distances: beyond, that takes as long as all
# else for a ten thousandth of the objective.
POLISHED = (1200, 90_000_000)
STIRRED = (4, 10)  # n / k between these: medoids are stirred
ENOUGH = 5e-4  # of the objective: what a turn must gain for another to follow
STRIDE = 512  # candidates between two looks at the clock


def list_length(count: int, k: int) -> int:
    """Return K: the second medoid of a point is some 2 n / k neighbours away, or twice that.

    Where k is small, lists that long cost more than the repairs that shorter ones need.
    """
    short = max(32, 3 * count // (2 * k) + 17)
    return -(-min(3 * count // k + 17, short) // 8) * 8


def solve_sparse(problem: Problem, deadline: Deadline) -> Solution:
    """Drop, swap, repair, repeat; see the module's first lines."""
    begin = time.monotonic()
    layout = layout_of(problem)
    start = layout.places(problem.start)
    length = list_length(len(layout), problem.k)
    plan = plan_of(layout, start, length, time.monotonic() - begin, deadline)
    work = plan.work
    lists = None if plan.most == NONE else build_lists(layout, length, work, plan.most)
    if lists is None:
        # A start that was given, or has a medoid for every label, is not to be improved upon.
        free = not problem.warm and problem.labels is None
        chosen = spread_out(layout, problem.k) if free else start
        return hurried(layout, chosen, "sparse", deadline)
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
    repairs = Repairs(layout, lists, state, plan)
    thin(layout, lists, state, repairs, problem.k)
    # A warm start is near its optimum already; leaving it again would cost what it saves.
    swaps, finished = improve(lists, state, repairs, stirred=not problem.warm)
    settle(lists, state)
    solution = _solution(layout, lists, state, swaps, finished, deadline)
    width = sum(factor.shape[1] for factor in problem.rows[:2])
    few = len(layout) <= POLISHED[0] and len(layout) ** 2 * width <= POLISHED[1]
    if solution.certified < 1.0 and few and not work.over():
        return polished(problem, solution, work)
    return solution


def polished(problem: Problem, solution: Solution, work: Deadline) -> Solution:
    """Make sure that no swap helps by all distances, where these are few."""
    better = solve_streamed(replace(problem, start=solution.medoids), work)
    return replace(better, swaps=solution.swaps + better.swaps, path="sparse")


def uncertified(lists: Lists, state: State) -> NDArray[np.int64]:
    """Return the points without two medoids inside the radius of their list."""
    known = (state.second >= 0) & (state.second_distance <= lists.radius)
    return np.flatnonzero(~known & (lists.radius < state.far[0]))


class Repairs:
    """Gives points that may not know their medoids the nearest ones as extra entries."""

    def __init__(self, layout: Layout, lists: Lists, state: State, plan: Plan) -> None:
        self._layout, self._lists, self._state, self._plan = layout, lists, state, plan
        self._told = np.zeros(len(layout), np.bool_)  # medoids that everybody poor knows of
        self._reverse: Reverse | None = None
        self.work = plan.work

    def reverse(self) -> Reverse:
        """Return who has each point in their list, as of the last repair."""
        if self._reverse is None:
            self._reverse = reversed_lists(self._lists)
        else:
            self._reverse = reversed_again(self._lists, self._reverse)
        return self._reverse

    def over(self) -> bool:
        """Say whether there is no time left for a step that cannot be interrupted."""
        return self.work.earlier(self._plan.grain).over()

    def run(self) -> bool:
        """Repair all lists that need it; False if there is no time for that."""
        lists, state = self._lists, self._state
        poor = uncertified(lists, state)
        if len(poor) * self._plan.repair > self.work.left():
            return False
        # Who was told of all medoids before needs to hear of new ones only, unless too many of
        # those it knew have gone.
        lost = state.second_distance[poor] > lists.reach[poor]
        done = self._tell(poor[lost], state.chosen, True) and self._tell(
            poor[~lost], state.chosen & ~self._told, False
        )
        rich = np.ones(len(state.chosen), np.bool_)
        rich[poor] = False
        lists.reach[rich] = lists.radius[rich]
        self._told = state.chosen.copy()
        return done

    def centre(self) -> int:
        """Give clusters larger than lists their best member; returns how many medoids moved."""
        lists, state = self._lists, self._state
        moved = centre_large(
            self._layout,
            state.chosen,
            state.near,
            state.near_distance,
            int(lists.exact.max()),
            self.work,
        )
        if moved:
            settle(lists, state)
        return moved

    def _tell(self, who: NDArray[np.int64], members: NDArray[np.bool_], fresh: bool) -> bool:
        if not len(who) or not members.any():
            return True
        found = nearest_among(self._layout, members, who, REPAIR, self.work)
        if found is None:
            return False
        add_extras(self._lists, self._state.chosen, who, found[0], found[1], fresh)
        return True


def thin(layout: Layout, lists: Lists, state: State, repairs: Repairs, k: int) -> None:
    """Drop medoids, cheapest first, until k are left; repair lists as medoids grow rare."""
    left = int(state.chosen.sum())
    stride = 8 * STRIDE if repairs.work.moment is None else STRIDE
    limit = layout.far / 2  # what costs that much leaves somebody without a medoid to turn to
    # While lists hold six medoids on average, few points run short; after a repair, halve.
    target = max(k, 6 * len(layout) // int(lists.exact.max()))
    while left > k:
        before = left
        if not repairs.over():
            reverse = repairs.reverse()
            while left > target and not repairs.over():
                dropped = drop(lists, reverse, state, min(left - target, stride), limit)
                left -= dropped
                if not dropped:
                    break
        if left <= k:
            return
        if not repairs.over() and not repairs.run():
            # No time to repair: go on with what lists know, and lose sight of some points.
            target, limit = k, np.inf
            continue
        if repairs.over():
            # No time to do it one by one: drop what is cheapest now.
            cheapest = np.argsort(state.removal[: len(layout)], kind="stable")[: left - k]
            state.chosen[cheapest] = False
            return
        settle(lists, state)
        limit = layout.far / 2 if left < before else np.inf
        target = max(k, min(target, left) // 2)


def improve(
    lists: Lists, state: State, repairs: Repairs, *, whole: bool = True, stirred: bool = False
) -> tuple[int, bool]:
    """Swap and repair in turns; returns the swaps, and whether the last turn ran to its end.

    Where lists are not ``whole``, but of some candidates, no others must become medoids.
    """
    swaps, finished = _turns(lists, state, repairs, whole)
    k, count = int(state.chosen.sum()), len(state.chosen)
    known = 2 * len(uncertified(lists, state)) <= count
    if not (stirred and finished and known and STIRRED[0] * k <= count <= STIRRED[1] * k):
        return swaps, finished
    kept, before = state.chosen.copy(), settle(lists, state)
    finished = _stir(lists, state, repairs)
    if finished:
        made, finished = _turns(lists, state, repairs, whole)
        swaps += made
    if state.chosen.sum() != k or settle(lists, state) > before:
        state.chosen[:] = kept
    return swaps, finished


def _stir(lists: Lists, state: State, repairs: Repairs) -> bool:
    """Double the medoids and drop as many, cheapest first; False if there was no time to.

    A way out of a poor local optimum, measured on nine pairs (three data, three seeds) middle in
    training, k/n = .2: 6e-4 of the objective for an eighth of the time. Where k is large, or most
    points do not find two medoids in their lists, it gains nothing; where k is small, the time
    is missed more.
    """
    k, others = int(state.chosen.sum()), np.flatnonzero(~state.chosen)
    state.chosen[others[np.arange(k) * len(others) // k]] = True  # evenly in spatial order
    settle(lists, state)
    reverse = repairs.reverse()
    left = k
    while left and not repairs.over():
        left -= drop(lists, reverse, state, min(left, STRIDE), np.inf)
    return not left


def _turns(lists: Lists, state: State, repairs: Repairs, whole: bool) -> tuple[int, bool]:
    swaps, before = 0, np.inf
    for turn in range(ROUNDS):
        if whole and turn and not repairs.over():
            swaps += repairs.centre()
        repaired = not repairs.over() and repairs.run()
        if repairs.over():
            return swaps, False
        total = settle(lists, state)
        # Repairing shows the last turn's true result. Stop when turns gain next to nothing.
        if repaired and total > before * (1 - ENOUGH):
            break
        before = total
        reverse = repairs.reverse()
        made, finished = _swap(lists, reverse, state, 1e-9 * total, repairs.work)
        swaps += made
        if not (finished and repaired):
            return swaps, False
        if not made or not len(uncertified(lists, state)):
            break
    return swaps, True


def _swap(
    lists: Lists, reverse: Reverse, state: State, least: float, work: Deadline
) -> tuple[int, bool]:
    """Swap until a pass over all candidates changes nothing, or as good as that.

    Only stale candidates are tried again, but a swap far away may have made some medoid cheap for
    all: so the last pass leaves nobody out, where that is what certifies the answer.
    """
    count, swaps, first = len(state.chosen), 0, 0
    while True:
        before, quiet = swaps, 0
        state.stale[:] = True
        while quiet < count:
            tries = count if work.moment is None else STRIDE
            first, quiet, made = sweep(lists, reverse, state, first, quiet, tries, least)
            swaps += made
            if work.over():
                return swaps, False
        if swaps == before or len(uncertified(lists, state)):
            return swaps, True


def _solution(
    layout: Layout, lists: Lists, state: State, swaps: int, finished: bool, deadline: Deadline
) -> Solution:
    """Find everybody's medoid for certain, as far as there is time."""
    near = state.near.copy()
    unsure = np.flatnonzero((state.near < 0) | (state.near_distance > lists.radius))
    certified = 1.0 - len(uncertified(lists, state)) / len(layout)
    near[unsure], sure = assign_places(layout, state.chosen, unsure, near[unsure], deadline)
    return layout.solution(state.chosen, near, certified, swaps, "sparse", finished and sure)
