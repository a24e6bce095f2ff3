"""Models as people bring them: all executors train them as the plain loop does, or say why not."""

import copy

import pytest
import torch
from torch import nn

import fedcore
from fedcore.errors import BadOption
from fedcore.server.merge import aggregation
from fedcore.server.method import Strategy
from fedcore.types import CoresetSpec as Spec
from fedcore.types import LocalPlan, Phase, Way

SIZES = (40, 13, 90, 7, 25, 60, 1, 33)
OPTIONS = {
    "strategy": "fedcore",  # whose coresets go by gradients
    "rounds": 3,
    "epochs": 4,
    "clients_per_round": 6,
    "batch_size": 8,
    "learning_rate": 0.05,
    "stragglers": 50,
    "device": "cpu",
}


def clients(scale=1.0):
    draw = torch.Generator().manual_seed(0)
    teacher = torch.randn(6, 3, generator=draw)
    inputs = [torch.randn(size, 6, generator=draw) for size in SIZES]
    return [(scale * x, (x @ teacher).argmax(1)) for x in inputs]


def trained(model, executor, **options):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return fedcore.simulate(clients(), model(), executor=executor, **{**OPTIONS, **options})


def assert_same_by_all(model, **options):
    expected = trained(model, "sequential", **options).params
    for executor in ("vectorised", "auto"):
        params = trained(model, executor, **options).params
        for name, value in expected.items():
            assert torch.allclose(params[name], value, atol=1e-5), (executor, name)
    return expected


class Cosine(nn.Linear):
    """A linear layer by name, which computes something else."""

    def forward(self, x):
        unit = nn.functional.normalize
        return 5 * nn.functional.linear(unit(x, dim=1), unit(self.weight, dim=1)) + self.bias


class Centred(nn.Module):
    """The samples of a batch see each other."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(6, 8), nn.Linear(8, 3)

    def forward(self, x):
        hidden = torch.tanh(self.first(x))
        return self.last(hidden - hidden.mean(0))


class WithSpare(nn.Module):
    """A layer that is not used, as auxiliary heads often are."""

    def __init__(self):
        super().__init__()
        self.hidden, self.last, self.spare = nn.Linear(6, 8), nn.Linear(8, 3), nn.Linear(8, 3)

    def forward(self, x):
        return self.last(torch.tanh(self.hidden(x)))


class Tied(nn.Module):
    """The last layer shares its weight with an earlier one."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(6, 3)
        self.back = nn.Linear(3, 6)
        self.last = nn.Linear(6, 3)
        self.last.weight = self.first.weight

    def forward(self, x):
        return self.last(torch.tanh(self.back(torch.tanh(self.first(x)))))


class Perceptron(nn.Module):
    """As most people write it."""

    def __init__(self):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(6, 16), nn.Linear(16, 3)

    def forward(self, x):
        return self.fc2(nn.functional.gelu(self.fc1(x.flatten(1))))


def hooked():
    layer = nn.Linear(6, 3)
    layer.register_forward_hook(lambda module, entered, output: 2 * output)
    return layer


def parametrised():
    return nn.utils.parametrizations.weight_norm(nn.Linear(6, 3))


def small_network():
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))


def with_parametrised_head():
    model = small_network()
    nn.utils.parametrizations.weight_norm(model[2])
    return model


def half_frozen():
    model = small_network()
    model[0].requires_grad_(False)
    return model


@pytest.mark.parametrize("model", [lambda: Cosine(6, 3), hooked, parametrised, Centred])
def test_a_model_is_what_it_computes_not_what_it_is_called(model):
    assert_same_by_all(model, strategy="fedavg")


@pytest.mark.parametrize(
    ("model", "head"),
    [
        (WithSpare, "last"),
        (Tied, None),
        (with_parametrised_head, None),
        (Perceptron, None),
        (Perceptron, "fc1"),
    ],
)
@pytest.mark.parametrize("strategy", ["fedavg", "fedcore", "scaffold"])
def test_spare_tied_and_computed_weights(model, head, strategy):
    assert_same_by_all(model, head=head, strategy=strategy)


def test_part_of_a_perceptron_is_trained_alike():
    assert_same_by_all(Perceptron, strategy="timelyfl")


def test_frozen_parameters_stay_as_they_are():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        start = copy.deepcopy(half_frozen().state_dict())
    params = assert_same_by_all(half_frozen)
    assert set(params) == set(start)
    assert torch.equal(params["0.weight"], start["0.weight"])
    assert not torch.equal(params["2.weight"], start["2.weight"])
    half_frozen().load_state_dict(params)


def test_a_model_with_nothing_to_train_is_refused():
    with pytest.raises(BadOption, match="no parameter to train"):
        fedcore.simulate(clients(), nn.Linear(6, 3).requires_grad_(False), **OPTIONS)


