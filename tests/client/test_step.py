import dataclasses

import pytest
import torch
from torch import nn

from fedcore.client.executors.stacked_model import form_of
from fedcore.client.step import Batch, Memory, StepRule, stacked_step, step
from fedcore.models.cnn import ImageClassifier
from fedcore.task import Task
from fedcore.types import TrainingSettings


def a_model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3))


def a_batch(size=6):
    draw = torch.Generator().manual_seed(1)
    x = torch.randn(size, 4, generator=draw)
    y = torch.randint(3, (size,), generator=draw)
    return Batch(x, y, torch.rand(size, generator=draw) + 0.1)


def near(params, seed=3):
    draw = torch.Generator().manual_seed(seed)
    return {n: v + 0.5 * torch.randn(v.shape, generator=draw) for n, v in params.items()}


def test_a_plain_step_is_a_step_of_torch_sgd_and_tells_the_losses_before_it():
    model, batch = a_model(), a_batch()
    task = Task(a_model())
    start = task.initial_params()
    moved, told, seen = step(task, start, batch, StepRule(0.1, 0.0, start))
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = nn.functional.cross_entropy(model(batch.x), batch.y, reduction="none")
    (batch.coefficient * losses).sum().backward()
    optimiser.step()
    for name, value in model.named_parameters():
        assert torch.allclose(moved[name], value, atol=1e-7)
    assert torch.allclose(told, losses, atol=1e-7)
    assert seen is None


def test_the_whole_rule_is_autograd_of_what_it_descends():
    """s Σ coefficient_j L_j + μ/2 ||w - anchor||² as FedProx writes it, and <shift, w>."""
    task, batch = Task(a_model()), a_batch()
    start = task.initial_params()
    anchor, shift = near(start), near(start, seed=4)
    moved, *_ = step(task, start, batch, StepRule(0.1, 0.7, anchor, 1.5, shift))
    leaves = {name: value.clone().requires_grad_() for name, value in start.items()}
    losses = nn.functional.cross_entropy(task.logits(leaves, batch.x), batch.y, reduction="none")
    distance = sum(((leaves[n] - anchor[n]) ** 2).sum() for n in leaves)
    along = sum((shift[n] * leaves[n]).sum() for n in leaves)
    (1.5 * (batch.coefficient * losses).sum() + 0.7 / 2 * distance + along).backward()
    for name, value in leaves.items():
        assert torch.allclose(moved[name], start[name] - 0.1 * value.grad, atol=1e-6)


def test_a_step_leaves_what_it_was_given_alone():
    task, batch = Task(a_model()), a_batch()
    start = task.initial_params()
    before = {name: value.clone() for name, value in start.items()}
    step(task, start, batch, StepRule(0.1, 0.1, start, 2.0, near(start)))
    assert all(torch.equal(start[name], before[name]) for name in start)


def test_watching_changes_nothing_and_sees_each_samples_own_gradient():
    task, batch = Task(a_model()), a_batch()
    start = task.initial_params()
    rule = StepRule(0.1, 0.0, start, 3.0)
    moved, losses, seen = step(task, start, batch, rule, watch=True)
    plain, *_ = step(task, start, batch, rule)
    assert all(torch.equal(moved[name], plain[name]) for name in plain)
    assert torch.equal(seen.losses, losses)
    for j in range(len(batch.y)):
        hidden = torch.tanh(batch.x[j] @ start["0.weight"].T + start["0.bias"])
        z = hidden.clone().requires_grad_()
        scores = z @ start["2.weight"].T + start["2.bias"]
        nn.functional.cross_entropy(scores[None], batch.y[j : j + 1]).backward()
        assert torch.allclose(seen.inputs[j], hidden, atol=1e-6)
        assert torch.allclose(seen.residuals[j] @ start["2.weight"], z.grad, atol=1e-6)


@pytest.mark.parametrize("watch", [False, True])
def test_one_forward_pass_per_step(watch):
    model, batch = a_model(), a_batch()
    calls = []
    model.register_forward_hook(lambda *_: calls.append(1))
    task = Task(model)
    start = task.initial_params()
    step(task, start, batch, StepRule(0.1, 0.0, start), watch=watch)
    assert len(calls) == 1


