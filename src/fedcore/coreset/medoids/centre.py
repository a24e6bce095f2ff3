"""The best medoid of a cluster, by trying its members: Σ_{j in cluster} w_j d(c, j) for each c.

Swaps weigh a new medoid against all others but know it only through lists; this step knows one
cluster only, but all of its distances, and costs Σ (cluster size)² of them: n² / k where clusters
are alike. Late in training one cluster may hold most points, so of each only the members nearest
to its medoid are tried.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedcore.compiled import compiled
from fedcore.coreset.medoids.geometry import LEAF, Floats, Leaves, Rows, squared_to_leaf


@compiled
def _cluster_costs(
    rows: Rows,
    leaves: Leaves,
    weights: Floats,
    begin: int,
    end: int,
    out: NDArray[np.float64],
) -> None:
    """Set out[c] to Σ_j w_j d(begin + c, j) over the cluster's rows, j = begin .. end."""
    squared = np.empty(LEAF, np.float32)
    for position in range(len(out)):
        total = 0.0
        for leaf in range(begin // LEAF, (end - 1) // LEAF + 1):
            squared_to_leaf(rows, begin + position, leaves, leaf, squared)
            first = leaf * LEAF
            for j in range(max(begin - first, 0), min(end - first, LEAF)):
                total += np.float64(weights[first + j]) * np.float64(np.sqrt(squared[j]))
        out[position] = total


@compiled
def member_costs(
    rows: Rows,
    leaves: Leaves,
    weights: Floats,
    begins: NDArray[np.int64],
    most: int,
    out: NDArray[np.float64],
) -> None:
    """Do so for the first ``most`` members of every cluster, begins[c] .. begins[c + 1]."""
    for cluster in range(len(begins) - 1):
        begin, end = begins[cluster], begins[cluster + 1]
        _cluster_costs(rows, leaves, weights, begin, end, out[begin : min(end, begin + most)])
