"""The sampled path: few medoids among many points, by a few candidates a medoid, in O(n K) memory.

With k far below n a cluster outgrows a neighbour list, but not every point need be tried. Every
point lists the *candidates* nearest to it, some ten a medoid, and dropping, swapping and repairing
go on as in the sparse path. Then clusters take their best members (``ranked``), new candidates are
drawn around those and where the objective lies, until a round gains next to nothing.
"""

import numpy as np

from fedcore.coreset.medoids.geometry import LEAF
from fedcore.coreset.medoids.layout import Layout, Ranked, build_lists, ranked
from fedcore.coreset.medoids.moves import Lists, settle
from fedcore.coreset.medoids.problem import Medoids, Problem
from fedcore.coreset.medoids.sparse import Best, Search, crowded, polished, served_by
from fedcore.coreset.metric import Floats, Places

EACH = 10  # candidates a medoid,
SPARE = 100  # and so many times √k, for with very few medoids a bad place for one costs percents
VERY_FEW = 32  # medoids: up to here
STARTS = 4  # the first round is tried so often, and the last word may be with all points,
POLISHED = (1 << 40, 1_000_000_000)  # up to so many n² d: about a second's worth
FEWER = 0.6  # of the candidates are enough beyond
BEST = 8  # of a cluster's members that are candidates in the next round
ROUNDS = 5  # at most
# Of the objective: what a round must gain for another to follow, with very few medoids and beyond.
ENOUGH, ENOUGH_BEYOND = 0.02, 0.03


def searched(problem: Problem, layout: Layout, best: Best) -> Medoids:
    """Swap among candidates, centre, draw new candidates, repeat; see the module's first lines."""
    k, enough, start = problem.k, ENOUGH, best.chosen
    number = min(EACH * k + int(SPARE * k**0.5), len(layout))
    if k > VERY_FEW:
        number, enough = int(FEWER * number), ENOUGH_BEYOND
    candidates = spread_out(layout, number) | start
    tried = STARTS if k <= VERY_FEW else 1
    starts = [start] if problem.warm else crowded(layout, start, candidates, tried)
    # So many listed that a point hardly misses its second medoid.
    length = -(-min(3 * number // (2 * k) + 17, number) // 8) * 8
    swaps, before = 0, np.inf
    for _ in range(ROUNDS):
        lists = build_lists(layout, length, best.over, candidates)
        tries = [_swapped(layout, lists, start, k, best) for start in starts]
        # By costs with centred medoids: candidates off centre hide which clusters are right.
        order, distance, total, made = min(tries, key=lambda found: found[0].total)
        chosen, swaps = np.zeros(len(layout), np.bool_), swaps + made
        chosen[order.places[order.begins[:-1]]] = True
        if total > before * (1 - enough):
            break
        before, starts = order.total, [chosen]
        candidates = _around(layout, chosen, distance, order, number)
    near, total = served_by(layout, chosen)
    if best.over is not None and best.total < total:
        chosen, near = best.chosen, served_by(layout, best.chosen)[0]
    solution = layout.solution(chosen, near, "sampled", certified=0.0, swaps=swaps)
    return polished(problem, solution, best.over, *POLISHED) if k <= VERY_FEW else solution


def spread_out(layout: Layout, k: int) -> Places:
    """Mark k places by the diagonals of leaves of 64: of crowds of learnt samples around 0, few."""
    starts = np.arange(0, len(layout), LEAF)
    sizes = np.diff(np.append(starts, len(layout)))
    low = np.minimum.reduceat(layout.rows.left, starts, axis=0)
    high = np.maximum.reduceat(layout.rows.left, starts, axis=0)
    share = sizes * np.linalg.norm((high - low).astype(np.float64), axis=1) + 1e-30
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


def _swapped(
    layout: Layout, lists: Lists, start: Places, k: int, best: Best
) -> tuple[Ranked, Floats, float, int]:
    """Go down to k medoids and swap until no candidate helps: clusters, d_j, Σ_j w_j d_j, swaps."""
    lists.size[:] = lists.exact
    search = Search(layout, lists, start, best)
    search.thin(k)
    swaps = search.improve(whole=False)
    total, distance = settle(lists, search.state), search.state.near_distance
    order = ranked(layout, np.arange(len(layout)), search.nearest(best.over), distance)
    return order, distance, total, swaps


def _around(layout: Layout, chosen: Places, distance: Floats, order: Ranked, number: int) -> Places:
    """Return clusters' best members, and places at equal steps along Σ_j w_j d_j, as k-means++."""
    rank = np.arange(len(layout)) - np.repeat(order.begins[:-1], np.diff(order.begins))
    candidates = chosen.copy()
    candidates[order.places[rank <= BEST]] = True
    left = max(1, number - int(candidates.sum()))
    sums = np.cumsum(np.where(candidates, 0.0, layout.weights * distance.astype(np.float64)))
    steps = (np.arange(left) + 0.5) * (sums[-1] / left)
    candidates[np.minimum(np.searchsorted(sums, steps), len(layout) - 1)] = True
    return candidates