@pytest.mark.parametrize("shifted", [False, True])
@pytest.mark.parametrize("pulls", [None, (0.5, 0.0, 0.7)])
@pytest.mark.parametrize("scales", [None, (1.0, 2.5, 4.0)])
def test_stacked_clients_take_each_its_own_step_and_one_of_padding_alone_changes_nothing(
    build_client, scales, pulls, shifted
):
    task = Task(nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)))
    anchor = task.initial_params()
    start = {n: v + torch.randn(3, *v.shape) for n, v in anchor.items()}
    shift = {n: torch.randn_like(v) for n, v in start.items()} if shifted else None
    stack = {n: v.clone().requires_grad_() for n, v in start.items()}
    clients = [build_client(5, seed=seed) for seed in range(3)]
    coefficient = torch.tensor([[0.1, 0.3, 0.2, 0.4, 0.5], [0.2, 0.6, 0, 0, 0], [0.0] * 5])
    batch = Batch(
        torch.stack([c.x for c in clients]), torch.stack([c.y for c in clients]), coefficient
    )
    rule = StepRule(
        0.1,
        0.0 if pulls is None else torch.tensor(pulls),
        anchor,
        1.0 if scales is None else torch.tensor(scales),
        shift,
    )
    losses, seen = stacked_step(form_of(task), stack, batch, rule, task.head_width)
    for k in range(2):
        real = coefficient[k] > 0
        own = {n: v[k] for n, v in start.items()}
        samples = Batch(clients[k].x[real], clients[k].y[real], coefficient[k][real])
        alone = StepRule(
            0.1,
            pulls[k] if pulls else 0.0,
            anchor,
            scales[k] if scales else 1.0,
            {n: v[k] for n, v in shift.items()} if shifted else None,
        )
        moved, told, watched = step(task, own, samples, alone, watch=True)
        rows = torch.nonzero(real)[:, 0] + 5 * k
        assert torch.allclose(losses[rows], told, atol=1e-6)
        assert torch.allclose(seen.residuals[rows], watched.residuals, atol=1e-6)
        assert torch.allclose(seen.inputs[rows], watched.inputs, atol=1e-6)
        assert torch.allclose(seen.losses[rows], watched.losses, atol=1e-6)
        assert all(torch.allclose(stack[n][k], moved[n], atol=1e-6) for n in moved)
    assert all(torch.equal(stack[n][2], start[n][2]) for n in start)


OPTIMISERS = {
    "momentum": {"momentum": 0.9},
    "weight decay": {"weight_decay": 0.3},
    "clipped": {"clip_norm": 0.4},
    "momentum, decay, clipped": {"momentum": 0.8, "weight_decay": 0.3, "clip_norm": 0.4},
    "adam": {"adam": True},
    "adam, decay, clipped": {"adam": True, "weight_decay": 0.3, "clip_norm": 0.4},
}
# The second in float64: Adam divides gradients by their size, and tiny ones show how they round.
MODELS = {
    "dense": (a_model, (4,)),
    "convolutions": (lambda: ImageClassifier(1, 4, 4, 3).double(), (1, 4, 4)),
}


def settings_of(name, rate=0.05):
    return TrainingSettings(rate, 8, **OPTIMISERS[name])


def of_torch(name, parameters, rate=0.05):
    """torch's own optimiser, and its step behind its own clipping."""
    own = dict(OPTIMISERS[name])
    limit = own.pop("clip_norm", None)
    kind = torch.optim.Adam if own.pop("adam", False) else torch.optim.SGD
    parameters = list(parameters)
    optimiser = kind(parameters, lr=rate, **own)

    def move():
        if limit is not None:
            nn.utils.clip_grad_norm_(parameters, limit)
        optimiser.step()
        optimiser.zero_grad()

    return move


def batches(count, shape, rows=6, seed=1):
    draw = torch.Generator().manual_seed(seed)
    for _ in range(count):
        x = torch.randn(rows, *shape, generator=draw)
        x = x.double() if len(shape) > 1 else x
        y = torch.randint(3, (rows,), generator=draw)
        yield Batch(x, y, torch.rand(rows, generator=draw) + 0.1)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("name", OPTIMISERS)
