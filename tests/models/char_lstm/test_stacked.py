import torch

from fedcore.models.char_lstm import plain_lstm


def test_a_stack_of_layers_is_that_of_pytorch():
    torch.manual_seed(0)
    module = torch.nn.LSTM(3, 5, num_layers=2, batch_first=True)
    x = torch.randn(2, 6, 4, 3, requires_grad=True)  # [K, T, B, I]
    own = dict(module.named_parameters())
    ours = plain_lstm(
        x,
        [own[f"weight_ih_l{layer}"].expand(2, -1, -1) for layer in range(2)],
        [own[f"weight_hh_l{layer}"].expand(2, -1, -1) for layer in range(2)],
        [(own[f"bias_ih_l{n}"] + own[f"bias_hh_l{n}"]).expand(2, -1) for n in range(2)],
    )
    theirs = torch.stack([module(part.transpose(0, 1))[0][:, -1] for part in x])
    assert torch.allclose(ours, theirs, atol=1e-6)
    slopes = torch.randn_like(ours)
    wanted = [x, *module.parameters()]
    found, expected = (torch.autograd.grad((y * slopes).sum(), wanted) for y in (ours, theirs))
    for one, other in zip(found, expected, strict=True):
        assert torch.allclose(one, other, atol=1e-5)
