import numpy as np
from plain_medoids import exhaustive, objective, pam

# Points 0, 1, 5, 6 on a line: the best pair takes one of each neighbouring two, at cost 1 + 1.
LINE = np.abs(np.subtract.outer([0.0, 1.0, 5.0, 6.0], [0.0, 1.0, 5.0, 6.0]))


def test_the_objective_is_the_sum_of_distances_to_the_nearest_chosen():
    assert objective(LINE, np.array([0])) == 12.0
    assert objective(LINE, np.array([1, 2])) == 2.0


def test_exhaustive_search_finds_the_best_pair():
    medoids, value = exhaustive(LINE, 2)
    assert value == 2.0
    assert sum(medoids < 2) == 1


def test_pam_leaves_a_bad_start():
    medoids, value = pam(LINE, np.array([0, 1]))
    assert value == 2.0
    assert medoids.tolist() == sorted(medoids)


def test_pam_stops_where_no_single_swap_helps():
    points = np.random.default_rng(1).normal(size=(12, 2))
    distances = np.linalg.norm(points[:, None] - points[None], axis=2)
    medoids, value = pam(distances, np.array([0, 1, 2]))
    for slot in range(3):
        for other in set(range(12)) - set(medoids.tolist()):
            trial = medoids.copy()
            trial[slot] = other
            assert objective(distances, trial) >= value - 1e-12
