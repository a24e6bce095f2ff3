import math

import pytest
import torch
from torch import nn
from torch.nn import functional

from fedcore.errors import BadData, BadOption, UnknownPlugin
from fedcore.losses import LOSSES, cross_entropy, loss_of

DRAW = torch.Generator().manual_seed(0)


def test_cross_entropy_by_hand():
    outputs = torch.tensor([[0.0, 0.0], [math.log(3.0), 0.0]])
    expected = [math.log(2), math.log(4)]
    assert cross_entropy(outputs, torch.tensor([0, 1])).tolist() == pytest.approx(expected)


def test_cross_entropy_of_positions_is_their_mean_without_padding():
    outputs = torch.randn(4, 5, 3, generator=DRAW)
    targets = torch.randint(3, (4, 5), generator=DRAW)
    targets[0, 2:], targets[3] = -100, -100
    found = cross_entropy(outputs, targets)
    for sample in range(3):
        alone = functional.cross_entropy(outputs[sample], targets[sample])  # which leaves out -100
        assert found[sample] == pytest.approx(float(alone), rel=1e-6)
    assert found[3] == 0


@pytest.mark.parametrize("shape", [(6,), (6, 4), (6, 2, 3)])
@pytest.mark.parametrize("name", ["mse", "huber", "bce"])
def test_losses_of_numbers_are_means_over_a_sample(name, shape):
    outputs, targets = torch.randn(shape, generator=DRAW) * 3, torch.rand(shape, generator=DRAW)
    plain = {"mse": nn.MSELoss(), "huber": nn.HuberLoss(), "bce": nn.BCEWithLogitsLoss()}[name]
    found = LOSSES[name](outputs, targets)
    assert found.shape == (6,)
    for one, o, t in zip(found, outputs, targets, strict=True):
        assert one == pytest.approx(float(plain(o, t)), rel=1e-5)


def test_one_column_goes_with_one_number_a_sample_and_nothing_is_broadcast():
    outputs, targets = torch.tensor([[1.0], [2.0]]), torch.tensor([0, 4])
    assert LOSSES["mse"](outputs, targets).tolist() == [1, 4]
    for wrong in (torch.zeros(2, 3), torch.zeros(2, 2, 1), torch.zeros(1)):
        with pytest.raises(BadData, match="as many targets as outputs, got outputs of shape"):
            LOSSES["mse"](wrong, targets.float())


@pytest.mark.parametrize(
    "targets", [torch.zeros(2), torch.zeros(2, 3).long(), torch.zeros(3).long()]
)
def test_classes_must_be_whole_numbers_for_every_row(targets):
    with pytest.raises(BadData, match="a class for every row of scores, got outputs of shape"):
        cross_entropy(torch.zeros(2, 3), targets)


def test_the_default_has_fast_paths_and_others_are_functions():
    assert loss_of("cross-entropy") is None
    assert loss_of("mse") is LOSSES["mse"]
    own = nn.CrossEntropyLoss(reduction="none", label_smoothing=0.1)
    outputs, targets = torch.randn(3, 4, generator=DRAW), torch.tensor([0, 3, 1])
    assert torch.equal(loss_of(own)(outputs, targets), own(outputs, targets))


def test_a_file_has_a_function_called_loss(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text("def loss(outputs, targets):\n    return (outputs - targets).abs().sum(1)\n")
    assert loss_of(str(file))(torch.ones(2, 2), torch.zeros(2, 2)).tolist() == [2, 2]
    file.write_text("other = 1\n")
    with pytest.raises(BadOption, match="no function 'loss'"):
        loss_of(str(file))
    with pytest.raises(UnknownPlugin, match="no loss file at"):
        loss_of(str(tmp_path / "absent.py"))


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ("msee", "no loss named 'msee'; did you mean 'mse'"),
        ("hinge", "there are cross-entropy, mse, bce, huber, or a function"),
        (3, "no loss named '3'; there are"),
        (None, "no loss named 'None'"),
        ([], r"no loss named '\[\]'"),
    ],
)
def test_other_losses_are_refused(given, sentence):
    with pytest.raises(BadOption, match=sentence):
        loss_of(given)
