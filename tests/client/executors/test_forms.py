import pytest
import torch

from fedcore import plugins
from fedcore.client.executors.forms import by_module, form_of, scores_of
from fedcore.models.char_lstm.batched import batched_lstm
from fedcore.models.cnn import ImageClassifier
from fedcore.models.cnn.batched import batched_cnn, single_cnn
from fedcore.models.logistic.batched import batched_linear
from fedcore.task import Task

EXAMPLES = {
    "logistic": lambda: torch.randn(3, 4, 5),
    "logistic-sigmoid": lambda: torch.randn(3, 4, 5),
    "cnn": lambda: torch.randn(3, 4, 2, 9, 10),
    "char-lstm": lambda: torch.randint(6, (3, 4, 7)),
}
FORMS = {
    "logistic": [batched_linear(sigmoid=False)],
    "logistic-sigmoid": [batched_linear(sigmoid=True)],
    "cnn": [batched_cnn],
    "char-lstm": [batched_lstm],
}


def stacked(task, clients):
    """Different parameters for every client."""
    start = task.initial_params().items()
    return {n: (v + 0.1 * torch.randn(clients, *v.shape)).requires_grad_() for n, v in start}


def results(form, stack, x, slopes):
    probe = torch.zeros(*x.shape[:2], slopes.shape[-1], requires_grad=True)
    scores, inputs = form(stack, x, probe)
    gradients = torch.autograd.grad((scores.sigmoid() * slopes).sum(), [*stack.values(), probe])
    return [scores, inputs, *gradients]


def one_by_one(task):
    def form(stack, x, probe):
        alone = by_module(task)
        parts = [
            alone({n: v[k : k + 1] for n, v in stack.items()}, x[k : k + 1], probe[k : k + 1])
            for k in range(len(x))
        ]
        scores, inputs = zip(*parts, strict=True)
        return torch.cat(scores), torch.cat(inputs)

    return form


@pytest.mark.parametrize("model", plugins.names("model"))
def test_scores_and_gradients_are_those_of_the_module(model):
    torch.manual_seed(0)
    x = EXAMPLES[model]()
    task = Task(plugins.load("model", model).build(x[0, 0], 6))
    stack, slopes = stacked(task, 3), torch.randn(3, 4, 6)
    expected = results(one_by_one(task), stack, x, slopes)
    for form in (form_of(task), *FORMS[model]):
        for one, other in zip(results(form, stack, x, slopes), expected, strict=True):
            assert torch.allclose(one, other, atol=2e-5)


def test_one_client_of_the_cnn():
    torch.manual_seed(0)
    x = EXAMPLES["cnn"]()[:1]
    task = Task(plugins.load("model", "cnn").build(x[0, 0], 6))
    stack, slopes = stacked(task, 1), torch.randn(1, 4, 6)
    expected = results(one_by_one(task), stack, x, slopes)
    for one, other in zip(results(single_cnn, stack, x, slopes), expected, strict=True):
        assert torch.allclose(one, other, atol=2e-5)


def test_any_model_goes_through_vmap():
    net = torch.nn.Sequential(torch.nn.Linear(5, 4), torch.nn.Tanh(), torch.nn.Linear(4, 6))
    task = Task(net)
    x, stack, slopes = torch.randn(3, 4, 5), stacked(task, 3), torch.randn(3, 4, 6)
    expected = results(one_by_one(task), stack, x, slopes)
    for one, other in zip(results(form_of(task), stack, x, slopes), expected, strict=True):
        assert torch.allclose(one, other, atol=1e-6)
    scores, inputs = form_of(task)(stack, x, None)
    assert torch.allclose(scores, expected[0], atol=1e-6)
    assert inputs is None


@pytest.mark.parametrize("model", plugins.names("model"))
def test_scores_of_one_model_are_those_of_the_module(model):
    torch.manual_seed(0)
    x = EXAMPLES[model]()[0]
    task = Task(plugins.load("model", model).build(x[0], 6))
    params = task.initial_params()
    found = scores_of(task, torch.device("cpu"))(params, x)
    assert torch.allclose(found, task.logits(params, x), atol=1e-5)


def test_a_class_made_of_ours_is_evaluated_as_it_is():
    class Negative(ImageClassifier):
        def forward(self, x):
            return -super().forward(x)

    model = Negative(1, 8, 8, 3)
    x = torch.randn(4, 1, 8, 8)
    scores = scores_of(Task(model), torch.device("cpu"))(Task(model).initial_params(), x)
    assert torch.allclose(scores, model(x), atol=1e-5)
