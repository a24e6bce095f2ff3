"""Few medoids among many points: swaps with a few candidates a medoid, in O(n K) memory.

With k far below n a cluster outgrows a point's neighbour list, but not every point need be tried
as a medoid. Some ten *candidates* a medoid are, and every point lists the candidates nearest to
it: on such lists dropping, swapping and repairing go on as in the sparse path, with the costs of
all n points. Then each cluster takes its best member for a medoid (``centre``), new candidates
are drawn around the new medoids and where the objective still lies, and swaps begin again, until
a round gains next to nothing.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedcore.coreset.medoids.bounds import Ints
from fedcore.coreset.medoids.centre import Ranked, ranked
from fedcore.coreset.medoids.clock import Deadline
from fedcore.coreset.medoids.geometry import Floats, take_rows
from fedcore.coreset.medoids.hurry import NONE, Plan, hurried, plan_of, spread_out
from fedcore.coreset.medoids.layout import (
    Layout,
    assign_places,
    build_lists,
    layout_of,
    nearest_among,
)
from fedcore.coreset.medoids.lists import Lists
from fedcore.coreset.medoids.solution import Problem, Solution, candidate_number
from fedcore.coreset.medoids.sparse import SURPLUS, Repairs, improve, polished, thin
from fedcore.coreset.medoids.state import new_state, settle

VERY_FEW = 32  # medoids, up to which one bad place costs percents:
STARTS = 4  # then the first round is tried so often, and the last word may be with all points,
# up to so many n² d: about a second's worth. Candidates alone may leave a per cent to be found.
POLISHED = 1_000_000_000
FEWER = 0.6  # of the candidates are enough beyond
# Beyond, too, the first round's answer is but where the second begins. Of vectors as long as this,
# whose distances cost most, it sees every third point only, and so much of the candidates.
LONG, STRIDE, FEWER_AT_FIRST = 32, 3, 0.6
BEST = 8  # of a cluster's members that are candidates in the next round
ROUNDS = 5  # at most
# Of the objective: what a round must gain for another to follow. With very few medoids, beyond, and
# after a first round with some points.
ENOUGH, ENOUGH_BEYOND, ENOUGH_AFTER_SOME = 0.02, 0.03, 0.05


class Served(NamedTuple):
    """Where a round has led: medoids, and who is served by which."""

    chosen: NDArray[np.bool_]  # [n]
    near: Ints  # [n] the place of each place's medoid
    distance: Floats  # [n] to it
    total: float  # Σ_j w_j d_j, or more where the time ran out
    swaps: int
    finished: bool  # False if the time ran out


def solve_few(problem: Problem, deadline: Deadline) -> Solution:
    """Swap among candidates, centre, draw new candidates, repeat; see the module's first lines."""
    begin = time.monotonic()
    layout = layout_of(problem)
    start = layout.places(problem.start)
    number, enough = candidate_number(problem.k, len(layout)), ENOUGH
    if problem.k > VERY_FEW:
        number, enough = int(FEWER * number), ENOUGH_BEYOND
    candidates = spread_out(layout, number) | start
    length = _list_length(number, problem.k)
    plan = plan_of(layout, start, length, time.monotonic() - begin, deadline, candidates)
    starts = [start] if problem.warm else _starts(layout, start, candidates)
    everyone = np.arange(len(layout))
    served, swaps, before, finished = None, 0, np.inf, False
    some = _some_suffice(problem, deadline)
    if some:
        enough = ENOUGH_AFTER_SOME
    for turn in range(ROUNDS if plan.most != NONE else 0):
        if some and turn == 0:
            tries = [_swapped_among_some(layout, int(FEWER_AT_FIRST * number), problem.k, plan)]
        else:
            tries = _swapped(layout, candidates, starts, problem.k, length, plan)
        if not tries:
            break
        found, order = _best_centred(layout, everyone, tries, plan.work)
        served, swaps = _centred(found, order), swaps + found.swaps
        gained = found.total <= before * (1 - enough)
        finished = found.finished and (turn + 1 == ROUNDS or not gained)
        if finished or plan.work.over():
            break
        before = order.total
        starts = [served.chosen]
        candidates = _around(layout, served, order, number)
    if served is None:
        # A start that was given, or has a medoid for every label, is not to be improved upon.
        free = not problem.warm and problem.labels is None
        return hurried(layout, spread_out(layout, problem.k) if free else start, "sparse", deadline)
    near, sure = assign_places(layout, served.chosen, everyone, served.near, deadline)
    solution = layout.solution(served.chosen, near, 0.0, swaps, "sparse", finished and sure)
    width = sum(factor.shape[1] for factor in problem.rows[:2])
    few = problem.k <= VERY_FEW and len(layout) ** 2 * width <= POLISHED
    return polished(problem, solution, plan.work) if few and solution.finished else solution


