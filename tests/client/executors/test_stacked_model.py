import pytest
import torch

from fedcore import plugins
from fedcore.client.executors.stacked_model import (
    by_module,
    bytes_of_a_step,
    form_of,
    scores_of,
)
from fedcore.models.cnn import ImageClassifier
from fedcore.task import Task
from fedcore.types import ClientData

CPU = torch.device("cpu")

EXAMPLES = {
    "logistic": lambda: torch.randn(3, 4, 5),
    "logistic-sigmoid": lambda: torch.randn(3, 4, 5),
    "cnn": lambda: torch.randn(3, 4, 2, 9, 10),
    "char-lstm": lambda: torch.randint(6, (3, 4, 7)),
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
    for form in (form_of(task), task.model.stacked_form):
        for one, other in zip(results(form, stack, x, slopes), expected, strict=True):
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


def test_what_a_class_brings_is_not_that_of_a_class_made_of_it():
    """Nor of a model with hooks, or with something frozen: these compute what their module does."""

    class Bringing(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(5, 6)

        def forward(self, x):
            return self.linear(x)

        def stacked_form(self, params, x, probe):
            return torch.zeros(*x.shape[:2], 6), x

    class Heir(Bringing):
        pass

    hooked, frozen = Bringing(), Bringing()
    hooked.register_forward_hook(lambda module, entered, output: 2 * output)
    frozen.linear.bias.requires_grad_(False)
    x = torch.randn(3, 4, 5)
    task = Task(Bringing())
    assert form_of(task)(stacked(task, 3), x, None)[0].abs().sum() == 0
    for model in (Heir(), hooked, frozen):
        task = Task(model)
        assert form_of(task)(stacked(task, 3), x, None)[0].abs().sum() > 0


class Recurrent(torch.nn.Module):
    """torch.nn.GRU has no rule for vmap."""

    def __init__(self):
        super().__init__()
        self.cells = torch.nn.GRU(3, 4, batch_first=True)
        self.head = torch.nn.Linear(4, 2)

    def forward(self, x):
        return self.head(self.cells(x)[0][:, -1])


def test_bytes_grow_with_the_batch(build_client):
    task = Task(torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2)))
    small, large = (
        bytes_of_a_step(task, build_client(20), size, clients=2, device=CPU) for size in (2, 20)
    )
    assert 3 * 4 * 26 < small < large


def test_a_model_without_a_rule_can_be_trained_alone():
    data = ClientData(torch.randn(6, 5, 3), torch.randint(2, (6,)))
    assert bytes_of_a_step(Task(Recurrent()), data, 4, clients=2, device=CPU) is None
    assert bytes_of_a_step(Task(Recurrent()), data, 4, clients=1, device=CPU) is not None


class Centred(torch.nn.Module):
    """Scores of a sample depend on those beside it."""

    def __init__(self):
        super().__init__()
        self.last = torch.nn.Linear(3, 2)

    def forward(self, x):
        return self.last(x - x.mean(0))


def test_a_model_whose_samples_see_each_other_cannot_be_padded(build_client):
    for clients in (1, 2):
        task = Task(Centred())
        assert bytes_of_a_step(task, build_client(20), 4, clients=clients, device=CPU) is None
        assert bytes_of_a_step(task, build_client(1), 4, clients=clients, device=CPU) is None


def test_bytes_are_those_of_a_whole_batch_however_few_samples_the_example_has(build_client):
    task = Task(torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2)))
    few, many = (
        bytes_of_a_step(task, build_client(size), 64, clients=2, device=CPU) for size in (1, 200)
    )
    assert few == many


def test_a_model_that_may_draw_is_found_out_also_where_the_draw_changes_nothing():
    class Drawing(torch.nn.Linear):
        def forward(self, x):
            torch.rand(1)
            return super().forward(x)

    data = ClientData(torch.randn(6, 3), torch.randint(2, (6,)))
    task = Task(Drawing(3, 2))
    before = torch.get_rng_state()
    assert bytes_of_a_step(task, data, 4, clients=1, device=CPU) is None
    assert torch.equal(torch.get_rng_state(), before)
