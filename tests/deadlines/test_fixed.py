import math

import pytest

from fedcore.deadlines import fixed
from fedcore.errors import BadOption


def test_it_is_the_same_whatever_was_seen(see):
    decide = fixed.build(seconds=20).decide
    assert decide(see()) == (20.0, "fixed")
    assert decide(see((1, 1.0, 0.0), most=3.0)) == (20.0, "fixed")  # no bound either


@pytest.mark.parametrize("wrong", [0, -1.0, math.inf, math.nan])
def test_what_is_no_deadline(wrong):
    with pytest.raises(BadOption, match="deadline must be above 0"):
        fixed.build(seconds=wrong)
