import torch

from fedcore.models.cnn import ImageClassifier
from fedcore.models.cnn.convolution import convolve, patches
from fedcore.task import Task


def test_patches_are_neighbourhoods_with_zeros_around():
    image = torch.arange(1.0, 7.0).view(1, 1, 2, 3, 1)
    found = patches(image, 3)
    assert found.shape == (1, 6, 9)
    assert found[0, 0].tolist() == [0, 0, 0, 0, 1, 2, 0, 4, 5]
    assert found[0, 5].tolist() == [2, 3, 0, 5, 6, 0, 0, 0, 0]


def test_a_convolution_of_many_clients_is_that_of_each():
    torch.manual_seed(0)
    x = torch.randn(2, 3, 6, 5, 2, requires_grad=True)
    weight, bias = torch.randn(2, 4, 2, 5, 5), torch.randn(2, 4)
    leaves = [x, weight.requires_grad_(), bias.requires_grad_()]
    ours = convolve(*leaves)
    theirs = torch.stack(
        [
            torch.nn.functional.conv2d(own.permute(0, 3, 1, 2), w, b, padding=2).permute(0, 2, 3, 1)
            for own, w, b in zip(*leaves, strict=True)
        ]
    )
    assert torch.allclose(ours, theirs, atol=1e-4)
    slopes = torch.randn_like(ours)
    found, expected = (torch.autograd.grad((y * slopes).sum(), leaves) for y in (ours, theirs))
    for one, other in zip(found, expected, strict=True):
        assert torch.allclose(one, other, atol=1e-3)


def test_both_forms_of_one_client_are_the_module():
    torch.manual_seed(0)
    model = ImageClassifier(2, 9, 10, 6)
    x, slopes = torch.randn(1, 4, 2, 9, 10), torch.randn(1, 4, 6)
    start = Task(model).initial_params()
    stack = {n: v[None].requires_grad_() for n, v in start.items()}
    expected = torch.autograd.grad((model(x[0]) * slopes[0]).sum(), list(model.parameters()))
    for form in (model.single_form, model.stacked_form):
        probe = torch.zeros(1, 4, 6, requires_grad=True)
        scores, entered = form(stack, x, probe)
        assert torch.allclose(scores[0], model(x[0]), atol=1e-5)
        assert torch.allclose(model.head(entered[0]), scores[0], atol=1e-5)
        *found, residuals = torch.autograd.grad((scores * slopes).sum(), [*stack.values(), probe])
        assert torch.equal(residuals, slopes)
        for one, other in zip(found, expected, strict=True):
            assert torch.allclose(one[0], other, atol=1e-4)
