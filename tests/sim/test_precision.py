"""Forward passes in bfloat16, compiled models, and what goes with neither."""

import pytest
import torch
from torch import nn

import fedcore
from fedcore.coreset.proxies import head_gradients
from fedcore.errors import BadOption
from fedcore.task import Task, Terms

QUICK = {"rounds": 8, "epochs": 3, "clients_per_round": 4, "learning_rate": 0.1}
QUICK |= {"stragglers": 40, "device": "cpu", "strategy": "fedcore"}


def network():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 3))


def clients():
    draw = torch.Generator().manual_seed(0)
    teacher = torch.randn(6, 3, generator=draw)
    inputs = [torch.randn(size, 6, generator=draw) for size in (40, 17, 190, 25, 90)]
    return [(x, (x @ teacher).argmax(1)) for x in inputs]


def test_losses_and_gradients_in_bf16_are_within_the_stated_tolerance():
    """docs/own-model.md states 2 % of the largest residual; eight bits of a mantissa are 0.4 %."""
    x, y = clients()[2]
    exact = Task(network())
    short = Task(network(), terms=Terms(bf16=True))
    params = exact.initial_params()
    one = head_gradients(exact, params, [(x, y)])
    other = head_gradients(short, params, [(x, y)])
    assert other.residuals.dtype == other.inputs.dtype == other.losses.dtype == torch.float32
    assert not torch.equal(one.residuals, other.residuals)
    for plain, rounded in zip(one, other, strict=True):
        assert float((plain - rounded).abs().max()) < 0.02 * float(plain.abs().max())


def test_a_run_in_bf16_ends_near_that_in_float32_and_parameters_stay_float32():
    test = clients()[2]
    exact = fedcore.simulate(clients(), network(), test=test, **QUICK)
    short = fedcore.simulate(clients(), network(), test=test, precision="bf16", **QUICK)
    assert all(value.dtype == torch.float32 for value in short.params.values())
    assert short.final_train_loss == pytest.approx(exact.final_train_loss, rel=0.05)
    assert abs(short.final_test_accuracy - exact.final_test_accuracy) <= 0.02
    assert any(not torch.equal(short.params[n], exact.params[n]) for n in exact.params)


@pytest.mark.parametrize("loss", ["mse", "huber"])
def test_bf16_with_other_losses(loss):
    pairs = [(x, x[:, :2]) for x, _ in clients()]
    model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 2))
    history = fedcore.simulate(pairs, model, loss=loss, precision="bf16", **QUICK)
    assert history.rounds[-1].train_loss < history.rounds[0].train_loss


def test_other_precisions_are_refused():
    with pytest.raises(BadOption, match="precision must be one of float32, bf16, got 'fp8'"):
        fedcore.simulate(clients(), network(), precision="fp8", **QUICK)


def test_a_compiled_model_is_refused_and_the_module_itself_is_trained():
    compiled = torch.compile(network(), backend="eager")
    sentence = "made by torch.compile, whose code takes no parameters from outside; give the module"
    with pytest.raises(BadOption, match=sentence):
        fedcore.simulate(clients(), compiled, **QUICK)
    fedcore.simulate(clients(), compiled._orig_mod, **QUICK | {"rounds": 1})


def test_gradient_accumulation_is_called_what_it_comes_to():
    for name in ("gradient_accumulation_steps", "accumulate_grad_batches"):
        with pytest.raises(BadOption, match=f"no option named '{name}'; did you mean 'batch_size'"):
            fedcore.simulate(clients(), network(), **{name: 4}, **QUICK)
