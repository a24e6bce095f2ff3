import torch

from fedcore.coreset.selectors import craig, kmedoids


def test_craig_takes_the_median_first_and_then_the_other_group(run, line):
    """One element: 2 has the least sum of distances (2 + 1 + 0 + 8 + 9 = 20). Then 10."""
    assert run(craig, line, 1).indices.tolist() == [2]
    assert run(craig, line, 2).indices.tolist() == [2, 3]


def test_lazy_greedy_is_greedy(run):
    points = torch.randn(40, 3, generator=torch.Generator().manual_seed(1))
    distance = torch.cdist(points.double(), points.double())
    chosen, gap = [], torch.full((40,), float(2 * distance[:, 0].max()), dtype=torch.float64)
    for _ in range(9):
        gains = (gap[None, :] - distance).clamp(min=0).sum(dim=1)
        gains[chosen] = -1
        chosen.append(int(gains.argmax()))
        gap = torch.minimum(gap, distance[chosen[-1]])
    assert run(craig, points, 9).indices.tolist() == sorted(chosen)


def test_greedy_is_close_to_kmedoids(run):
    points = torch.randn(200, 5, generator=torch.Generator().manual_seed(2))
    best = run(kmedoids, points, 40).objective
    assert best <= run(craig, points, 40).objective <= 1.15 * best
