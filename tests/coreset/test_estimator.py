"""``CoresetSelector``, and what a coreset brings for loaders."""

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from fedcore import select_coreset
from fedcore.errors import BadOption

POINTS = np.random.default_rng(0).normal(size=(60, 4)).astype(np.float32)


def test_a_share_is_a_budget():
    assert len(select_coreset(POINTS, 0.1).indices) == 6
    assert len(select_coreset(POINTS, 1e-9).indices) == 1
    for wrong in (0.0, -0.1, 1.5, float("nan")):
        with pytest.raises(BadOption, match="budget"):
            select_coreset(POINTS, wrong)


def test_an_array_that_cannot_be_written_is_read():
    """As memory-mapped files are; torch warns of them, and warnings are errors here."""
    fixed = POINTS.copy()
    fixed.flags.writeable = False
    assert np.array_equal(select_coreset(fixed, 6).indices, select_coreset(POINTS, 6).indices)


@pytest.mark.parametrize("points", [POINTS, torch.from_numpy(POINTS)])
def test_the_sampler_draws_chosen_samples_in_proportion_to_their_weights(points):
    found = select_coreset(points, 5)
    dataset = TensorDataset(torch.arange(60))
    loader = DataLoader(dataset, batch_size=100, sampler=found.sampler(40_000))
    drawn = torch.cat([batch for (batch,) in loader])
    share = torch.bincount(drawn, minlength=60) / 40_000
    expected = torch.zeros(60)
    expected[torch.as_tensor(found.indices)] = torch.as_tensor(found.weights).float() / 60
    assert share == pytest.approx(expected, abs=0.015)  # six standard deviations
    assert len(found.sampler()) == 5
    assert list(found.sampler(seed=1)) == list(found.sampler(seed=1))


def test_the_subset_has_the_chosen_samples_in_order():
    found = select_coreset(POINTS, 5)
    chosen = found.subset(TensorDataset(torch.arange(60)))
    assert [int(sample) for (sample,) in chosen] == found.indices.tolist()


def test_the_estimator_keeps_the_conventions_of_scikit_learn():
    checks = pytest.importorskip("sklearn.utils.estimator_checks")
    import fedcore

    found = checks.check_estimator(fedcore.CoresetSelector(), on_fail=None, on_skip=None)
    # The array API is looked at only where SCIPY_ARRAY_API is set.
    odd = {one["check_name"] for one in found if one["status"] != "passed"}
    assert odd <= {"check_array_api_input"}
    assert len(found) > 30


def test_the_estimator_chooses_as_the_function_does():
    pytest.importorskip("sklearn")
    import fedcore

    found = select_coreset(POINTS.astype(float), 6)
    made = fedcore.CoresetSelector(6).fit(POINTS.astype(float))
    assert np.array_equal(made.sample_indices_, found.indices)
    assert np.array_equal(made.sample_weight_, found.weights)
    assert made.objective_ == found.objective
    names = np.array(["a", "b"])[np.arange(60) % 2]
    by_class = fedcore.CoresetSelector(6, selector="kmedoids-per-class").fit(POINTS, names)
    expected = select_coreset(POINTS, 6, selector="kmedoids-per-class", labels=np.arange(60) % 2)
    assert np.array_equal(by_class.sample_indices_, expected.indices)
