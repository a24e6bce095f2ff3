"""The kernels against products of patches: on a GPU, else in Triton's interpreter."""

import pytest
import torch

from fedcore.models.cnn import convolution
from fedcore.stacked import kernels_work

pytest.importorskip("triton", reason="Triton is not installed (no wheel for this system)")

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.mark.parametrize(
    ("clients", "batch", "height", "width", "channels", "maps", "size"),
    [
        (2, 3, 6, 5, 1, 16, 5),  # one channel: a tile of terms holds many taps
        (2, 2, 5, 7, 3, 16, 5),  # three: it ends within a tap
        (2, 1, 4, 4, 32, 16, 5),  # a tile is a tap
        (1, 8, 7, 7, 64, 32, 3),  # several tiles a tap, and several of rows
        (25, 1, 3, 3, 2, 16, 5),  # a crowd, whose tiles are larger
        (1, 1, 2, 1, 16, 64, 5),  # kernels larger than the image
    ],
)
def test_images_and_gradients_are_those_of_patches(
    clients, batch, height, width, channels, maps, size
):
    draw = torch.Generator().manual_seed(3)

    def leaf(*shape):
        return torch.randn(*shape, generator=draw).to(DEVICE).requires_grad_()

    leaves = [
        leaf(clients, batch, height, width, channels),
        leaf(clients, maps, channels, size, size),
        leaf(clients, maps),
    ]
    ways = convolution.plain, convolution.Fused.apply
    plain, ours = (way(*leaves) for way in ways)
    assert (ours - plain).norm() <= 2e-6 * plain.norm()
    if channels < 16:  # of images themselves, whose slopes nobody asks for
        leaves[0] = leaves[0].detach()
        plain, ours = (way(*leaves) for way in ways)
    asked = [one for one in leaves if one.requires_grad]
    slopes = torch.randn(plain.shape, generator=draw).to(DEVICE)
    expected, found = (torch.autograd.grad((y * slopes).sum(), asked) for y in (plain, ours))
    for one, other in zip(found, expected, strict=True):
        assert (one - other).norm() <= 2e-6 * other.norm()


def test_the_trial_works_where_the_kernels_do():
    assert kernels_work("CNN", convolution._trial, torch.device(DEVICE))
