"""The sparse path: k-medoids on neighbour lists, memory O(n K) instead of O(n²).

Begin with more medoids than wanted and drop the cheapest until k are left; swap until no swap
helps; give points whose list holds fewer than two medoids their nearest ones as extra entries, and
swap again: thousands of trained gradients crowd around 0, and lists there do not reach out.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from fedcore.coreset.medoids import moves
from fedcore.coreset.medoids.exact import MOST_SWAPS, solve_exact
from fedcore.coreset.medoids.layout import Layout, build_lists, layout_of, nearest_among, ranked
from fedcore.coreset.medoids.moves import EXTRAS, Lists, State, Tables, settle
from fedcore.coreset.medoids.problem import Medoids, Over, Problem, TimeUp
from fedcore.coreset.metric import Floats, Indices, Ints, Places

ROUNDS = 20  # of repairing and swapping, at most
SURPLUS = 0.2  # of the other points are medoids too when dropping begins
# n, and n² d, up to which the last word is with all n² distances: beyond, that takes as long as all
# else for a ten thousandth of the objective.
POLISHED = (1200, 90_000_000)
STIRRED = (4, 10)  # n / k between these: medoids are stirred
ENOUGH = 5e-4  # of the objective: what a turn must gain for another to follow
STRIDE = 512  # candidates between two looks at the clock


def list_length(count: int, k: int) -> int:
    """Return K: the second medoid is some 2 n / k neighbours away; less where k is small."""
    short = max(32, 3 * count // (2 * k) + 17)
    return -(-min(3 * count // k + 17, short) // 8) * 8


@dataclass(slots=True)
class Best:
    """The best medoids whose objective is known for certain: the answer when the time is up."""

    chosen: Places
    total: float
    over: Over  # the clock; without one nobody asks

    def note(self, chosen: Places, total: float) -> None:
        """Remember these if they are better."""
        if total < self.total:
            self.chosen, self.total = chosen.copy(), total

    def look(self) -> None:
        """Look at the clock, and end all if the time is up."""
        if self.over is not None and self.over():
            raise TimeUp


def best_in_time(
    problem: Problem, over: Over, path: str, search: Callable[[Problem, Layout, Best], Medoids]
) -> Medoids:
    """Search from the start; the best so far is the answer if the time is up before the end."""
    layout = layout_of(problem)
    start = layout.places(problem.start)
    best = Best(start, np.inf if over is None else served_by(layout, start)[1], over)
    try:
        return search(problem, layout, best)
    except TimeUp:
        near = served_by(layout, best.chosen)[0]
        return layout.solution(best.chosen, near, path, certified=0.0, finished=False)


def polished(problem: Problem, solution: Medoids, over: Over, points: int, numbers: int) -> Medoids:
    """Make sure that no swap helps by all distances, up to so many points, and n² d numbers."""
    count, width = len(problem.weights), sum(factor.shape[1] for factor in problem.rows[:2])
    if count > points or count**2 * width > numbers:
        return solution
    better = solve_exact(replace(problem, start=solution.indices), over)
    return replace(better, swaps=solution.swaps + better.swaps, path=solution.path)


def served_by(layout: Layout, chosen: Places) -> tuple[Ints, float]:
    """Return everybody's nearest medoid, for certain, and Σ_j w_j d_j."""
    near, distances = nearest_among(layout, chosen, np.arange(len(layout)), 1)
    return near[:, 0], float(layout.weights.astype(np.float64) @ distances[:, 0])


def searched(problem: Problem, layout: Layout, best: Best) -> Medoids:
    """Drop, swap, repair, repeat; see the module's first lines."""
    lists = build_lists(layout, list_length(len(layout), problem.k), best.over)
    chosen = best.chosen
    if not problem.warm:
        (chosen,) = crowded(layout, chosen, np.ones_like(chosen), 1)
    search = Search(layout, lists, chosen, best)
    search.thin(problem.k)
    # A warm start is near its optimum already; leaving it again would cost what it saves.
    swaps = search.improve(stirred=not problem.warm)
    if best.over is not None:
        search.repair()
        best.note(search.state.chosen, settle(lists, search.state))
        search.state.chosen[:] = best.chosen
    settle(lists, search.state)
    certified = 1.0 - len(search.uncertified()) / len(layout)
    found = search.state.chosen, search.nearest(None)
    solution = layout.solution(*found, "sparse", certified=certified, swaps=swaps)
    return solution if certified == 1.0 else polished(problem, solution, best.over, *POLISHED)


def crowded(layout: Layout, start: Places, candidates: Places, number: int) -> list[Places]:
    """Return starts with some of the other candidates added, different ones each.

    The problem's points come in random order. Beginning with all of them as medoids is a little
    worse where k is large, beginning with k at random where k is small.
    """
    others = np.flatnonzero(candidates & ~start)
    others = others[np.argsort(layout.order[others])]
    starts, surplus = np.tile(start, (number, 1)), int(SURPLUS * len(others))
    for turn, chosen in enumerate(starts):
        chosen[others[turn * surplus : (turn + 1) * surplus]] = True
    return list(starts)


def new_state(chosen: Places, weights: Floats, far: float) -> State:
    """Return a state with these medoids; ``settle`` fills it."""
    count = len(chosen)
    leaves = max(2, 1 << (count - 1).bit_length())
    near, second, touched = np.empty((3, count), np.int32)
    near_distance, second_distance = np.empty((2, count), np.float32)
    assigned = (near, second, near_distance, second_distance)
    removal, tree = np.empty(leaves, np.float64), np.empty(2 * leaves, np.int32)
    stale, gain = np.ones(count, np.bool_), np.zeros(count, np.float64)
    hits, border = np.empty(count + 1, np.int64), np.full(1, far, np.float32)
    return State(chosen, *assigned, weights, removal, tree, stale, gain, touched, hits, border)