@pytest.mark.parametrize(
    "options",
    [
        {"proxy": "logits"},
        {"proxy": "last-layer"},
        {"proxy": "last-layer-input", "gradients": "exact"},
        {"selector": "loss-topk"},
        {"measure_full_gradient": True},
    ],
)
def test_gradients_of_a_linear_model_on_several_threads(options):
    """And the caller's model stays as it is."""
    expected = trained(lambda: nn.Linear(6, 3), "sequential", **options).params
    torch.manual_seed(0)
    for _ in range(3):
        own = nn.Linear(6, 3)
        with torch.random.fork_rng():
            torch.manual_seed(0)
            own.reset_parameters()
        before = copy.deepcopy(own.state_dict())
        params = fedcore.simulate(clients(), own, threads=4, **{**OPTIONS, **options}).params
        assert isinstance(own.weight, nn.Parameter)
        for name, value in expected.items():
            assert torch.allclose(params[name], value, atol=1e-5)
            assert torch.equal(own.state_dict()[name], before[name])


@pytest.mark.parametrize("executor", ["sequential", "vectorised", "auto"])
def test_a_client_that_diverges_in_its_first_epoch_is_left_out(executor):
    layers = [nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 3)]
    options = {**OPTIONS, "learning_rate": 1e30, "executor": executor}
    torch.manual_seed(0)
    history = fedcore.simulate(clients(scale=100), nn.Sequential(*layers), **options)
    assert sum(record.rejected for record in history.rounds) > 0
    assert all(bool(torch.isfinite(value).all()) for value in history.params.values())


def with_dropout():
    return nn.Sequential(nn.Linear(6, 32), nn.Dropout(0.5), nn.Tanh(), nn.Linear(32, 3))


@pytest.mark.parametrize("executor", ["sequential", "auto"])
def test_dropout_follows_the_seed_and_is_off_in_evaluations(executor):
    first, second = (trained(with_dropout, executor, test=clients()[0]) for _ in range(2))
    for name in first.params:
        assert torch.equal(first.params[name], second.params[name])
    standing = {"learning_rate": 1e-30, "strategy": "fedavg"}
    history = trained(with_dropout, executor, test=clients()[0], **standing)
    losses = [record.test_loss for record in history.rounds]
    assert losses == [losses[0]] * 3


def test_random_numbers_of_the_caller_are_not_touched():
    model = with_dropout()
    before = torch.get_rng_state()
    fedcore.simulate(clients(), model, **OPTIONS)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("executor", ["sequential", "vectorised", "compiled"])
def test_a_batch_larger_than_everybody_costs_no_more_than_who_has_most(executor):
    options = {"strategy": "fedavg", "executor": executor}
    huge, most = (
        trained(lambda: nn.Linear(6, 3), batch_size=size, **options) for size in (10**6, max(SIZES))
    )
    for name, value in most.params.items():
        assert torch.equal(huge.params[name], value)


def by_gradients(*phases):
    plan = LocalPlan(phases, Way.CORESET)
    return Strategy(lambda client, deadline, epochs: plan, aggregation("mean"))


GRADIENTS = Spec(5, "kcenter", "logits")


@pytest.mark.parametrize("executor", ["sequential", "vectorised", "compiled"])
@pytest.mark.parametrize(
    "phases",
    [
        (Phase(2, GRADIENTS),),
        (Phase(2), Phase(2, GRADIENTS)),
        (Phase(1, Spec(5, "kcenter", "input")), Phase(2, GRADIENTS)),
    ],
)
def test_a_plan_whose_coreset_lacks_gradients_is_refused(phases, executor):
    options = {**OPTIONS, "executor": executor, "strategy": by_gradients(*phases)}
    with pytest.raises(BadOption, match="right behind one epoch on everything"):
        fedcore.simulate(clients(), nn.Linear(6, 3), **options)


class Pooled(nn.Module):
    """Its last layer runs at three positions of a sample, side by side or one below the other."""

    def __init__(self, *, below=False):
        super().__init__()
        self.first, self.last, self.below = nn.Linear(2, 4), nn.Linear(4, 3), below

    def forward(self, x):
        rows = x.reshape(3 * len(x), 2) if self.below else x.reshape(len(x), 3, 2)
        return self.last(torch.tanh(self.first(rows))).reshape(len(x), 3, 3).mean(1)


@pytest.mark.parametrize("proxy", ["last-layer-input", "logits"])
def test_a_head_that_runs_at_several_positions_of_a_sample(proxy):
    assert_same_by_all(Pooled, proxy=proxy)


@pytest.mark.parametrize("executor", ["sequential", "vectorised"])
def test_a_head_without_a_row_a_sample_is_named(executor):
    with pytest.raises(BadOption, match="not one row a sample; name another layer as head"):
        fedcore.simulate(clients(), Pooled(below=True), executor=executor, **OPTIONS)
    with pytest.raises(BadOption, match="runs at several positions; use 'logits'"):
        trained(Pooled, executor, proxy="last-layer")
