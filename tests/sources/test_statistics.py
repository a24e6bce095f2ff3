import pytest

from fedcore.sources.statistics import Spread, spread_of


def test_the_spread_by_hand():
    # mean 3; deviations -2, -1, 3; variance 14 / 3 over n, not n - 1
    found = spread_of([1, 2, 6])
    assert found == Spread(3, 9, 3.0, pytest.approx((14 / 3) ** 0.5), 1, 2.0, 6)
