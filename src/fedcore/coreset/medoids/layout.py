"""Points as compiled loops want them: rows and leaves, near ones together, and an index."""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedcore.coreset.medoids import kernels
from fedcore.coreset.medoids.geometry import LEAF, Leaves
from fedcore.coreset.medoids.moves import EXTRAS, Lists
from fedcore.coreset.medoids.problem import Medoids, Over, Problem, Rows, TimeUp
from fedcore.coreset.medoids.search import Index, Products
from fedcore.coreset.metric import Floats, Indices, Ints, Places

LINE = 64  # bytes that the processor reads at a time
LONG = 128  # coordinates above which matrix products find neighbours faster than leaves (measured)
QUERIES = 256  # that are searched for at a time by matrix products
MUTUAL = 8_192  # points whose products are all kept while they search each other: 256 MB
TRIED = 256  # members of a cluster as its medoid, at most,
WIDE = 32  # or so much less as vectors are longer than this
NOTHING, NO_FACTOR = np.zeros(0, np.float32), np.zeros((0, 0), np.float32)
NO_LEAVES = np.zeros((0, 0, 0), np.float32)
Searched = Index | Products


def rows_of(factors: list[Floats], *, bias: bool = False) -> Rows:
    """Return a metric's float32 factors, scaled by powers of two so that no square is too large."""
    left = _scaled(factors[0])
    if len(factors) == 1:
        norms = _squared_norms(left) if left.shape[1] > LONG else NOTHING
        return Rows(left, NO_FACTOR, NOTHING, NOTHING, norms)
    inputs = factors[1]
    if bias:  # the constant 1 must shrink with the inputs; as a column, it does
        inputs = np.column_stack((inputs, np.ones(len(inputs), np.float32)))
    right = _scaled(inputs)
    norm_left, norm_right = _squared_norms(left), _squared_norms(right)
    return Rows(left, right, norm_left, norm_right, norm_left * norm_right)


def _squared_norms(values: Floats) -> Floats:
    norms: Floats = np.einsum("ij,ij->i", values, values)
    return norms


def _scaled(values: Floats) -> Floats:
    count, width = values.shape
    rows = np.zeros((count, max(width, 1)), np.float32)
    largest = float(max(values.max(initial=0.0), -values.min(initial=0.0)))
    # A power of two, so that scaling is exact.
    np.ldexp(values, -math.frexp(largest)[1], out=rows[:, :width])
    return rows


def take_rows(rows: Rows, order: NDArray[np.integer]) -> Rows:
    """Return some of the points, in the given order."""
    return Rows(*(values[order] if len(values) else values for values in rows))


def leaves_of(rows: Rows) -> Leaves:
    """Lay the points out in leaves of 64 consecutive ones."""
    if not len(rows.right):
        return Leaves(_blocks(rows.left), NO_LEAVES, NO_FACTOR, NO_FACTOR)
    norms = (_blocks(norms[:, None])[:, 0] for norms in (rows.norm_left, rows.norm_right))
    return Leaves(_blocks(rows.left), _blocks(rows.right), *norms)