def test_steps_are_those_of_torch_optim(name, model):
    """With the whole rule under clip: s g + mu (w - anchor) + shift is the gradient it gets."""
    torch.manual_seed(0)
    module, shape = MODELS[model][0](), MODELS[model][1]
    task = Task(module)
    params = start = task.initial_params()
    anchor, shift = near(start), near({n: torch.zeros_like(v) for n, v in start.items()}, 4)
    shift = {n: 0.1 * v for n, v in shift.items()}
    memory = Memory.blank(settings_of(name), {n: v[None] for n, v in start.items()})
    rule = StepRule(0.05, 0.2, anchor, 1.5, shift, memory)
    move = of_torch(name, module.parameters())
    for batch in batches(7, shape):
        losses = nn.functional.cross_entropy(module(batch.x), batch.y, reduction="none")
        (1.5 * (batch.coefficient * losses).sum()).backward()
        for n, p in module.named_parameters():
            p.grad += 0.2 * (p.detach() - anchor[n]) + shift[n]
        move()
        params, *_ = step(task, params, batch, rule)
        for n, p in module.named_parameters():
            assert torch.allclose(params[n], p, rtol=0, atol=1e-6)
    assert any(not torch.allclose(params[n], start[n], atol=1e-3) for n in start)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("name", OPTIMISERS)
def test_stacked_clients_have_each_an_optimiser_that_padding_leaves_alone(name, model):
    """Each equal to torch.optim on its own steps; they are stepped at different times."""
    build, shape = MODELS[model]
    modules = []
    for seed in range(3):
        torch.manual_seed(seed)
        modules.append(build())
    moves = [of_torch(name, module.parameters()) for module in modules]
    tasks = [Task(module) for module in modules]
    starts = [task.initial_params() for task in tasks]
    stack = {n: torch.stack([s[n] for s in starts]).requires_grad_() for n in starts[0]}
    memory = Memory.blank(settings_of(name), stack)
    anchor = {n: torch.zeros_like(v) for n, v in starts[0].items()}
    rule = StepRule(0.05, 0.0, anchor, memory=memory)
    at_work = [(1, 1, 0), (1, 0, 0), (0, 1, 0), (1, 0, 1), (1, 1, 1), (0, 1, 1)]
    for number, present in enumerate(at_work):
        own = [next(batches(1, shape, seed=10 * number + k)) for k in range(3)]
        coefficient = torch.stack([b.coefficient * p for b, p in zip(own, present, strict=True)])
        batch = Batch(torch.stack([b.x for b in own]), torch.stack([b.y for b in own]), coefficient)
        stacked_step(form_of(tasks[0]), stack, batch, rule, None)
        for k in range(3):
            if present[k]:
                scores = modules[k](own[k].x)
                losses = nn.functional.cross_entropy(scores, own[k].y, reduction="none")
                (own[k].coefficient * losses).sum().backward()
                moves[k]()
            for n, p in modules[k].named_parameters():
                assert torch.allclose(stack[n][k], p, rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", [None, *OPTIMISERS])
def test_what_is_frozen_does_not_move_and_counts_in_no_norm(name):
    """As torch.optim over the other parameters alone; client 1 of the stack trains everything."""
    settings = TrainingSettings(0.05, 8) if name is None else settings_of(name)
    task, batch = Task(a_model()), a_batch()
    start = task.initial_params()
    anchor = near(start)
    head = {n: float(n.startswith("2.")) for n in start}
    memory = Memory.blank(settings, {n: v[None] for n, v in start.items()})
    rule = StepRule(0.05, 0.2, anchor, 1.0, None, memory, head)
    module = a_model()
    for n, p in module.named_parameters():
        p.requires_grad_(head[n] > 0)
    trained = [p for p in module.parameters() if p.requires_grad]
    move = torch.optim.SGD(trained, lr=0.05).step if name is None else of_torch(name, trained)
    params = start
    stack = {n: torch.stack([v, v]).requires_grad_() for n, v in start.items()}
    masks = {n: torch.tensor([own, 1.0]) for n, own in head.items()}
    both = StepRule(0.05, torch.tensor([0.2, 0.2]), anchor, 1.0, None, None, masks)
    both = dataclasses.replace(both, memory=Memory.blank(settings, stack))
    twice = Batch(*(torch.stack([v, v]) for v in (batch.x, batch.y, batch.coefficient)))
    for _ in range(3):
        module.zero_grad()
        losses = nn.functional.cross_entropy(module(batch.x), batch.y, reduction="none")
        (batch.coefficient * losses).sum().backward()
        for n, p in module.named_parameters():
            if p.requires_grad:
                p.grad += 0.2 * (p.detach() - anchor[n])
        move()
        params, *_ = step(task, params, batch, rule)
        stacked_step(form_of(task), stack, twice, both, None)
    for n, p in module.named_parameters():
        assert torch.allclose(params[n], p, rtol=0, atol=1e-6)
        assert torch.allclose(stack[n][0], p, rtol=0, atol=1e-6)
        assert torch.equal(params[n], start[n]) == (head[n] == 0)
        assert not torch.equal(stack[n][1], start[n])
