"""Many swaps at once on neighbour lists, as tensor operations; see ``tensor``."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedcore.coreset.medoids.clock import Deadline, Pace
from fedcore.coreset.medoids.tensor import OutOfTime, Points, nearest_of

REPAIR = 8  # nearest medoids that stand behind every list
ROUNDS = 6  # of repairing and swapping, at most
STEPS = 400  # of simultaneous swaps in a round, at most


@dataclass(frozen=True, slots=True)
class Graph:
    """Neighbour lists with the nearest medoids of the last repair behind them."""

    numbers: Tensor  # [n, K + extras]
    distances: Tensor  # [n, K + extras]
    radius: Tensor  # [n] up to where lists are complete


@dataclass(frozen=True, slots=True)
class Served:
    """Everybody's two nearest medoids, as far as lists know."""

    near: Tensor  # [n]
    second: Tensor  # [n]
    near_distance: Tensor  # [n] float64
    second_distance: Tensor  # [n] float64
    total: float


def swap_together(
    points: Points, medoids: Tensor, deadline: Deadline, candidates: Tensor | None = None
) -> tuple[Tensor, int, float, bool]:
    """Swap and repair in turns; returns medoids, swaps, the certified fraction, finished.

    With ``candidates``, in ascending order and the medoids among them, only those are tried.
    """
    count, device = len(points), points.weights.device
    chosen = torch.zeros(count, dtype=torch.bool, device=device)
    chosen[medoids] = True
    swaps, before, certified = 0, float("inf"), 0.0
    try:
        tried = torch.arange(count, device=device) if candidates is None else candidates
        length = min(3 * len(tried) // len(medoids) + 24, len(tried))
        lists = _lists(points, tried, length, deadline)
        for _ in range(ROUNDS):
            graph = _repaired(points, lists, chosen, deadline)
            served = _serve(points, graph, chosen)
            certified = float((served.second_distance <= lists.radius).double().mean())
            if served.total > before * (1 - 5e-4):
                break
            before = served.total
            chosen, made, finished = _converge(points, graph, chosen, deadline)
            swaps += made
            if not finished:
                return chosen.nonzero()[:, 0], swaps, certified, False
    except OutOfTime:
        return chosen.nonzero()[:, 0], swaps, certified, False
    return chosen.nonzero()[:, 0], swaps, certified, not deadline.over()


def _lists(points: Points, tried: Tensor, length: int, deadline: Deadline) -> Graph:
    """Return everybody's nearest among those ``tried``, behind the point itself."""
    everyone = torch.arange(len(points), device=points.weights.device)
    numbers, distances = nearest_of(points, everyone, tried, length, deadline)
    # A point leads its own list even where others lie at distance 0.
    own = numbers == everyone[:, None]
    place = torch.where(own.any(1), own.int().argmax(1), length - 1)
    rest = torch.arange(length, device=everyone.device)[None] - 1
    order = torch.where(rest + 1 <= place[:, None], rest, rest + 1)
    order[:, 0] = place
    numbers, distances = numbers.gather(1, order), distances.gather(1, order)
    numbers[:, 0], distances[:, 0] = everyone, 0.0
    complete = (distances[:, -1] >= points.far) | (length == len(points))
    return Graph(numbers, distances, torch.where(complete, points.far, distances[:, -1]))


def _repaired(points: Points, lists: Graph, chosen: Tensor, deadline: Deadline) -> Graph:
    """Append everybody's nearest medoids; those inside a list's radius are there already."""
    medoids = chosen.nonzero()[:, 0]
    everyone = torch.arange(len(points), device=chosen.device)
    numbers, distances = nearest_of(points, everyone, medoids, min(REPAIR, len(medoids)), deadline)
    listed = (numbers[:, :, None] == lists.numbers[:, None, :]).any(2)
    distances = torch.where(listed, points.far, distances)
    return Graph(
        torch.cat((lists.numbers, numbers), 1),
        torch.cat((lists.distances, distances), 1),
        lists.radius,
    )


def _serve(points: Points, graph: Graph, chosen: Tensor) -> Served:
    usable = torch.where(chosen[graph.numbers], graph.distances, points.far)
    # Among equal distances any will do, but the choice must not be left to the device.
    near_distance, first = usable.min(1)
    first = (usable == near_distance[:, None]).int().argmax(1)
    others = usable.scatter(1, first[:, None], torch.full_like(usable[:, :1], points.far))
    second_distance = others.min(1).values
    second = (others == second_distance[:, None]).int().argmax(1)
    near_double = near_distance.double()
    return Served(
        graph.numbers.gather(1, first[:, None])[:, 0],
        graph.numbers.gather(1, second[:, None])[:, 0],
        near_double,
        second_distance.double(),
        float((points.weights.double() * near_double).sum()),
    )


def _group_sums(values: Tensor, groups: Tensor, number: int, scale: float) -> Tensor:
    """Sum values by group, in fixed point so that the order of additions does not matter."""
    sums = torch.zeros(number, dtype=torch.int64, device=values.device)
    sums.scatter_add_(0, groups, (values * scale).round().long())
    return sums.double() / scale


def _converge(
    points: Points, graph: Graph, chosen: Tensor, deadline: Deadline
) -> tuple[Tensor, int, bool]:
    """Swap until nothing helps; returns who is chosen, the swaps, and False if time ran out."""
    swaps = 0
    pace = Pace(deadline)
    for _ in range(STEPS):
        if not pace.allows_another():
            return chosen, swaps, False
        served = _serve(points, graph, chosen)
        into, out, gain = _step(points, graph, chosen, served)
        if not len(into):
            break
        chosen = chosen.clone()
        chosen[out], chosen[into] = False, True
        swaps += len(into)
        if gain < 1e-5 * served.total:
            break
    return chosen, swaps, True


def _step(
    points: Points, graph: Graph, chosen: Tensor, served: Served
) -> tuple[Tensor, Tensor, float]:
    """Return swaps that help and do not interact: points in, medoids out, what they gain."""
    count, device = len(chosen), chosen.device
    weights = points.weights.double()
    scale = 2.0**60 / (float(weights.sum()) * max(points.far, 1e-30))
    gap = weights * (served.second_distance - served.near_distance)
    removal = _group_sums(gap, served.near, count, scale)
    removal = torch.where(chosen, removal, torch.inf)

    reached = (graph.distances < served.second_distance[:, None]) & ~chosen[graph.numbers]
    point, column = reached.nonzero(as_tuple=True)  # edges along which a candidate may serve
    candidate = graph.numbers[point, column]
    distance = graph.distances[point, column].double()
    near, near_distance = served.near[point], served.near_distance[point]
    saved = (distance - near_distance).clamp(max=0) * weights[point]
    shared = _group_sums(saved, candidate, count, scale)
    rest = torch.maximum(distance, near_distance) - served.second_distance[point]
    pairs, slot = torch.unique(candidate * count + near, return_inverse=True)
    gain = _group_sums(rest * weights[point], slot, len(pairs), scale)

    # For each candidate: the best medoid among those whose points it comes near to ...
    left, right = pairs // count, pairs % count
    change = shared[left] + removal[right] + gain
    best = torch.full((count,), torch.inf, dtype=torch.float64, device=device)
    best.scatter_reduce_(0, left, change, "amin")
    partner = torch.full((count,), count, dtype=torch.int64, device=device)
    wins = change <= best[left]
    partner.scatter_reduce_(0, left[wins], right[wins], "amin")
    # ... or a cheap one far away: the most wanted candidate gets the cheapest medoid.
    wanted = shared.sort(stable=True).indices
    cheap = removal.sort(stable=True).indices
    number = min(int(chosen.sum()), int((~chosen).sum()))
    wanted, cheap = wanted[:number], cheap[:number]
    other = shared[wanted] + removal[cheap]
    better = (other < best[wanted]) & ~chosen[wanted]
    best[wanted[better]], partner[wanted[better]] = other[better], cheap[better]

    helps = ((best < -1e-9 * served.total) & ~chosen).nonzero()[:, 0]
    helps = helps[best[helps].sort(stable=True).indices]
    kept = _independent(helps, partner[helps], served, point, candidate, count)
    into = helps[kept]
    return into, partner[into], -float(best[into].sum())


def _independent(
    into: Tensor, out: Tensor, served: Served, point: Tensor, candidate: Tensor, count: int
) -> Tensor:
    """Mark swaps, given best first, that rank first wherever they touch a point."""
    device, none = into.device, len(into)
    ranks = torch.arange(none, device=device)
    by_candidate = torch.full((count,), none, dtype=torch.int64, device=device)
    by_candidate[into] = ranks
    by_medoid = torch.full((count,), none, dtype=torch.int64, device=device)
    by_medoid.scatter_reduce_(0, out, ranks, "amin")
    first = torch.minimum(by_medoid[served.near], by_medoid[served.second])
    first.scatter_reduce_(0, point, by_candidate[candidate], "amin")
    beaten = torch.zeros(none + 1, dtype=torch.bool, device=device)
    beaten[:none] = by_medoid[out] != ranks
    beaten[by_candidate[candidate[first[point] != by_candidate[candidate]]]] = True
    for medoid in (served.near, served.second):
        beaten[by_medoid[medoid[first != by_medoid[medoid]]]] = True
    return ~beaten[:none]