class Search:
    """A local search on lists: who serves whom, and what points know of medoids."""

    def __init__(self, layout: Layout, lists: Lists, chosen: Places, best: Best) -> None:
        self.layout, self.lists, self._best = layout, lists, best
        self.state = new_state(chosen.copy(), layout.weights, layout.far)
        self._listed_by = moves.who_lists(lists, np.zeros_like(lists.exact), lists.exact)
        settle(lists, self.state)

    def _reverse(self) -> Tables:
        """Return who lists each point; repairs change nothing but extras."""
        return self._listed_by, moves.who_lists(self.lists, self.lists.exact, self.lists.size)

    def uncertified(self) -> Indices:
        """Return the points without two medoids inside the radius of their list."""
        lists, state = self.lists, self.state
        known = (state.second >= 0) & (state.second_distance <= lists.radius)
        return np.flatnonzero(~known & (lists.radius < state.far[0]))

    def nearest(self, over: Over) -> Ints:
        """Return everybody's nearest medoid, for certain."""
        near = self.state.near.copy()
        unsure = np.flatnonzero((near < 0) | (self.state.near_distance > self.lists.radius))
        near[unsure] = nearest_among(self.layout, self.state.chosen, unsure, 1, over)[0][:, 0]
        return near

    def repair(self) -> None:
        """Give points that may not know their medoids the nearest ones as extra entries."""
        poor = self.uncertified()
        if len(poor):
            found = nearest_among(self.layout, self.state.chosen, poor, EXTRAS, self._best.over)
            moves.add_extras(self.lists, poor, *found)

    def thin(self, k: int) -> None:
        """Drop medoids, cheapest first, until k are left; repair lists as medoids grow rare."""
        lists, state, far = self.lists, self.state, self.layout.far
        left = int(state.chosen.sum())
        limit = far / 2  # what costs that much leaves somebody without a medoid to turn to
        # While lists hold six medoids on average, few points run short; after a repair, halve.
        target = max(k, 6 * len(self.layout) // int(lists.exact.max()))
        while left > k:
            before, reverse, dropped = left, self._reverse(), 1
            while left > target and dropped:
                self._best.look()
                dropped = moves.drop(lists, reverse, state, min(left - target, 8 * STRIDE), limit)
                left -= dropped
            if left <= k:
                return
            self.repair()
            settle(lists, state)
            limit = far / 2 if left < before else np.inf
            target = max(k, min(target, left) // 2)

    def improve(self, *, whole: bool = True, stirred: bool = False) -> int:
        """Swap and repair in turns; returns the swaps. Lists not ``whole`` are of candidates."""
        lists, state = self.lists, self.state
        swaps = self._turns(whole)
        k, count = int(state.chosen.sum()), len(state.chosen)
        known = 2 * len(self.uncertified()) <= count
        if stirred and known and STIRRED[0] * k <= count <= STIRRED[1] * k:
            kept, before = state.chosen.copy(), settle(lists, state)
            self._stir(k)
            swaps += self._turns(whole)
            if settle(lists, state) > before:
                state.chosen[:] = kept
        return swaps

    def _stir(self, k: int) -> None:
        """Double the medoids and drop as many, cheapest first: a way out of a poor local optimum.

        6e-4 of the objective for an eighth of the time at k/n = .2 in the middle of training (nine
        pairs of data and seed); nothing where k is large or most points find no two medoids listed.
        """
        others = np.flatnonzero(~self.state.chosen)
        self.state.chosen[others[np.arange(k) * len(others) // k]] = True  # evenly in space
        settle(self.lists, self.state)
        reverse = self._reverse()
        while k:
            self._best.look()
            k -= moves.drop(self.lists, reverse, self.state, min(k, STRIDE), np.inf)

    def _turns(self, whole: bool) -> int:
        swaps, before = 0, np.inf
        for turn in range(ROUNDS):
            if whole and turn:
                swaps += self._centre_large()
            self.repair()
            total = settle(self.lists, self.state)
            # Repairing shows the last turn's true result. Stop when turns gain next to nothing.
            self._best.note(self.state.chosen, total)
            self._best.look()
            if total > before * (1 - ENOUGH):
                break
            before = total
            # What is less is rounding, of the sum or of the largest distance.
            made = self._swap(max(1e-9 * total, 1e-14 * self.layout.far))
            swaps += made
            if not made or not len(self.uncertified()):
                break
        return swaps

    def _swap(self, least: float) -> int:
        """Swap until a last pass over all candidates, nobody left out, changes next to nothing."""
        state, reverse = self.state, self._reverse()
        count, swaps, first = len(state.chosen), 0, 0
        tries = count if self._best.over is None else STRIDE
        while True:
            before, quiet = swaps, 0
            state.stale[:] = True
            while quiet < count and swaps <= MOST_SWAPS * count:
                turn = first, quiet, tries, least
                first, quiet, made = moves.sweep(self.lists, reverse, state, *turn)
                swaps += made
                self._best.look()
            if swaps == before or swaps > MOST_SWAPS * count or len(self.uncertified()):
                return swaps

    def _centre_large(self) -> int:
        """Give clusters larger than lists their best member; returns how many medoids moved."""
        near, chosen = self.state.near, self.state.chosen
        sizes = np.bincount(near[near >= 0], minlength=len(self.layout))
        who = np.flatnonzero((near >= 0) & (sizes[near] > int(self.lists.exact.max())))
        if not len(who):
            return 0
        order = ranked(self.layout, who, near, self.state.near_distance)
        best = order.places[order.begins[:-1]]
        moved = int((near[best] != best).sum())
        chosen[near[best]] = False
        chosen[best] = True
        if moved:
            settle(self.lists, self.state)
        return moved
