import pytest

from fedcore.deadlines import kth_arrival
from fedcore.errors import BadOption


@pytest.mark.parametrize(
    ("share", "arrival"), [(0.8, 4.0), (1.0, 5.0), (0.79, 3.0), (0.2, 1.0), (0.01, 1.0)]
)
def test_it_is_that_of_the_share_rounded_down_and_at_least_the_first(of_seconds, share, arrival):
    found = kth_arrival.build(share=share).decide(of_seconds(5.0, 3.0, 1.0, 4.0, 2.0))
    assert found == (arrival, f"arrival {arrival:.0f} of 5")


def test_a_share_of_whole_clients_is_not_rounded_down_by_the_computer(of_seconds):
    """0.29 of 100 are 29, though 0.29 * 100 is 28.999999999999996."""
    known = of_seconds(*(float(n) for n in range(1, 101)))
    assert kth_arrival.build(share=0.29).decide(known)[0] == 29.0


def test_only_who_was_drawn_arrives(of_seconds):
    drawn = [True, False, True, True, False]
    decide = kth_arrival.build(share=0.7).decide
    assert decide(of_seconds(5.0, 3.0, 1.0, 4.0, 2.0, drawn=drawn)) == (4.0, "arrival 2 of 3")


def test_where_nobody_drawn_is_known_it_goes_by_all_who_are(of_seconds):
    assert kth_arrival.build().decide(of_seconds(5.0, 1.0, drawn=[False, False]))[0] == 1.0


@pytest.mark.parametrize("wrong", [0, 1.1])
def test_a_share_that_is_none_is_refused(wrong):
    with pytest.raises(BadOption, match="share must be above 0 and at most 1"):
        kth_arrival.build(share=wrong)