def _blocks(values: Floats) -> Floats:
    count, width = values.shape
    blocks = -(-count // LEAF)
    # Begins where a vector register can read it in one go.
    room = np.empty(blocks * width * LEAF + LINE // 4, np.float32)
    begin = -room.ctypes.data % LINE // 4
    turned = room[begin : begin + blocks * width * LEAF].reshape(blocks, width, LEAF)
    whole = count // LEAF
    turned[:whole] = values[: whole * LEAF].reshape(whole, LEAF, width).transpose(0, 2, 1)
    if whole < blocks:
        turned[whole] = 0.0
        turned[whole, :, : count - whole * LEAF] = values[whole * LEAF :].T
    return turned


@dataclass(frozen=True, slots=True)
class Layout:
    """The points of a problem where near ones stand together; *places* count from here on."""

    order: Indices  # [n] which point of the problem stands in a place
    rows: Rows
    weights: Floats
    segments: tuple[tuple[int, int], ...]  # where each label begins and ends
    far: float  # no less than any distance

    def __len__(self) -> int:
        return len(self.order)

    def places(self, points: Indices) -> Places:
        """Mark the places where ``points`` of the problem stand."""
        marked = np.zeros(len(self), np.bool_)
        marked[points] = True
        return marked[self.order]

    def solution(self, chosen: Places, near: Ints, path: str, **found: Any) -> Medoids:
        """Go back from places to points; ``near`` [n] is the place of each place's medoid."""
        names = np.sort(self.order[chosen])
        owner = np.empty(len(self), np.int64)
        owner[self.order] = self.order[near]
        return Medoids(names, np.searchsorted(names, owner), path, **found)


def layout_of(problem: Problem) -> Layout:
    """Sort the points so that runs of 64 lie together, inside their label if there are labels."""
    rows, labels = problem.rows, problem.labels
    names = np.zeros(len(rows.left), np.int64) if labels is None else labels
    parts = [np.flatnonzero(names == name) for name in np.unique(names)]
    # No search needs the order of long vectors: some coordinates will do.
    leading = np.ascontiguousarray(rows.left[:, :WIDE]) if rows.left.shape[1] > LONG else rows.left
    order = np.concatenate([part[kernels.spatial_order(leading[part])] for part in parts])
    ends = np.cumsum([len(part) for part in parts]).tolist()
    squared = rows.norms if len(rows.norms) else _squared_norms(rows.left)
    far = 2.001 * float(np.sqrt(squared.max())) + 1e-30
    if labels is not None:
        far *= 2 * len(order)  # a label without a medoid must cost more than all else together
    segments = tuple(zip([0, *ends[:-1]], ends, strict=True))
    return Layout(order, take_rows(rows, order), problem.weights[order], segments, far)


def index_of(rows: Rows, names: NDArray[np.integer]) -> Searched:
    """Prepare the points called ``names`` (positions in ``rows``, ascending) to be searched."""
    chosen = take_rows(rows, names)
    if len(rows.norms):
        return Products(names.astype(np.int32), chosen)
    starts = np.arange(0, len(names), LEAF)
    low = np.ascontiguousarray(np.minimum.reduceat(chosen.left, starts, axis=0).T)
    high = np.ascontiguousarray(np.maximum.reduceat(chosen.left, starts, axis=0).T)
    return Index(_blocks(chosen.left), names.astype(np.int32), low, high)


def nearest(
    rows: Rows, queries: Indices, index: Searched, k: int, keep_own: bool = False, over: Over = None
) -> tuple[Ints, Floats]:
    """Return each query's k nearest points of ``index``, [m, k] names and distances, sorted.

    Queries are positions in ``rows``, best in spatial order; −1 fills up what is missing. A query
    is its own neighbour only with ``keep_own``. Raises ``TimeUp`` when ``over`` says so.
    """
    points = np.empty((len(queries), k), np.int32)
    distances = np.empty((len(queries), k), np.float32)
    size = LEAF if isinstance(index, Index) else QUERIES
    # Among themselves, ⟨x, y⟩ is ⟨y, x⟩: half of the products do, as far as all can be kept.
    mutual = len(index.names) <= MUTUAL and np.array_equal(queries, index.names)
    kept = np.empty((len(queries),) * 2 if mutual and size == QUERIES else (0, 0), np.float32)
    for begin in range(0, len(queries), size):
        if over is not None and over():
            raise TimeUp
        part = slice(begin, begin + size)
        some, found = queries[part], (points[part], distances[part])
        if isinstance(index, Index):
            kernels.nearest_by_leaves(rows, some, index, found, keep_own)
        else:
            known = begin if len(kept) else 0
            products = rows.left[some] @ index.rows.left[known:].T
            if rows.right.shape[1]:
                products *= rows.right[some] @ index.rows.right[known:].T
            if len(kept):
                kept[part, begin:], kept[begin:, part] = products, products.T
                products = kept[part]
            kernels.nearest_by_products(rows, some, index, products, found, keep_own)
    return points, distances


def build_lists(layout: Layout, length: int, over: Over, among: Places | None = None) -> Lists:
    """Return every point's list of ``length``; with ``among``, of itself and those places alone."""
    count, length = len(layout), min(length, len(layout))
    shape, radius = (count, length + EXTRAS), np.empty(count, np.float32)
    names, away = np.empty(shape, np.int32), np.empty(shape, np.float32)
    exact, size = np.empty((2, count), np.int32)
    lists = Lists(names, away, exact, size, radius)
    # In pieces, so that what the search returns is never in memory beside all of the lists.
    for begin, end in layout.segments:
        inside = np.arange(begin, end)
        if among is not None:
            inside = inside[among[begin:end]]
        complete = len(inside) + (among is not None) <= length
        index = index_of(layout.rows, inside)
        for first in range(begin, end, 8192):
            queries = np.arange(first, min(first + 8192, end))
            found = nearest(layout.rows, queries, index, length - 1, False, over)
            part, known = slice(first, first + len(queries)), (found[0] >= 0).sum(1)
            lists.points[part, 0], lists.points[part, 1:length] = queries, found[0]
            lists.distances[part, 0], lists.distances[part, 1:length] = 0.0, found[1]
            lists.exact[part] = lists.size[part] = 1 + known
            # A list that holds everybody has no border.
            lists.radius[part] = layout.far if complete else lists.distances[queries, known]
    return lists


def nearest_among(
    layout: Layout, members: Places, queries: Indices, number: int, over: Over = None
) -> tuple[Ints, Floats]:
    """Return the ``number`` nearest ``members`` of ascending places, each in its label; or −1."""
    points = np.full((len(queries), number), -1, np.int32)
    distances = np.zeros((len(queries), number), np.float32)
    for begin, end in layout.segments:
        low, high = np.searchsorted(queries, [begin, end])
        inside = begin + np.flatnonzero(members[begin:end])
        if low == high or not len(inside):
            continue
        index = index_of(layout.rows, inside)
        found = nearest(layout.rows, queries[low:high], index, number, True, over)
        points[low:high], distances[low:high] = found
    return points, distances


class Ranked(NamedTuple):
    """Places cluster by cluster, and in each the best medoid first."""

    places: Indices  # [n]
    begins: Indices  # [clusters + 1] where each cluster begins in ``places``
    total: float  # Σ of all clusters' costs with their best medoids


def ranked(layout: Layout, who: Indices, near: Ints, distance: Floats) -> Ranked:
    """Order clusters' members, places ``who``, by what they cost as its medoid."""
    # A medoid stands first in its own cluster even where others lie at distance 0.
    away = np.where(near[who] == who, np.float32(-1.0), distance[who])
    places = who[np.lexsort((away, near[who]))]
    begins = np.append(np.flatnonzero(np.diff(near[places], prepend=-1)), len(who))
    rows, costs = take_rows(layout.rows, places), np.full(len(who), np.inf)
    most = max(16, min(TRIED, TRIED * WIDE // (rows.left.shape[1] + rows.right.shape[1])))
    kernels.member_costs(rows, leaves_of(rows), layout.weights[places], begins, 0, most, costs)
    cluster = np.repeat(np.arange(len(begins) - 1), np.diff(begins))
    order = np.lexsort((costs, cluster))  # stable: what was not tried stays by distance
    return Ranked(places[order], begins, float(costs[order][begins[:-1]].sum()))
