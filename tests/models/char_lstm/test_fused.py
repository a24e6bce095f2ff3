"""The fused kernels against the plain layers: on a GPU, else in Triton's interpreter."""

import logging

import pytest
import torch

from fedcore.models.char_lstm import fused, plain_lstm, stacked_lstm
from fedcore.stacked import kernels_work

pytest.importorskip("triton", reason="Triton is not installed (no wheel for this system)")

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def a_stack(clients, length, batch, width, units, layers, scale=0.4):
    draw = torch.Generator().manual_seed(1)

    def leaf(*shape):
        return torch.randn(*shape, generator=draw).mul(scale).to(DEVICE).requires_grad_()

    widths = [width] + [units] * (layers - 1)
    return (
        leaf(clients, length, batch, width),
        [leaf(clients, 4 * units, own) for own in widths],
        [leaf(clients, 4 * units, units) for _ in range(layers)],
        [leaf(clients, 4 * units) for _ in range(layers)],
    )


@pytest.mark.parametrize(
    ("clients", "length", "batch", "width", "units", "layers"),
    [
        (2, 4, 5, 3, 16, 2),
        (1, 1, 8, 2, 32, 2),  # a single time step
        (1, 3, 1, 2, 16, 1),  # a single layer
        (2, 3, 20, 2, 16, 3),  # more rows than one tile of 16
        (1, 2, 8, 4, 256, 2),  # the paper's width: several blocks and several depths
    ],
)
def test_states_and_gradients_are_those_of_the_plain_layers(
    clients, length, batch, width, units, layers
):
    agrees(*a_stack(clients, length, batch, width, units, layers))


@pytest.mark.parametrize(
    ("clients", "length", "batch"),
    [(1, 1, 8), (3, 2, 8), (2, 80, 5), (10, 80, 8), (20, 9, 1)],  # seven clusters fit an H200
)
def test_clusters_are_the_plain_layers_to_the_bit_each_time(clients, length, batch):
    x, *weights = a_stack(clients, length, batch, 8, 256, 2, scale=0.06)
    gates = torch.empty(2, clients, length, batch, 1024, device=DEVICE)
    if not fused.in_clusters(gates):
        pytest.skip("needs a GPU whose blocks meet in clusters: compute capability 9 or above")
    agrees(x, *weights)
    once, again = (fused.fused_lstm(x, *weights) for _ in range(2))
    assert torch.equal(once, again)


@pytest.mark.parametrize("shape", [(2, 1, 1, 9, 1024), (3, 1, 1, 8, 1024), (2, 1, 1, 8, 512)])
def test_other_sizes_than_those_of_the_clusters_go_in_waves(shape):
    assert not fused.in_clusters(torch.empty(shape, device=DEVICE))


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
    if DEVICE == "cuda":
        x = torch.zeros(1, 1, 1, 1, device=DEVICE)
        assert fused.fits(x, 256)
        assert not fused.fits(x, 250)
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


def test_the_trial_itself_works_where_the_kernels_do():
    assert kernels_work("LSTM", fused._trial, torch.device(DEVICE))


def test_the_model_takes_either_way_with_one_result(monkeypatch):
    draw = torch.Generator().manual_seed(3)
    units, shapes = 16, {"embedding.weight": (9, 8), "head.weight": (9, 16), "head.bias": (9,)}
    for layer, width in enumerate((8, units)):
        shapes[f"lstm.weight_ih_l{layer}"] = (4 * units, width)
        shapes[f"lstm.weight_hh_l{layer}"] = (4 * units, units)
        shapes[f"lstm.bias_ih_l{layer}"] = shapes[f"lstm.bias_hh_l{layer}"] = (4 * units,)
    stack = {n: torch.randn(2, *s, generator=draw).mul(0.4).to(DEVICE) for n, s in shapes.items()}
    windows = torch.randint(9, (2, 3, 5), generator=draw).to(DEVICE)
    answers = []
    for fit in (True, False):
        monkeypatch.setattr("fedcore.models.char_lstm.fits", lambda *_, fit=fit: fit)
        answers.append(stacked_lstm(stack, windows, None)[0])
    assert torch.allclose(*answers, atol=2e-6)
