import pytest
import torch

from fedcore.models.char_lstm.stacked import cell_backward, cell_forward, lstm_layer


def test_the_layer_is_that_of_pytorch():
    torch.manual_seed(0)
    module = torch.nn.LSTM(3, 5, batch_first=True)
    x = torch.randn(2, 6, 4, 3, requires_grad=True)  # [K, T, B, I]
    ours = lstm_layer(
        x,
        module.weight_ih_l0.expand(2, -1, -1),
        module.weight_hh_l0.expand(2, -1, -1),
        (module.bias_ih_l0 + module.bias_hh_l0).expand(2, -1),
    )
    theirs = torch.stack([module(own.transpose(0, 1))[0].transpose(0, 1) for own in x])
    assert torch.allclose(ours, theirs, atol=1e-6)
    slopes = torch.randn_like(ours)
    wanted = [x, *module.parameters()]
    expected = torch.autograd.grad((theirs * slopes).sum(), wanted)
    for one, other in zip(
        torch.autograd.grad((ours * slopes).sum(), wanted), expected, strict=True
    ):
        assert torch.allclose(one, other, atol=1e-5)


@pytest.mark.parametrize("device", ["cpu"] + (["cuda"] if torch.cuda.is_available() else []))
def test_the_cell_is_its_own_derivative(device):
    """Against autograd through the equations."""
    draw = torch.Generator().manual_seed(0)
    gates = torch.randn(7, 20, generator=draw).to(device).requires_grad_()
    c = torch.randn(7, 5, generator=draw).to(device).requires_grad_()
    i, f, g, o = gates.chunk(4, dim=1)
    after = f.sigmoid() * c + i.sigmoid() * g.tanh()
    h = o.sigmoid() * after.tanh()
    dh, dc = (torch.randn(7, 5, generator=draw).to(device) for _ in range(2))
    expected = torch.autograd.grad((h * dh + after * dc).sum(), [gates, c])
    half = gates.detach() / 2
    own_h, own_c, activated = cell_forward(half, half, c.detach())
    assert torch.allclose(own_h, h, atol=1e-6)
    assert torch.allclose(own_c, after, atol=1e-6)
    ours = cell_backward(dh, dc, c.detach(), own_c, activated)
    for one, other in zip(ours, expected, strict=True):
        assert torch.allclose(one, other, atol=1e-5)
