import numpy as np
import pytest
import torch
from torch import nn

pytest.importorskip("numba")

from fedcore.client.executors.linear import chain_of
from fedcore.client.executors.linear_kernel import train_chain
from fedcore.task import Task
from fedcore.types import ClientData

INDEX = np.array([[0, 3, 5], [7, 1, 0], [2, 8, 4]])
COEFFICIENT = np.array([[0.2, 0.5, 0.3], [0.6, 0.4, 0.0], [0.1, 0.2, 0.7]], dtype=np.float32)
RATE = 0.3
CHAINS = {
    "linear": lambda: nn.Linear(5, 3),
    "linear, no bias": lambda: nn.Linear(5, 3, bias=False),
    "sigmoid behind": lambda: nn.Sequential(nn.Linear(5, 3), nn.Sigmoid()),
    "two linear": lambda: nn.Sequential(nn.Linear(5, 4), nn.Linear(4, 3)),
    "relu": lambda: nn.Sequential(nn.Linear(5, 40), nn.ReLU(), nn.Linear(40, 3)),
    "leaky": lambda: nn.Sequential(nn.Linear(5, 7, bias=False), nn.LeakyReLU(0.2), nn.Linear(7, 3)),
    "tanh": lambda: nn.Sequential(nn.Linear(5, 33), nn.Tanh(), nn.Linear(33, 3, bias=False)),
    "silu, gelu": lambda: nn.Sequential(
        *(nn.Linear(5, 8), nn.SiLU(), nn.Linear(8, 17), nn.GELU(), nn.Linear(17, 3), nn.Tanh())
    ),
    "sigmoid": lambda: nn.Sequential(nn.Linear(5, 6), nn.Sigmoid(), nn.Linear(6, 3)),
}


def samples():
    draw = torch.Generator().manual_seed(0)
    return ClientData(torch.randn(9, 5, generator=draw), torch.randint(3, (9,), generator=draw))


def flat(tensors):
    return torch.cat([value.detach().flatten() for value in tensors]).numpy().copy()


def walk(model, data, index, coefficient, numbers, shift=None, *, first=0, noted=0, watch=False):
    """Parameters behind the walk, sums of losses, and what was seen."""
    task = Task(model)
    chain = chain_of(task, {0: data})
    w, begin = flat(model.parameters()), 0
    for layer in chain[:first]:
        begin += int(layer[0] * layer[1] + layer[2])
    shift = np.empty(0, np.float32) if shift is None else flat(shift)
    plain = numbers[3:] == [0.0, 0.0, np.inf] and (
        len(chain) == 1 or (numbers[1] == 0 and len(shift) == 0)
    )
    memory, room = np.zeros((0 if plain else 2, len(w)), np.float32), len(data) if watch else 0
    shapes = (room, int(chain[-1, 1])), (room, int(chain[-1, 0])), room
    seen = (*(np.full(shape, np.nan, np.float32) for shape in shapes), np.zeros(2))
    rule = w.copy(), shift, memory, np.array(numbers)
    tape = data.x.numpy(), data.y.numpy(), index, coefficient
    train_chain(w, chain, tape, rule, (len(index) if watch else noted, first, begin), seen)
    return w, seen


def by_autograd(model, data, numbers, shift=None):
    """The same by autograd, ``clip_grad_norm_`` and ``torch.optim.SGD``; losses of every step."""
    rate, mu, scale, momentum, decay, clip = numbers
    trained = [value for value in model.parameters() if value.requires_grad]
    anchor = [value.detach().clone() for value in trained]
    optimiser = torch.optim.SGD(trained, rate, momentum, weight_decay=decay)
    told = []
    for rows, own in zip(INDEX, torch.from_numpy(COEFFICIENT), strict=True):
        x, y = data.take(torch.from_numpy(rows))
        losses = nn.functional.cross_entropy(model(x), y, reduction="none")
        told.append(losses[own > 0].detach().double())
        pull = sum(((a - b) ** 2).sum() for a, b in zip(trained, anchor, strict=True))
        optimiser.zero_grad()
        (scale * (own * losses).sum() + mu / 2 * pull).backward()
        for value, added in zip(trained, shift or [], strict=bool(shift)):
            value.grad += added
        nn.utils.clip_grad_norm_(trained, clip)
        optimiser.step()
    return flat(model.parameters()), told


