import pytest

pytest.importorskip("hypothesis")

import math

from hypothesis import example, given
from hypothesis import strategies as st

from fedcore.deadline import capacity, coreset_budget, full_set_fits
from fedcore.types import ClientProfile

samples = st.integers(1, 10_000)
speeds = st.floats(0.01, 100, allow_nan=False)
deadlines = st.floats(1e-3, 1e6, allow_nan=False)
epochs_asked = st.integers(1, 50)


@given(samples, speeds, deadlines)
@example(49, 0.1 + 0.2, 49 / (0.1 + 0.2))  # c·τ rounds below the 49 samples that do fit
def test_capacity_is_the_largest_amount_of_work_that_is_on_time(size, speed, deadline):
    client = ClientProfile(size, speed)
    most = capacity(client, deadline)
    assert client.seconds(most) <= deadline
    assert client.seconds(most + 1) > deadline


@given(samples, speeds, deadlines, epochs_asked)
def test_the_budget_never_exceeds_the_deadline_and_is_the_largest_that_does_not(
    size, speed, deadline, epochs
):
    client = ClientProfile(size, speed)
    budget, times = coreset_budget(client, deadline, epochs - 1, (1,))
    assert 0 <= budget <= size
    assert times == (epochs - 1 if budget else 0)
    if budget:
        assert client.seconds(size + (epochs - 1) * budget) <= deadline
    if full_set_fits(client, deadline, 1) and epochs > 1 and budget < size:
        assert client.seconds(size + (epochs - 1) * (budget + 1)) > deadline


@given(samples, speeds, deadlines, epochs_asked)
def test_the_static_budget_never_exceeds_the_deadline(size, speed, deadline, epochs):
    client = ClientProfile(size, speed)
    budget, affordable = coreset_budget(client, deadline, epochs, (), shorten=True)
    assert 0 <= budget <= size
    assert 0 <= affordable <= epochs
    assert client.seconds(budget * affordable) <= deadline


@given(samples, speeds, deadlines, epochs_asked, st.floats(0, 2))
def test_the_budget_after_a_forward_pass_never_exceeds_the_deadline(
    size, speed, deadline, epochs, price
):
    client = ClientProfile(size, speed)
    budget, times = coreset_budget(client, deadline, epochs, (price,))
    assert 0 <= budget <= size
    assert times == (epochs if budget else 0)
    if budget:
        assert client.seconds(math.ceil(price * size) + epochs * budget) <= deadline


@pytest.mark.parametrize(
    ("size", "speed", "deadline", "epochs", "expected"),
    [
        (100, 1.0, 1000.0, 10, 100),  # everything fits: no reduction
        (100, 1.0, 999.0, 10, 99),  # (999 - 100) / 9 = 99.9
        (100, 2.0, 95.0, 10, 10),  # (190 - 100) / 9 = 10
        (100, 2.0, 94.9, 10, 9),  # (189.8 - 100) / 9 = 9.98
        (100, 1.0, 108.0, 10, 0),  # 8 samples left for 9 epochs
        (100, 1.0, 50.0, 10, 0),  # not even the first pass
        (100, 1.0, 50.0, 1, 0),  # E = 1: no epoch is left for a coreset
    ],
)
def test_the_budget_by_hand(size, speed, deadline, epochs, expected):
    budget, times = coreset_budget(ClientProfile(size, speed), deadline, epochs - 1, (1,))
    assert budget == expected
    assert times == (epochs - 1 if expected else 0)


@given(samples, speeds, deadlines, epochs_asked, st.integers(1, 9))
def test_fewer_epochs_spend_the_same_time_on_a_larger_coreset(
    size, speed, deadline, epochs, fewest
):
    client = ClientProfile(size, speed)
    limit = capacity(client, deadline)
    ways = [
        (size, coreset_budget(client, deadline, epochs - 1, (1,), fewest)),
        (0, coreset_budget(client, deadline, epochs, (), fewest, shorten=True)),
        (math.ceil(size / 3), coreset_budget(client, deadline, epochs, (1 / 3,), fewest)),
    ]
    for before, (budget, times) in ways:
        assert 0 <= budget <= size
        assert 0 <= times <= epochs
        assert budget == 0 or before + budget * times <= limit
        if 0 < budget < size:  # less than one more sample in each epoch is left over
            assert before + (budget + 1) * times > limit


@pytest.mark.parametrize(
    ("capacity_left", "fewest", "expected"),
    [
        (340, 1, (80, 3)),  # 240 left: at least three epochs, or more than everything would fit
        (340, 5, (48, 5)),
        (340, 0, (26, 9)),  # the paper's
        (199, 1, (99, 1)),
        (1000, 1, (100, 9)),  # everything fits: nine more epochs on all
        (100, 1, (0, 0)),
    ],
)
def test_fewer_epochs_by_hand(capacity_left, fewest, expected):
    client = ClientProfile(100, 1.0)
    assert coreset_budget(client, float(capacity_left), 9, (1,), fewest) == expected


@pytest.mark.parametrize(
    ("capacity_left", "epochs", "expected"),
    [(55, 10, (5, 10)), (10, 10, (1, 10)), (9, 10, (1, 9)), (0, 10, (0, 0)), (7, 1, (7, 1))],
)
def test_the_static_budget_by_hand(capacity_left, epochs, expected):
    client = ClientProfile(100, 1.0)
    assert coreset_budget(client, float(capacity_left), epochs, (), shorten=True) == expected


def test_ending_exactly_on_time_is_on_time():
    client = ClientProfile(num_samples=37, capability=0.7)
    exactly = client.seconds(10 * 37)
    assert full_set_fits(client, exactly, 10)
    assert not full_set_fits(client, exactly * (1 - 1e-12), 10)
