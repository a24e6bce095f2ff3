"""The batch schedule, and the expectation that decides how weights enter a batch."""

import pytest

pytest.importorskip("hypothesis")


import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fedcore.client.schedule import Samples, schedule
from fedcore.types import Weighting


def generator(seed=0):
    return np.random.default_rng(seed)


@given(
    size=st.integers(1, 40),
    epochs=st.integers(1, 4),
    batch=st.integers(1, 16),
    seed=st.integers(0, 99),
)
def test_an_epoch_meets_every_sample_once(size, epochs, batch, seed):
    tape = schedule(Samples.everything(size), epochs, batch, generator(seed))
    steps = -(-size // batch)
    assert len(tape.index) == epochs * steps
    for epoch in range(epochs):
        rows = slice(epoch * steps, (epoch + 1) * steps)
        real = tape.coefficient[rows] > 0
        assert sorted(tape.index[rows][real].tolist()) == list(range(size))


def test_the_full_set_takes_plain_batch_means_the_last_one_over_what_is_left():
    tape = schedule(Samples.everything(10), 1, 4, generator())
    assert tape.coefficient.tolist() == [[0.25] * 4, [0.25] * 4, [0.5, 0.5, 0, 0]]


def test_scaled_weights_by_hand():
    # b = 2 of m = 6 samples, weights 5 and 1, one batch of both: (2/6) · δ / 2
    samples = Samples(np.array([3, 4]), np.array([5.0, 1.0]))
    tape = schedule(samples, 1, 2, generator())
    found = dict(zip(tape.index[0].tolist(), tape.coefficient[0].tolist(), strict=True))
    assert found == pytest.approx({3: 5 / 6, 4: 1 / 6})


def expected_step(weighting, batch_size, total=None, draws=4000):
    """Mean over shuffles and steps of the coefficient each sample gets."""
    weights = np.array([1.0, 2.0, 4.0, 8.0, 9.0])
    samples = Samples(np.arange(5), weights, weighting, total=total)
    tape = schedule(samples, draws, batch_size, generator(1))
    mean = np.zeros(5)
    np.add.at(mean, tape.index, tape.coefficient)
    return mean / len(tape.index), weights / (total or weights.sum())


@pytest.mark.parametrize("total", [None, 36.0, 16.0])
@pytest.mark.parametrize("batch_size", [1, 2, 3, 5])
@pytest.mark.parametrize("weighting", [Weighting.SCALED, Weighting.PROPORTIONAL])
def test_the_expected_step_is_the_full_set_step(weighting, batch_size, total):
    """E[Σ coefficient_j ∇L_j] = (1/m) Σ δ_j ∇L_j, whatever the gradients: so coefficients agree.

    Weights of samples drawn by importance sum to m, the total, in the mean over draws alone.
    4,000 shuffles; the largest standard error is below 0.004.
    """
    found, wanted = expected_step(weighting, batch_size, total)
    assert found == pytest.approx(wanted, abs=0.015)


def test_normalising_inside_a_batch_is_biased():
    """With batches of one, every coefficient is 1: weights have no effect at all."""
    found, wanted = expected_step(Weighting.NORMALISED, 1)
    assert found == pytest.approx(np.full(5, 0.2), abs=1e-6)
    assert np.abs(found - wanted).max() > 0.1


def test_every_single_step_of_a_shuffled_epoch_has_the_same_expectation():
    """Also the last, smaller batch: each batch is a uniform subset of its size."""
    weights = np.array([1.0, 2.0, 9.0])
    tape = schedule(Samples(np.arange(3), weights), 6000, 2, generator(2))
    for step in (0, 1):
        mean = np.zeros(3)
        np.add.at(mean, tape.index[step::2], tape.coefficient[step::2])
        assert mean / 6000 == pytest.approx(weights / 12, abs=0.02)


def test_batches_of_everything_with_equal_weights_are_the_same_under_every_shuffled_rule():
    plain = schedule(Samples.everything(9), 2, 4, generator(3))
    ones = Samples(np.arange(9), np.ones(9), Weighting.NORMALISED)
    normalised = schedule(ones, 2, 4, generator(3))
    assert np.array_equal(plain.index, normalised.index)
    assert np.allclose(plain.coefficient, normalised.coefficient)
