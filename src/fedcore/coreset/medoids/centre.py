"""The best medoid of a cluster, by trying its members: Σ_{j in cluster} w_j d(c, j) for each c.

Swaps weigh a new medoid against all others but know it only through lists; this step knows one
cluster only, but all of its distances, and costs Σ (cluster size)² of them: n² / k where clusters
are alike. Late in training one cluster may hold most points, so of each only the members nearest
to its medoid are tried.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedcore.compiled import compiled
from fedcore.coreset.medoids.bounds import Ints
from fedcore.coreset.medoids.clock import Deadline
from fedcore.coreset.medoids.geometry import (
    FAR,
    LEAF,
    Floats,
    Leaves,
    Rows,
    leaves_of,
    squared_to_leaf,
    take_rows,
)
from fedcore.coreset.medoids.layout import Layout

TRIED = 256  # members of a cluster, at most,
WIDE = 32  # or so much less as vectors are longer than this
PIECE = 1 << 20  # distances between two looks at the clock


class Ranked(NamedTuple):
    """Places cluster by cluster, and in each the best medoid first."""

    places: NDArray[np.int64]  # [n]
    begins: NDArray[np.int64]  # [clusters + 1] where each cluster begins in ``places``
    costs: NDArray[np.float64]  # [n] of the cluster with this place as its medoid; inf: not tried

    @property
    def total(self) -> float:
        """Σ of all clusters' costs with their best medoids."""
        return float(self.costs[self.begins[:-1]].sum())


@compiled
def cluster_costs(
    rows: Rows,
    leaves: Leaves,
    weights: Floats,
    begin: int,
    end: int,
    out: NDArray[np.float64],
) -> None:
    """Set out[c] to Σ_j w_j d(begin + c, j) over the cluster's rows, j = begin .. end."""
    squared, rest = np.empty(LEAF, np.float32), np.empty(LEAF, np.float32)
    for position in range(len(out)):
        total = 0.0
        for leaf in range(begin // LEAF, (end - 1) // LEAF + 1):
            squared_to_leaf(rows, begin + position, leaves, leaf, squared, rest, FAR)
            first = leaf * LEAF
            for j in range(max(begin - first, 0), min(end - first, LEAF)):
                total += np.float64(weights[first + j]) * np.float64(np.sqrt(squared[j]))
        out[position] = total


@compiled
def _all_costs(
    rows: Rows,
    leaves: Leaves,
    weights: Floats,
    begins: NDArray[np.int64],
    first: int,
    last: int,
    most: int,
    out: NDArray[np.float64],
) -> None:
    for cluster in range(first, last):
        begin, end = begins[cluster], begins[cluster + 1]
        tried = out[begin : min(end, begin + most)]
        cluster_costs(rows, leaves, weights, begin, end, tried)


def ranked(
    layout: Layout,
    who: NDArray[np.int64],
    near: Ints,
    distance: Floats,
    deadline: Deadline,
) -> Ranked:
    """Order the members of each cluster by what they would cost as its medoid.

    ``who`` [m] are the places that belong to the clusters in question, ``near`` [n] is the place
    of each place's medoid, ``distance`` [n] how far that is. Clusters that there is no time for
    keep their medoid in front.
    """
    # A medoid stands first in its own cluster even where others lie at distance 0.
    away = np.where(near[who] == who, np.float32(-1.0), distance[who])
    places = who[np.lexsort((away, near[who]))]
    begins = np.append(np.flatnonzero(np.diff(near[places], prepend=-1)), len(who))
    rows, weights = take_rows(layout.rows, places), layout.weights[places]
    leaves, costs = leaves_of(rows), np.full(len(who), np.inf)
    width = rows.left.shape[1] + rows.right.shape[1]
    most = max(16, min(TRIED, TRIED * WIDE // width))
    size = max(1, PIECE * (len(begins) - 1) // (max(len(who), 1) * TRIED))
    for first, last in deadline.pieces(len(begins) - 1, size):
        _all_costs(rows, leaves, weights, begins, first, last, most, costs)
    cluster = np.repeat(np.arange(len(begins) - 1), np.diff(begins))
    order = np.lexsort((costs, cluster))  # stable: what was not tried stays by distance
    return Ranked(places[order], begins, costs[order])


def centre_large(
    layout: Layout,
    chosen: NDArray[np.bool_],
    near: Ints,
    distance: Floats,
    larger: int,
    deadline: Deadline,
) -> int:
    """Give clusters of more than ``larger`` members their best member; returns how many changed.

    ``chosen`` [n] is changed. In a cluster that is larger than lists are long, members do not know
    each other, and swaps on lists do not find its best one.
    """
    sizes = np.bincount(near[near >= 0], minlength=len(layout))
    who = np.flatnonzero((near >= 0) & (sizes[near] > larger))
    if not len(who):
        return 0
    order = ranked(layout, who, near, distance, deadline)
    best = order.places[order.begins[:-1]]
    chosen[near[best]] = False
    chosen[best] = True
    return int((near[best] != best).sum())
