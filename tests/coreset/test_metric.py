import numpy as np
import pytest
import torch

from fedcore.coreset.metric import Euclidean, OuterProduct, as_rows, pair_distances
from fedcore.coreset.proxies import residual_metric

RNG = np.random.default_rng(0)


def all_distances(metric):
    count = len(metric)
    first, second = torch.meshgrid(torch.arange(count), torch.arange(count), indexing="ij")
    return (
        pair_distances(metric, first.reshape(-1), second.reshape(-1)).reshape(count, count).numpy()
    )


def direct(gradients):
    return np.linalg.norm(gradients[:, None] - gradients[None], axis=2)


def test_euclidean_distances_are_those_of_the_points():
    points = RNG.normal(size=(7, 3)).astype(np.float32)
    np.testing.assert_allclose(all_distances(Euclidean(points)), direct(points), rtol=1e-6)


@pytest.mark.parametrize("bias", [True, False])
def test_outer_product_distances_are_those_of_the_written_out_gradients(bias):
    residuals = RNG.normal(size=(9, 4)).astype(np.float32)
    inputs = RNG.normal(size=(9, 6)).astype(np.float32)
    ends = np.ones((9, 1)) if bias else np.zeros((9, 1))
    long = np.einsum("ic,id->icd", residuals, np.hstack((inputs, ends))).reshape(9, -1)
    got = all_distances(OuterProduct(residuals, inputs, bias))
    np.testing.assert_allclose(got, direct(long), rtol=1e-6, atol=1e-7)


def test_zero_residuals_make_equal_gradients_whatever_the_inputs():
    metric = OuterProduct(np.zeros((2, 3)), RNG.normal(size=(2, 5)))
    assert torch.equal(metric.factors[1][0], metric.factors[1][1])


@pytest.mark.parametrize("shape", [(10, 512), (90, 256), (20, 5)])
def test_the_residual_metric_keeps_distances_in_no_more_dimensions_than_classes(shape):
    residuals = RNG.normal(size=(12, shape[0])).astype(np.float32)
    weight = RNG.normal(size=shape).astype(np.float32)
    metric = residual_metric(residuals, weight)
    assert metric.factors[0].shape[1] == min(shape)
    np.testing.assert_allclose(
        all_distances(metric), direct(residuals.astype(np.float64) @ weight), rtol=1e-5, atol=1e-5
    )


def test_the_residual_metric_of_no_weights_has_all_points_at_one_place():
    assert not residual_metric(RNG.normal(size=(5, 3)), np.zeros((3, 8))).factors[0].any()


def test_nearby_gradients_of_very_different_size_keep_their_distances():
    residuals = np.array([[3.0, -3.0], [3e-6, -3e-6], [5e-6, -5e-6]])
    metric = residual_metric(residuals, np.eye(2, 512))
    assert all_distances(metric)[1, 2] == pytest.approx(2e-6 * 2**0.5, rel=1e-5)


@pytest.mark.parametrize(
    "values", [np.zeros(3), np.zeros((2, 2, 2)), np.array([[np.nan, 0.0]]), np.array([[1e300]])]
)
def test_what_is_not_a_finite_matrix_is_refused(values):
    with pytest.raises(ValueError, match=r"gradients must be"):
        as_rows(values, "gradients")


@pytest.mark.parametrize(
    "values",
    [np.arange(6).reshape(2, 3), np.arange(12.0).reshape(2, 6)[:, ::2], torch.ones(2, 3).double()],
)
def test_integers_strides_and_doubles_become_plain_float32(values):
    rows = as_rows(values, "gradients")
    assert rows.dtype == torch.float32
    assert rows.is_contiguous()


def test_mismatched_factors_are_refused():
    with pytest.raises(ValueError, match="as many rows"):
        OuterProduct(np.zeros((2, 3)), np.zeros((3, 3)))
    with pytest.raises(ValueError, match="one row a class"):
        residual_metric(np.zeros((2, 3)), np.zeros((4, 8)))