def _list_length(number: int, k: int) -> int:
    """Return how many of so many candidates a point lists, lest it miss its second medoid."""
    return -(-min(3 * number // (2 * k) + 17, number) // 8) * 8


def _some_suffice(problem: Problem, deadline: Deadline) -> bool:
    """Say whether the first round may look at some of the points only."""
    wide = not len(problem.rows.norm_left) and problem.rows.left.shape[1] >= LONG
    free = not problem.warm and problem.labels is None and deadline.moment is None
    return wide and free and problem.k > VERY_FEW


def _swapped_among_some(layout: Layout, number: int, k: int, plan: Plan) -> Served:
    """Choose among every third place, which are spread evenly in space, and serve everybody.

    There is neither a deadline nor a label.
    """
    places = np.arange(0, len(layout), STRIDE)
    weights = np.add.reduceat(layout.weights, places)
    order = layout.order[places]
    rows, segments = take_rows(layout.rows, places), ((0, len(places)),)
    some = replace(layout, order=order, rows=rows, weights=weights, segments=segments)
    start = np.zeros(len(places), np.bool_)
    start[np.argsort(order)[:k]] = True  # the problem's order is random
    candidates = spread_out(some, number) | start
    starts = _starts(some, start, candidates)
    (found,) = _swapped(some, candidates, starts, k, _list_length(number, k), plan)
    chosen = np.zeros(len(layout), np.bool_)
    chosen[places[found.chosen]] = True
    nearest = nearest_among(layout, chosen, np.arange(len(layout)), 1, plan.work)
    assert nearest is not None  # there was no deadline
    near, distance = nearest[0][:, 0].copy(), nearest[1][:, 0].copy()
    near[chosen] = np.flatnonzero(chosen)
    total = float(layout.weights.astype(np.float64) @ distance)
    return Served(chosen, near, distance, total, found.swaps, True)


def _starts(
    layout: Layout, start: NDArray[np.bool_], candidates: NDArray[np.bool_]
) -> list[NDArray[np.bool_]]:
    """Return the start with some of the candidates added, in the problem's random order.

    With very few medoids one bad place costs percents: then there are several such starts.
    """
    others = np.flatnonzero(candidates & ~start)
    others = others[np.argsort(layout.order[others])]
    surplus = int(SURPLUS * len(others))
    starts = []
    for turn in range(STARTS if start.sum() <= VERY_FEW else 1):
        chosen = start.copy()
        chosen[others[turn * surplus : (turn + 1) * surplus]] = True
        starts.append(chosen)
    return starts


def _swapped(
    layout: Layout,
    candidates: NDArray[np.bool_],
    starts: list[NDArray[np.bool_]],
    k: int,
    length: int,
    plan: Plan,
) -> list[Served]:
    """Go down to k medoids and swap until no candidate helps, from every start there is time for.

    None of them if there is no time for lists.
    """
    lists = build_lists(layout, length, plan.work, plan.most, candidates)
    tries: list[Served] = []
    if lists is None:
        return tries
    for start in starts:
        if tries and plan.work.over():
            return [tries[0]._replace(finished=False), *tries[1:]]
        lists.size[:] = lists.exact
        lists.reach[:] = lists.radius
        tries.append(_swapped_from(layout, lists, start, k, plan))
    return tries


def _best_centred(
    layout: Layout, everyone: NDArray[np.int64], tries: list[Served], work: Deadline
) -> tuple[Served, Ranked]:
    """Return what is best once its clusters have their best members for medoids.

    Before that, candidates that happen to lie off centre hide which clusters are the right ones.
    """
    best = None
    for found in tries:
        order = ranked(layout, everyone, found.near, found.distance, work)
        if best is None or order.total < best[1].total:
            best = found, order
        if work.over():
            break
    assert best is not None  # there is at least one try
    return best


def _swapped_from(
    layout: Layout, lists: Lists, start: NDArray[np.bool_], k: int, plan: Plan
) -> Served:
    state = new_state(start.copy(), layout.weights, layout.far)
    settle(lists, state)
    repairs = Repairs(layout, lists, state, plan)
    thin(layout, lists, state, repairs, k)
    swaps, finished = improve(lists, state, repairs, whole=False)
    total = settle(lists, state)
    near = state.near.copy()
    unsure = np.flatnonzero((near < 0) | (state.near_distance > lists.radius))
    near[unsure], sure = assign_places(layout, state.chosen, unsure, near[unsure], plan.work)
    return Served(state.chosen, near, state.near_distance, total, swaps, finished and sure)


def _centred(served: Served, order: Ranked) -> Served:
    """Give each cluster the best of its members for a medoid."""
    first = order.places[order.begins[:-1]]
    chosen = np.zeros(len(served.chosen), np.bool_)
    chosen[first] = True
    near = np.empty_like(served.near)
    near[order.places] = np.repeat(first, np.diff(order.begins))
    return served._replace(chosen=chosen, near=near)


def _around(layout: Layout, served: Served, order: Ranked, number: int) -> NDArray[np.bool_]:
    """Return new candidates: the best members of each cluster, then where the objective lies.

    Those come at equal steps along Σ_j w_j d_j in spatial order, which is drawing in proportion
    to the distance, as k-means++ does, but evenly and without chance.
    """
    sizes = np.diff(order.begins)
    rank = np.arange(len(layout)) - np.repeat(order.begins[:-1], sizes)
    candidates = served.chosen.copy()
    candidates[order.places[rank <= BEST]] = True
    left = max(1, number - int(candidates.sum()))
    weight = np.where(candidates, 0.0, layout.weights * served.distance.astype(np.float64))
    sums = np.cumsum(weight)
    steps = (np.arange(left) + 0.5) * (sums[-1] / left)
    candidates[np.minimum(np.searchsorted(sums, steps), len(layout) - 1)] = True
    return candidates
