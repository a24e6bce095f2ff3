"""What fits into a wall-clock budget, and what to answer when next to nothing does.

Costs are measured where they arise: on a few hundred of the points at hand, before all of them
are begun with. Three things can be given up, one after the other: the exactness of neighbour
lists (only a few leaves around a point are searched), the lists themselves (medoids are then
spread over the leaves in proportion to their extent), and the exactness of the assignment (a
point then has the best of 64 medoids that stand about where it does).
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedcore.coreset.medoids.bounds import index_of
from fedcore.coreset.medoids.clock import Deadline
from fedcore.coreset.medoids.geometry import LEAF
from fedcore.coreset.medoids.layout import Layout, assign_places, layout_of
from fedcore.coreset.medoids.neighbours import EVERY, nearest
from fedcore.coreset.medoids.solution import Problem, Solution

NONE = 0
# Leaves searched around each run of 64 points: exact lists, then ever cheaper ones; and what must
# be left for the steps after, in times of what the layout took (measured: 5 until the first
# swap, 12 more for all of them).
LEAVES = ((EVERY, 10.0), (16, 10.0), (4, 10.0))
SAMPLE = 4  # runs of 64 points that are timed


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do with the time there is."""

    most: int  # leaves to search for a list; NONE if there is no time for lists
    work: Deadline  # when only the answer is left to be put together
    repair: float  # seconds to find a point's nearest medoids
    grain: float  # seconds of the longest step that cannot be interrupted


def plan_of(
    layout: Layout,
    members: NDArray[np.bool_],
    length: int,
    spent: float,
    deadline: Deadline,
    among: NDArray[np.bool_] | None = None,
) -> Plan:
    """Choose the best lists for which there is time, of all places or of those ``among`` them.

    ``spent`` are the seconds that the layout took. It reads and writes all points a few times,
    as do the steps that cannot be interrupted, so it is their measure.
    """
    if deadline.moment is None:
        return Plan(EVERY, deadline, 0.0, 0.0)
    if deadline.left() < 12.0 * spent:
        return Plan(NONE, deadline, 0.0, 0.0)  # not even time to measure
    count = len(layout)
    listed = np.arange(count) if among is None else np.flatnonzero(among)
    begins = np.linspace(0, max(0, count - LEAF), SAMPLE).astype(np.int64)
    sample = np.unique((begins[:, None] + np.arange(LEAF)).clip(max=count - 1))
    scale = 1.2 * count / len(sample) / layout.threads
    medoids = index_of(layout.rows, np.flatnonzero(members))
    nearest(layout.rows, sample[:1], medoids, 1, keep_own=True)  # compiles, if it must
    begin = time.monotonic()
    nearest(layout.rows, sample, medoids, 1, keep_own=True)
    assigning = scale * (time.monotonic() - begin)
    # The assignment gets what it needs, but no more than a fifth: it can be cut short.
    work = deadline.earlier(1.5 * spent + min(assigning, 0.2 * deadline.left()))
    index = index_of(layout.rows, listed)
    for most, after in LEAVES:
        begin = time.monotonic()
        nearest(layout.rows, sample, index, min(length, count) - 1, most=most)
        building = scale * (time.monotonic() - begin)
        if work.left() > building + after * spent:
            return Plan(most, work, 1.5 * assigning / count, spent)
    return Plan(NONE, work, 0.0, 0.0)


def spread_out(layout: Layout, k: int) -> NDArray[np.bool_]:
    """Mark k places: leaves of 64 get shares in proportion to the length of their diagonal.

    Thousands of learnt samples crowd around 0 in few and tiny leaves: medoids drawn at random
    would lie there, where they save nothing.
    """
    starts = np.arange(0, len(layout), LEAF)
    sizes = np.diff(np.append(starts, len(layout)))
    if len(layout.rows.norm_left):
        extent = index_of(layout.rows, np.arange(len(layout))).radius.astype(np.float64)
    else:
        low = np.minimum.reduceat(layout.rows.left, starts, axis=0)
        high = np.maximum.reduceat(layout.rows.left, starts, axis=0)
        extent = np.linalg.norm((high - low).astype(np.float64), axis=1)
    share = sizes * extent + 1e-30
    # One each, lest a crowd around 0 be served from afar; lists mean that k is enough for that.
    given = 1 + np.floor(max(0, k - len(starts)) * share / share.sum()).astype(np.int64)
    given = np.minimum(sizes, given)
    if given.sum() > k:
        given[:] = 0
    chosen = np.zeros(len(layout), np.bool_)
    leaf = np.repeat(np.arange(len(starts)), given)
    turn = np.arange(len(leaf)) - np.repeat(np.cumsum(given) - given, given)
    chosen[starts[leaf] + turn * sizes[leaf] // given[leaf]] = True
    others = np.flatnonzero(~chosen)
    left = k - int(chosen.sum())
    chosen[others[np.arange(left) * len(others) // max(left, 1)]] = True
    return chosen


def hurried(layout: Layout, chosen: NDArray[np.bool_], path: str, deadline: Deadline) -> Solution:
    """Return these medoids, and the assignment there is time for."""
    unknown = np.full(len(layout), -1, np.int32)
    near, _ = assign_places(layout, chosen, np.arange(len(layout)), unknown, deadline)
    return layout.solution(chosen, near, 0.0, 0, path, False)


def solve_hurried(problem: Problem, deadline: Deadline) -> Solution:
    """Return the problem's start as it is: there is no time to look at all pairs even once."""
    layout = layout_of(problem)
    return hurried(layout, layout.places(problem.start), "exact", deadline)
