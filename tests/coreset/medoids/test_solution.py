import dataclasses

import numpy as np
import pytest

from fedcore.coreset.medoids.solution import Solution


def test_a_solution_cannot_be_changed_afterwards():
    solution = Solution(np.array([0]), np.array([0]), 1.0, 0, "exact", True)
    with pytest.raises(dataclasses.FrozenInstanceError):
        solution.swaps = 3
