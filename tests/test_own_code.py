import pytest
import torch
from torch import nn

from fedcore.bundle import Bundle
from fedcore.errors import BadData, BadOption
from fedcore.losses import loss_of
from fedcore.task import naming, outputs_of


@pytest.mark.parametrize(
    ("loss", "sentence"),
    [
        (lambda o, t: o.mean(), r"one number a sample, of shape \[4\], got shape \[\]; leave out"),
        (lambda o, t: o, r"got shape \[4, 2\]"),
        (lambda o, t: o.sum(1)[:3], r"got shape \[3\]"),
        (lambda o, t: 3.0, "got float"),
        (lambda o, t: None, "got NoneType"),
        (lambda o, t: o.detach().sum(1), "has no gradient"),
        (nn.MSELoss(), "'MSELoss' must give one number a sample"),
    ],
)
def test_a_loss_gives_one_number_a_sample(loss, sentence):
    with pytest.raises(BadOption, match=sentence):
        loss_of(loss)(torch.ones(4, 2, requires_grad=True), torch.ones(4, 2))


def test_a_loss_that_fails_is_named_with_the_shapes_it_got():
    def mine(outputs, targets):
        return outputs @ targets

    shapes = r"loss 'mine' of outputs \[4, 2\] and targets \[3\] failed with RuntimeError: "
    with pytest.raises(BadData, match=shapes):
        loss_of(mine)(torch.ones(4, 2), torch.ones(3))


def test_models_are_tried_on_one_tensor_or_several():
    assert outputs_of(nn.Linear(2, 3), torch.ones(5, 2), classes=True).shape == (5, 3)
    pair = Bundle({0: torch.ones(5, 2), "mask": torch.ones(5, 9).long()})
    with pytest.raises(
        BadOption, match=r"inputs \[5, 2\] of type float32 and \[5, 9\] of type int"
    ):
        outputs_of(nn.Linear(3, 2), pair, classes=True)
    for wrong in (lambda x: x.sum(), lambda x: x[:2], lambda x: x[..., None]):
        with pytest.raises(BadOption, match=r"to class scores \[batch, classes\], got \["):
            outputs_of(wrong, torch.ones(5, 2), classes=True)
    assert outputs_of(lambda x: x[:, 0], torch.ones(5, 2), classes=False).shape == (5,)
    with pytest.raises(BadOption, match="to outputs, a row a sample, got"):
        outputs_of(lambda x: x[:2], torch.ones(5, 2), classes=False)


def test_what_a_module_raises_names_the_model():
    sentence = r"model Embedding failed with IndexError.*range of its embedding"
    with pytest.raises(BadData, match=sentence), naming(layer := nn.Embedding(2, 2)):
        layer(torch.tensor([7]))
    with pytest.raises(KeyError), naming(layer):
        raise KeyError("not of a module")
