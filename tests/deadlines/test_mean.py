import pytest

from fedcore.deadlines import mean
from fedcore.errors import BadOption

TWO = (30, 3.0, 1.0), (50, 1.0, 3.0)  # two epochs and the transfer take 21 s and 103 s


@pytest.mark.parametrize(("times", "seconds"), [(1, 62.0), (0.5, 31.0)])
def test_1t_is_the_mean_of_whole_jobs_with_their_transfer(see, times, seconds):
    assert mean.build(times=times).decide(see(*TWO))[0] == pytest.approx(seconds)


def test_2t_is_bounded_by_the_longest_of_them(see):
    found, reason = mean.build(times=2).decide(see(*TWO))
    assert found == pytest.approx(103.0)
    assert reason == "2 times the mean of 2, 62 s; at most 103 s"


def test_no_times_of_the_mean_is_refused():
    with pytest.raises(BadOption, match="times must be above 0, got 0"):
        mean.build(times=0)