@pytest.mark.parametrize("shifted", [False, True])
@pytest.mark.parametrize(("mu", "scale"), [(0.0, 1.0), (0.4, 1.0), (0.4, 2.5)])
@pytest.mark.parametrize("kind", CHAINS)
def test_steps_are_those_of_autograd(kind, mu, scale, shifted):
    torch.manual_seed(1)
    model, data = CHAINS[kind](), samples()
    shift = [torch.randn_like(value) for value in model.parameters()] if shifted else None
    numbers = [RATE, mu, scale, 0.0, 0.0, np.inf]
    found = [walk(model, data, INDEX, COEFFICIENT, numbers, shift, noted=n) for n in (0, 1, 3)]
    expected, told = by_autograd(model, data, numbers, shift)
    for (w, (*_, sums)), noted in zip(found, (0, 1, 3), strict=True):
        assert np.allclose(w, expected, atol=1e-5)
        losses = torch.cat(told[:noted]) if noted else torch.zeros(0)
        assert sums == pytest.approx((float(losses.sum()), float((losses**2).sum())), rel=1e-5)


@pytest.mark.parametrize(
    "how", [(0.9, 0.0, np.inf), (0.0, 0.3, np.inf), (0.0, 0.0, 0.2), (0.8, 0.3, 0.2)]
)
@pytest.mark.parametrize("kind", ["linear", "linear, no bias", "tanh", "silu, gelu"])
def test_momentum_decay_and_clipping_are_those_of_torch(kind, how):
    torch.manual_seed(1)
    model, data = CHAINS[kind](), samples()
    shift = [torch.randn_like(value) for value in model.parameters()]
    numbers = [RATE, 0.4, 2.5, *how]
    found, _ = walk(model, data, INDEX, COEFFICIENT, numbers, shift)
    assert np.allclose(found, by_autograd(model, data, numbers, shift)[0], atol=1e-5)


@pytest.mark.parametrize("how", [(0.0, 0.0, np.inf), (0.8, 0.3, 0.2)])
@pytest.mark.parametrize("mu", [0.0, 0.4])
@pytest.mark.parametrize("first", [1, 2])
def test_first_layers_stay_where_the_last_are_trained(first, mu, how):
    torch.manual_seed(1)
    model, data = CHAINS["silu, gelu"](), samples()
    numbers = [RATE, mu, 1.0, *how]
    found, _ = walk(model, data, INDEX, COEFFICIENT, numbers, first=first)
    layers = [module for module in model if isinstance(module, nn.Linear)]
    for layer in layers[:first]:
        layer.requires_grad_(False)
    assert np.allclose(found, by_autograd(model, data, numbers)[0], atol=1e-5)


@pytest.mark.parametrize("kind", CHAINS)
def test_what_is_seen_are_gradients_and_inputs_of_the_last_layer(kind):
    """At the parameters at which each sample was met: here those of the start."""
    torch.manual_seed(1)
    model, data = CHAINS[kind](), samples()
    index, coefficient = np.arange(9)[::-1].reshape(1, 9).copy(), np.full((1, 9), 1 / 9, np.float32)
    numbers = [RATE, 0.0, 1.0, 0.0, 0.0, np.inf]
    _, seen = walk(model, data, index, coefficient, numbers, watch=True)
    task = Task(model)
    probe = torch.zeros(len(data), task.head_width, requires_grad=True)
    scores, entered = task.forward(task.initial_params(), data.x, probe)
    losses = nn.functional.cross_entropy(scores, data.y, reduction="none")
    (residuals,) = torch.autograd.grad(losses.sum(), probe)
    expected = (residuals, entered.detach(), losses.detach())
    for found, value in zip(seen[:3], expected, strict=True):
        assert np.allclose(found, value.numpy(), atol=1e-6)


def test_a_step_of_padding_alone_changes_nothing_not_even_with_a_pull_or_a_shift():
    """A finished client must not drift towards the anchor while others still train."""
    for kind, momentum in (("linear", 0.0), ("linear", 0.9), ("tanh", 0.0)):
        torch.manual_seed(1)
        model, data = CHAINS[kind](), samples()
        shift = [torch.ones_like(value) for value in model.parameters()]
        once = np.zeros((5, 2), np.float32)
        once[0] = 0.5
        index, numbers = np.zeros((5, 2), np.int64), [0.1, 0.9, 1.0, momentum, 0.0, np.inf]
        long, (*_, long_sums) = walk(model, data, index, once, numbers, shift, noted=5)
        short, (*_, short_sums) = walk(model, data, index[:1], once[:1], numbers, shift, noted=5)
        assert np.array_equal(long, short)
        assert np.array_equal(long_sums, short_sums)
