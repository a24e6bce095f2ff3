"""The doors between Python and compiled loops: what a call without a clock enters, in one place.

Each is compiled together with what it calls; see the module it is taken from.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedcore.compiled import compiled
from fedcore.coreset.medoids import (
    centre,
    hashing,
    lists,
    moves,
    products,
    search,
    spatial,
    state,
    swaps,
)
from fedcore.coreset.medoids.geometry import Floats, Ints, Leaves, Rows
from fedcore.coreset.medoids.lists import Lists, Reverse
from fedcore.coreset.medoids.search import Index
from fedcore.coreset.medoids.source import Source
from fedcore.coreset.medoids.state import State

Indices = NDArray[np.int64]
Places = NDArray[np.bool_]
Doubles = NDArray[np.float64]


@compiled
def add_words(keys: Indices, values: Floats, factors: Indices) -> None:
    """Hash rows; see ``hashing``."""
    hashing.add_words_compiled(keys, values, factors)


@compiled
def swap_to_the_end(
    source: Source, start: Indices, weights: Floats
) -> tuple[Indices, Indices, int]:
    """Swap until no swap helps; see ``swaps``."""
    return swaps.swap_to_the_end(source, start, weights)


@compiled
def spatial_order(points: Floats) -> Indices:
    """Return an order in which neighbours stand together; see ``spatial``."""
    return spatial.spatial_order(points)


@compiled
def nearest_by_leaves(
    rows: Rows, queries: Indices, index: Index, points: Ints, distances: Floats, own: bool
) -> None:
    """Fill in the nearest points; see ``search``."""
    search.nearest_by_leaves(rows, queries, index, points, distances, own)


@compiled
def nearest_by_products(
    rows: Rows,
    queries: Indices,
    names: Ints,
    norms: Floats,
    inner: Floats,
    slack: np.float32,
    points: Ints,
    distances: Floats,
    own: bool,
) -> None:
    """Fill in the nearest points; see ``products``."""
    products.nearest_by_products(rows, queries, names, norms, inner, slack, points, distances, own)


@compiled
def fill_lists(
    known: Lists, first: int, found: Ints, distances: Floats, complete: bool, far: float
) -> None:
    """Write lists; see ``lists``."""
    lists.fill_lists(known, first, found, distances, complete, far)


@compiled
def add_extras(
    known: Lists, chosen: Places, rows: Indices, found: Ints, distances: Floats, fresh: bool
) -> None:
    """Put medoids behind lists; see ``lists``."""
    lists.add_extras(known, chosen, rows, found, distances, fresh)


@compiled
def who_lists(known: Lists, begins: Ints, ends: Ints) -> tuple[Indices, Ints, Floats]:
    """Return who lists each point; see ``lists``."""
    return lists.who_lists(known, begins, ends)


@compiled
def new_state(chosen: Places, weights: Floats, far: float) -> State:
    """Return a state with these medoids; see ``state``."""
    return state.new_state(chosen, weights, far)


@compiled
def settle(known: Lists, served: State) -> float:
    """Find everybody's medoids; see ``state``."""
    return state.settle(known, served)


@compiled
def drop(known: Lists, reverse: Reverse, served: State, number: int, limit: float) -> int:
    """Drop the cheapest medoids; see ``moves``."""
    return moves.drop(known, reverse, served, number, limit)


@compiled
def sweep(
    known: Lists, reverse: Reverse, served: State, first: int, quiet: int, tries: int, least: float
) -> tuple[int, int, int]:
    """Swap where that helps; see ``moves``."""
    return moves.sweep(known, reverse, served, first, quiet, tries, least)


@compiled
def member_costs(
    rows: Rows, leaves: Leaves, weights: Floats, begins: Indices, most: int, out: Doubles
) -> None:
    """Weigh members as medoids of their clusters; see ``centre``."""
    centre.member_costs(rows, leaves, weights, begins, most, out)
