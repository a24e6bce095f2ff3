import pytest
import torch
from torch import nn

from fedcore.errors import BadOption
from fedcore.models.char_lstm import CharacterLstm
from fedcore.models.cnn import ImageClassifier
from fedcore.task import Task, layers_of, sent_bytes, trained_names


def test_parameters_are_passed_in_and_the_module_keeps_its_own():
    model = nn.Linear(2, 3)
    task = Task(model)
    zeros = {name: torch.zeros_like(value) for name, value in task.initial_params().items()}
    assert task.logits(zeros, torch.ones(1, 2)).abs().sum() == 0
    assert model(torch.ones(1, 2)).abs().sum() > 0


def test_a_model_with_running_statistics_is_refused_with_a_remedy():
    with pytest.raises(BadOption, match=r"running_mean.*GroupNorm"):
        Task(nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)))


def test_the_head_is_the_last_linear_layer_unless_named():
    model = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 3))
    params = Task(model).initial_params()
    assert torch.equal(Task(model).head_weight(params), params["2.weight"])
    assert torch.equal(Task(model, head="0").head_weight(params), params["0.weight"])


def test_a_bare_linear_layer_is_its_own_head():
    task = Task(nn.Linear(2, 3))
    assert task.head_weight(task.initial_params()).shape == (3, 2)


def test_a_head_that_does_not_exist_is_refused():
    with pytest.raises(BadOption, match=r"head must name one of.*got 'fc'"):
        Task(nn.Sequential(nn.Linear(2, 3)), head="fc")


def test_a_model_without_a_linear_layer_has_no_last_layer_gradient():
    task = Task(nn.Sequential(nn.Conv1d(1, 2, 1), nn.Flatten()))
    with pytest.raises(BadOption, match="without one; use proxy 'input'"):
        task.forward(task.initial_params(), torch.ones(1, 1, 2), torch.zeros(1, 2))


def test_a_head_that_runs_twice_is_refused():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(2, 2)

        def forward(self, x):
            return self.layer(self.layer(x))

    task = Task(Twice())
    with pytest.raises(BadOption, match="ran 2 times"):
        task.forward(task.initial_params(), torch.ones(1, 2), torch.zeros(1, 2))


def test_a_model_that_returns_no_tensor_is_refused():
    class Pair(nn.Module):
        def forward(self, x):
            return x, x

    task = Task(Pair())
    with pytest.raises(BadOption, match="must return a tensor"):
        task.logits({}, torch.ones(1, 2))


def test_a_probe_changes_nothing_and_its_gradient_is_that_of_the_last_layers_output():
    task = Task(nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 3), nn.Sigmoid()))
    params, x = task.initial_params(), torch.randn(5, 2)
    probe = torch.zeros(5, task.head_width, requires_grad=True)
    scores, inputs = task.forward(params, x, probe)
    first, squashed, head, squashed_again = task.model
    entered = squashed(first(x))
    outputs = head(entered).detach().requires_grad_()
    assert torch.equal(scores, task.logits(params, x))
    assert torch.equal(inputs, entered)
    (slope,) = torch.autograd.grad(scores.square().sum(), probe)
    (expected,) = torch.autograd.grad(squashed_again(outputs).square().sum(), outputs)
    assert torch.allclose(slope, expected)


def test_a_probe_needs_one_pass_through_a_last_linear_layer():
    probe = torch.zeros(1, 2)
    without = Task(nn.Sequential(nn.Conv1d(1, 2, 1), nn.Flatten()))
    assert without.head_width == 0
    with pytest.raises(BadOption, match="without one; use proxy 'input'"):
        without.forward(without.initial_params(), torch.zeros(1, 1, 1), probe)
    layer = nn.Linear(2, 2)
    twice = Task(nn.Sequential(layer, layer))
    with pytest.raises(BadOption, match="ran 2 times"):
        twice.forward(twice.initial_params(), torch.zeros(1, 2), probe)


def test_layers_are_modules_and_levels_in_their_order():
    lstm = Task(CharacterLstm(90)).initial_params()
    kinds = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    assert layers_of(lstm) == [
        ["embedding.weight"],
        [f"lstm.{kind}_l0" for kind in kinds],
        [f"lstm.{kind}_l1" for kind in kinds],
        ["head.weight", "head.bias"],
    ]
    assert layers_of(nn.LSTM(2, 3, bidirectional=True).state_dict()) == [
        [f"{kind}_l0{way}" for way in ("", "_reverse") for kind in kinds]
    ]


# Of the CNN on 28x28 images: 832 + 51,264 + 1,606,144 + 5,130 parameters
@pytest.mark.parametrize(
    ("share", "first"),
    [
        (1e-9, "head"),
        (0.5, "head"),
        (1_611_274 / 1_663_370, "hidden"),
        (1_662_537 / 1_663_370, "hidden"),
        (1_662_538 / 1_663_370, "second"),
        (0.99999, "second"),
        (1.0, "first"),
    ],
)
def test_the_layers_nearest_the_output_that_fit_are_trained(share, first):
    params = Task(ImageClassifier(1, 28, 28, 10)).initial_params()
    order = ["first", "second", "hidden", "head"]
    layers = order[order.index(first) :]
    names = [f"{layer}.{kind}" for layer in layers for kind in ("weight", "bias")]
    assert trained_names(params, share) == names
    assert sent_bytes(params, share) == 4 * sum(params[name].numel() for name in names)


class Unordered(nn.Module):
    """Its last linear layer was made first."""

    def __init__(self):
        super().__init__()
        self.scores = nn.Linear(3, 2)
        self.before = nn.Conv1d(1, 1, 1)

    def forward(self, x):
        return self.scores(self.before(x[:, None])[:, 0])


class OneTensor(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3, 2))

    def forward(self, x):
        return x @ self.weight


@pytest.mark.parametrize(
    ("model", "sentence"),
    [
        (nn.Linear(3, 2), "has one layer, so it cannot be trained in part"),
        (OneTensor(), "have no order: 'weight' is its last parameter"),
        (Unordered(), "have no order: 'before.weight' is its last parameter"),
    ],
)
def test_a_model_that_cannot_be_cut_is_refused_in_a_sentence(model, sentence):
    with pytest.raises(BadOption, match=sentence):
        Task(model).check_layers()


def test_models_with_an_order_can_be_cut():
    for model in (ImageClassifier(1, 8, 8, 3), CharacterLstm(5)):
        Task(model).check_layers()
    Task(nn.Sequential(nn.Conv1d(1, 2, 1), nn.Flatten(), nn.Linear(2, 2))).check_layers()
