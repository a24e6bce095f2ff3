"""The kernels of ``cluster.cu`` against the plain layers, where a GPU has them."""

import logging

import pytest
import torch

from fedcore.models.char_lstm import CharacterLstm, fused, plain_lstm
from fedcore.stacked import kernels_work

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
CLUSTERS = DEVICE == "cuda" and torch.cuda.get_device_capability()[0] >= 9
needs_clusters = pytest.mark.skipif(
    not CLUSTERS, reason="needs a GPU whose blocks meet in clusters: compute capability 9 or above"
)
LAYERS, WIDTH, UNITS = 2, 8, 256


def a_stack(clients, length, batch, scale=0.06):
    draw = torch.Generator().manual_seed(1)

    def leaf(*shape):
        return torch.randn(*shape, generator=draw).mul(scale).to(DEVICE).requires_grad_()

    return (
        leaf(clients, length, batch, WIDTH),
        [leaf(clients, 4 * UNITS, own) for own in (WIDTH, UNITS)],
        [leaf(clients, 4 * UNITS, UNITS) for _ in range(LAYERS)],
        [leaf(clients, 4 * UNITS) for _ in range(LAYERS)],
    )


@needs_clusters
@pytest.mark.parametrize(
    ("clients", "length", "batch"),  # seven clusters fit an H200
    [(1, 1, 8), (3, 2, 8), (2, 80, 5), (10, 80, 8), (20, 9, 1), (3, 7, 20), (1, 80, 64)],
)
def test_states_and_gradients_are_those_of_the_plain_layers_to_the_bit_each_time(
    clients, length, batch
):
    x, *weights = a_stack(clients, length, batch)
    agrees(x, *weights)
    once, again = (fused.fused_lstm(x, *weights) for _ in range(2))
    assert torch.equal(once, again)


@needs_clusters
def test_samples_do_not_know_with_whom_they_are_in_a_batch():
    x, *weights = a_stack(2, 12, 20)
    whole, part = fused.fused_lstm(x, *weights), fused.fused_lstm(x[:, :, 8:16], *weights)
    assert torch.equal(whole[:, 8:16], part)


def agrees(x, *weights):
    leaves = [x, *(leaf for group in weights for leaf in group)]
    plain, ours = plain_lstm(x, *weights), fused.fused_lstm(x, *weights)
    assert torch.allclose(ours, plain, atol=2e-6)
    slopes = torch.randn(plain.shape, generator=torch.Generator().manual_seed(2)).to(DEVICE)
    expected = torch.autograd.grad((plain * slopes).sum(), leaves)
    found = torch.autograd.grad((ours * slopes).sum(), leaves)
    for one, other in zip(found, expected, strict=True):
        assert (one - other).norm() <= 2e-6 * other.norm()


def test_only_what_the_kernels_can_take_goes_through_them():
    assert not fused.fits(torch.zeros(1, 1, 1, 1), 256)  # not on a GPU
    if CLUSTERS:
        x = torch.zeros(1, 1, 1, 1, device=DEVICE)
        assert fused.fits(x, 256)
        assert not fused.fits(x, 128)
        assert not fused.fits(x.double(), 256)


def test_kernels_that_fail_are_left_alone_and_named_once(monkeypatch, caplog):
    def fail(*_):
        raise RuntimeError("no such instruction\nand a long story")

    monkeypatch.setattr(fused, "fused_lstm", fail)
    kernels_work.cache_clear()
    with caplog.at_level(logging.WARNING):
        asked = [kernels_work("LSTM", fused._trial, torch.device(DEVICE)) for _ in range(2)]
        assert asked == [False, False]
    assert [record.getMessage() for record in caplog.records] == [
        "the LSTM takes its plain form: no such instruction"
    ]
    kernels_work.cache_clear()


@needs_clusters
def test_the_trial_itself_works_where_the_kernels_do():
    assert kernels_work("LSTM", fused._trial, torch.device(DEVICE))


@needs_clusters
def test_the_model_takes_either_way_with_one_result(monkeypatch):
    draw = torch.Generator().manual_seed(3)
    shapes = {"embedding.weight": (9, WIDTH), "head.weight": (9, UNITS), "head.bias": (9,)}
    for layer, width in enumerate((WIDTH, UNITS)):
        shapes[f"lstm.weight_ih_l{layer}"] = (4 * UNITS, width)
        shapes[f"lstm.weight_hh_l{layer}"] = (4 * UNITS, UNITS)
        shapes[f"lstm.bias_ih_l{layer}"] = shapes[f"lstm.bias_hh_l{layer}"] = (4 * UNITS,)
    stack = {n: torch.randn(2, *s, generator=draw).mul(0.06).to(DEVICE) for n, s in shapes.items()}
    windows = torch.randint(9, (2, 3, 5), generator=draw).to(DEVICE)
    answers = []
    for fit in (True, False):
        monkeypatch.setattr("fedcore.models.char_lstm.fits", lambda *_, fit=fit: fit)
        answers.append(CharacterLstm(9).stacked_form(stack, windows, None)[0])
    assert torch.allclose(*answers, atol=2e-6)
