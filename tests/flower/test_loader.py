"""``on_time``: what a user's own loop is handed, in which proportions, and for how long."""

import logging
import time
from collections import Counter

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler, IterableDataset, TensorDataset

pytest.importorskip("flwr")

from flwr.app import ArrayRecord
from tests.flower.client_side import FakeTime, context, coreset_plan, message, order_for

from fedcore.errors import BadOption
from fedcore.flower import loader, on_time
from fedcore.flower.wire import SHIFT, read_report
from fedcore.types import SIT_OUT, CoresetSpec, LocalPlan, Phase, Way

COUNT, SPEED = 100, 2.0  # samples, and samples a second of the fake device


@pytest.fixture(autouse=True)
def _warm(monkeypatch, _compiled):
    monkeypatch.setattr("fedcore.flower.turn.is_warm", lambda _: True)


@pytest.fixture(scope="module")
def _compiled():
    """Choosing has a limit of real seconds, in which nothing should have to be compiled."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("fedcore.flower.turn.is_warm", lambda _: True)
        device = Device(coreset_plan(7), shuffle=False)
        for x in plain(device.model, device.batches(), torch.optim.SGD(device.model.parameters())):
            device.time.now += len(x) / SPEED


class Device:
    """A client whose every sample is its own number, on a clock that training moves."""

    def __init__(self, plan, *, deadline=100.0, back=0.0, count=COUNT, **loader):
        torch.manual_seed(0)
        self.time, self.context = FakeTime(), context()
        self.order = order_for(plan, deadline=deadline, back=back)
        self.x, self.y = torch.randn(count, 5), torch.randint(0, 3, (count,))
        self.x[:, 0] = torch.arange(count)
        self.model = nn.Sequential(nn.LayerNorm(5), nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 3))
        loader = {"batch_size": 8, "shuffle": True, **loader}
        self.loader = DataLoader(TensorDataset(self.x, self.y), **loader)
        self.speed = SPEED

    def batches(self, model=None):
        clock = self.time.clock()
        own = model or self.model
        return on_time(self.loader, own, message(self.order), self.context, clock=clock)

    def train(self, batches, *, learning_rate=0.0, model=None):
        """The plainest loop; gives the numbers of the samples of every batch."""
        model, met = model or self.model, []
        optimiser = torch.optim.SGD(model.parameters(), lr=learning_rate)
        for x, y in batches:
            optimiser.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimiser.step()
            met.append([int(number) for number in x[:, 0]])
            self.time.now += len(x) / self.speed
        return met


def flat(met):
    return [number for batch in met for number in batch]


def test_the_first_epoch_is_everything_then_a_coreset_that_fills_the_time():
    device = Device(coreset_plan(7))
    batches = device.batches()
    met = device.train(batches)
    assert sorted(flat(met[:13])) == list(range(COUNT))
    # 98 of 100 seconds, 50 for the first epoch, 1.5 for the choice: 46.5 · 2 / 3 epochs = 31.
    report, examples = read_report(batches.report())
    assert (report.coreset_size, report.work, examples) == (31, COUNT + 3 * 31, COUNT)
    assert (report.steps, report.cut_short, report.fell_back) == (13 + 3 * 4, 0, 0)
    assert report.training_seconds == pytest.approx(report.work / SPEED)
    assert len(set(flat(met[13:]))) <= 31


def test_a_server_that_thought_too_well_of_a_device_is_corrected():
    device = Device(coreset_plan(90), deadline=80.0)
    batches = device.batches()
    device.train(batches)
    assert batches.report()["coreset-size"] == int((78.4 - 50 - 1.5) * SPEED / 3)
    assert batches.report()["handler-seconds"] <= 78.4


@pytest.mark.parametrize("factor", [1, 2, 5, 20])
def test_it_ends_in_time_also_if_the_device_slows_down_after_the_first_epoch(factor):
    device = Device(coreset_plan(50))
    batches = device.batches()
    for step, (x, _) in enumerate(batches):
        device.time.now += (factor if step >= 13 else 1) * len(x) / SPEED
    assert device.time.now <= 98.0 or factor == 20  # one step alone lasts 80 seconds there
    assert batches.report()["cut-short"] == int(factor > 1)


def test_an_epoch_that_does_not_fit_is_cut():
    device = Device(coreset_plan(50), deadline=20.0)
    batches = device.batches()
    met = device.train(batches)
    assert len(met) == 4  # of 4 seconds each: a fifth would end at 20 > 19.6
    assert batches.report()["cut-short"] == 1
    assert batches.report()["coreset-size"] == 0


def test_draws_are_in_proportion_to_weights():
    device = Device(coreset_plan(2, epochs=500), deadline=50 / 0.98 + 1.5 / 0.98 + 520 / 0.98)
    device.x[:90] = torch.tensor([1.0, 2, 3, 4, 5])
    device.x[90:] = torch.tensor([9.0, -2, 0, 4, -5])
    device.y[:90], device.y[90:] = 0, 1
    met = flat(device.train(device.batches())[13:])
    counts = Counter(met)
    assert set(counts) == {1, 9}
    assert len(met) == 1000
    assert abs(counts[1] - 900) < 4 * np.sqrt(1000 * 0.9 * 0.1)


@pytest.mark.parametrize("epochs", [1, 3])
def test_whole_epochs_are_the_loaders_own(epochs):
    device = Device(LocalPlan((Phase(epochs),), Way.FULL), deadline=1000.0)
    batches = device.batches()
    met = device.train(batches)
    for epoch in range(epochs):
        assert sorted(flat(met[13 * epoch : 13 * epoch + 13])) == list(range(COUNT))
    assert batches.report()["work"] == epochs * COUNT


def test_who_sits_out_gets_nothing():
    device = Device(SIT_OUT)
    batches = device.batches()
    assert list(batches) == []
    assert (batches.report()["steps"], batches.report()["num-examples"]) == (0, COUNT)


def test_a_second_iteration_yields_nothing():
    device = Device(coreset_plan(7))
    batches = device.batches()
    assert len(device.train(batches)) > 0
    assert list(batches) == []


def test_a_loop_may_ask_what_it_is_handed_for_what_a_loader_has():
    """As loops of Flower's examples do, which have epochs of their own and mean losses."""

    def train(net, trainloader, epochs):
        optimiser, running, right = torch.optim.SGD(net.parameters(), lr=0.0), 0.0, 0
        for epoch in range(epochs):
            trainloader.sampler.set_epoch(epoch)
            for x, y in trainloader:
                optimiser.zero_grad()
                scores = net(x)
                loss = nn.functional.cross_entropy(scores, y)
                loss.backward()
                optimiser.step()
                running, right = running + loss.item(), right + int((scores.argmax(1) == y).sum())
        mean = running / (epochs * len(trainloader))
        return mean, right / (epochs * len(trainloader.dataset)), trainloader.batch_size

    dataset = Device(SIT_OUT).loader.dataset
    sampler = DistributedSampler(dataset, num_replicas=1, rank=0)
    device = Device(LocalPlan((Phase(3),), Way.FULL), shuffle=False, sampler=sampler)
    loss, accuracy, size = train(device.model, batches := device.batches(), 3)
    x, y = device.x, device.y
    scores = device.model(x)
    assert accuracy == pytest.approx(float((scores.argmax(1) == y).float().mean()))
    assert loss == pytest.approx(nn.functional.cross_entropy(scores, y).item(), rel=0.1)
    assert (size, batches.report()["steps"], len(batches)) == (8, 3 * 13, 13)
    with pytest.raises(AttributeError, match="no attribute 'dataser'"):
        _ = batches.dataser


def test_time_for_everything_leaves_nothing_out():
    device = Device(coreset_plan(7), deadline=1000.0)
    met = device.train(device.batches())
    assert Counter(flat(met)) == dict.fromkeys(range(COUNT), 4)


def test_a_subset_that_needs_no_epoch_before_it():
    plan = LocalPlan((Phase(1, CoresetSpec(20, "uniform-plain", "none")),), Way.RANDOM_SUBSET)
    device = Device(plan)
    batches = device.batches()
    met = flat(device.train(batches))
    assert len(set(met)) == len(met) == 20
    assert batches.report()["fell-back"] == 0


def test_the_pull_and_the_scale_are_handed_to_the_users_loss():
    plan = LocalPlan((Phase(1),), Way.PARTIAL, prox_mu=0.1, step_scale=2.0)
    batches = Device(plan).batches()
    assert (batches.prox_mu, batches.step_scale) == (0.1, 2.0)


def test_the_same_order_makes_the_same_coreset():
    def chosen():
        device = Device(coreset_plan(7), shuffle=False)
        return device.train(device.batches())[13:]

    assert chosen() == chosen()


def as_dict(samples):
    x, y = zip(*samples, strict=True)
    return {"labels": torch.stack(y), "inputs": torch.stack(x), "text": ["a"] * len(x)}


def test_batches_are_what_the_users_own_function_makes():
    device = Device(coreset_plan(7), collate_fn=as_dict)
    batches = device.batches()
    optimiser, met = torch.optim.SGD(device.model.parameters(), lr=0.0), []
    for batch in batches:
        optimiser.zero_grad()
        nn.functional.cross_entropy(device.model(batch["inputs"]), batch["labels"]).backward()
        met.append([int(number) for number in batch["inputs"][:, 0]])
        device.time.now += len(batch["text"]) / SPEED
    assert sorted(flat(met[:13])) == list(range(COUNT))
    assert batches.report()["coreset-size"] == 31
    assert batches.report()["fell-back"] == 0


@pytest.mark.parametrize("workers", [0, 2])
def test_workers_read_ahead_and_nothing_gets_mixed_up(workers):
    def chosen(**loader):
        device = Device(coreset_plan(7), generator=torch.Generator().manual_seed(1), **loader)
        return device.train(device.batches())

    assert chosen(num_workers=workers) == chosen()


class Sluggish(TensorDataset):
    """The first batch takes its worker longer than the other one needs for all the rest."""

    def __getitem__(self, key):
        time.sleep(0.4 if key == 0 else 0.0)
        return super().__getitem__(key)


def test_workers_that_may_overtake_one_another_do_not():
    device = Device(coreset_plan(7))
    dataset = Sluggish(device.x, device.y)
    device.loader = DataLoader(dataset, 8, num_workers=2, in_order=False)
    assert flat(device.train(device.batches())[:13]) == list(range(COUNT))


@pytest.mark.parametrize(("deadline", "starts"), [(0.0, 0), (20.0, 1), (70.0, 2), (1000.0, 5)])
def test_no_workers_are_started_when_time_is_up(monkeypatch, deadline, starts):
    """Starting them takes longer than a batch, once for each of the epochs that are left."""
    begun, begin = [], DataLoader.__iter__
    monkeypatch.setattr(DataLoader, "__iter__", lambda self: begun.append(1) or begin(self))
    device = Device(LocalPlan((Phase(5),), Way.FULL), deadline=deadline)
    device.time.now = 1e-3
    device.train(device.batches())
    assert len(begun) == starts


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("coreset", [True, False])
def test_a_loop_that_needs_full_batches_gets_no_others(coreset, drop_last):
    """Of a coreset of 30 and a draw of 94 six are left over, which a loader would drop as well."""
    drawn = LocalPlan((Phase(1), Phase(1, CoresetSpec(90, "uniform-plain", "none"))), Way.PARTIAL)
    device = Device(coreset_plan(7) if coreset else drawn, drop_last=drop_last, deadline=97.0)
    sizes = Counter(map(len, device.train(device.batches())))
    assert (set(sizes) == {8}) is drop_last
    assert sizes[8] >= 12 + (3 * 3 if coreset else 11)


class Keyed(TensorDataset):
    """A dataset whose samples have names, as some are stored, or a size beside their number."""

    def __getitem__(self, key):
        return super().__getitem__(int(key[0]))


@pytest.mark.parametrize("keys", [lambda i: (i, 224), lambda i: (str(i), "jpg")])
@pytest.mark.parametrize("coreset", [True, False])
def test_samples_may_be_named_as_their_sampler_names_them(keys, coreset):
    drawn = LocalPlan((Phase(1, CoresetSpec(20, "uniform-plain", "none")),), Way.RANDOM_SUBSET)
    device = Device(coreset_plan(7) if coreset else drawn)
    dataset, sampler = Keyed(device.x, device.y), [keys(i) for i in range(COUNT)]
    device.loader = DataLoader(dataset, 8, sampler=sampler)
    batches = device.batches()
    met = flat(device.train(batches))
    assert (len(met), len(set(met))) == ((COUNT + 3 * 31, COUNT) if coreset else (20, 20))
    assert batches.report()["fell-back"] == 0


class Unmeasured:
    """A sampler that has no length, as a user's own need have none."""

    def __iter__(self):
        return iter(range(60))


@pytest.mark.parametrize("coreset", [True, False])
def test_a_sampler_need_not_have_a_length(coreset):
    drawn = LocalPlan((Phase(1, CoresetSpec(20, "uniform-plain", "none")),), Way.RANDOM_SUBSET)
    device = Device(coreset_plan(7) if coreset else drawn, shuffle=False, sampler=Unmeasured())
    met = flat(device.train(device.batches()))
    assert set(met) <= set(range(60))
    assert len(set(met)) == (60 if coreset else 20)


def plain(model, batches, optimiser):
    for x, y in batches:
        optimiser.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimiser.step()
        yield x


def scaled(model, batches, optimiser):
    """The scale grows at every step, and halves where a gradient is infinite."""
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0, growth_interval=1)
    for x, y in batches:
        optimiser.zero_grad()
        scaler.scale(nn.functional.cross_entropy(model(x), y)).backward()
        scaler.step(optimiser)
        scaler.update()
        yield x


def accumulated(model, batches, optimiser):
    for step, (x, y) in enumerate(batches, 1):
        (nn.functional.cross_entropy(model(x), y) / 4).backward()
        if step % 4 == 0:
            optimiser.step()
            optimiser.zero_grad()
        yield x


def backward_at_the_end(model, batches, optimiser):
    """One backward pass for two batches: gradients arrive when another batch is out."""
    kept = []
    for x, y in batches:
        kept.append(nn.functional.cross_entropy(model(x), y))
        if len(kept) == 2 or len(x) < 8:
            sum(kept).backward()
            optimiser.step()
            optimiser.zero_grad()
            kept = []
        yield x


LOOPS = [plain, scaled, accumulated, backward_at_the_end]
OPTIMISERS = {
    "momentum": lambda p: torch.optim.SGD(p, lr=1e-12, momentum=0.9),
    "adam": lambda p: torch.optim.Adam(p, lr=1e-12),
}


@pytest.mark.parametrize("optimiser", OPTIMISERS)
@pytest.mark.parametrize("loop", LOOPS)
def test_every_loop_chooses_the_same_coreset(loop, optimiser):
    """With steps of next to nothing, all loops see the same gradients, and so must we."""

    def chosen(own):
        device = Device(coreset_plan(7), shuffle=False)
        before, met = torch.amp.GradScaler.scale, []
        for x in own(
            device.model, device.batches(), OPTIMISERS[optimiser](device.model.parameters())
        ):
            met.append([int(number) for number in x[:, 0]])
            device.time.now += len(x) / SPEED
        assert torch.amp.GradScaler.scale is before
        return met[13:]

    assert chosen(loop) == chosen(plain)


class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(5, 3)

    def forward(self, x):
        return self.head(x) + self.head(x.flip(1))


class Frozen(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(3))
        self.head = nn.Linear(5, 3).requires_grad_(False)

    def forward(self, x):
        return self.head(x) * self.scale


class NoLinear(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(5, 3))

    def forward(self, x):
        return x @ self.weight


class Flattened(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(5, 3)

    def forward(self, x):
        return self.head(x.repeat(2, 1)).view(2, len(x), 3).sum(0)


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (Twice, "more than once"),
        (Frozen, "no gradient reached"),
        (NoLinear, "has no nn.Linear"),
        (Flattened, "for 8 samples"),
    ],
)
def test_where_there_is_nothing_to_go_by_a_plain_draw_is_taken(model, reason, caplog):
    device, own = Device(coreset_plan(7)), model()
    batches = device.batches(own)
    with caplog.at_level(logging.WARNING):
        met = device.train(batches, model=own)
    (line,) = caplog.messages
    assert reason in line
    report = batches.report()
    # Nothing is chosen, so no time goes into it: 48 · 2 / 3 = 32 samples, each of them every epoch.
    assert (report["fell-back"], report["coreset-size"], report["cut-short"]) == (1, 32, 0)
    assert set(Counter(flat(met[13:])).values()) == {3}


def test_a_solver_that_is_not_compiled_is_not_waited_for(monkeypatch, caplog):
    monkeypatch.setattr("fedcore.flower.turn.is_warm", lambda _: False)
    device = Device(coreset_plan(7))
    batches = device.batches()
    device.train(batches)
    assert batches.report()["fell-back"] == 1
    assert "fedcore.flower.warm" in caplog.text


def test_a_choice_that_there_is_no_time_for_is_not_made(caplog):
    device = Device(coreset_plan(7), deadline=(50.0 + 1.4) / 0.98)
    device.speed = 20.0 * SPEED  # so that steps are short
    batches = device.batches()
    device.time.now = 47.6  # 2.5 seconds for the first epoch leave 1.3 of at least 1.5
    device.train(batches)
    assert "too little time" in caplog.text
    assert batches.report()["fell-back"] == 1


def test_a_selector_that_asks_for_more_than_gradients_falls_back(caplog):
    device = Device(coreset_plan(7, selector="loss-topk"))
    batches = device.batches()
    device.train(batches)
    assert batches.report()["fell-back"] == 1
    assert "losses" in caplog.text


def test_what_choosing_took_is_left_time_for_in_the_next_order(monkeypatch):
    device, build = Device(coreset_plan(7)), loader.build_samples

    def slowly(*arguments):
        device.time.now += 5.0
        return build(*arguments)

    monkeypatch.setattr(loader, "build_samples", slowly)
    first = device.batches()
    device.train(first)
    assert first.report()["coreset-size"] == 31
    device.time.now = 0.0
    second = device.batches()
    device.train(second)
    assert second.report()["coreset-size"] == int((98 - 50 - 1.2 * 5) * SPEED / 3)


def test_what_comes_after_a_loop_that_was_left_is_no_training_either():
    """Early stopping after six batches of four seconds, and an evaluation that takes thirty."""
    device = Device(coreset_plan(7))
    batches = device.batches()
    for step, (x, _) in enumerate(batches):
        device.time.now += len(x) / SPEED
        if step == 5:
            break
    device.time.now += 30
    report = batches.report()
    assert (report["steps"], report["work"], report["training-seconds"]) == (6, 48, 24.0)
    assert device.context.state.config_records["fedcore"]["after"] == 30.0


def test_what_comes_after_training_is_left_time_for_in_the_next_order():
    device = Device(coreset_plan(7))
    first = device.batches()
    device.train(first)
    device.time.now += 8.0  # an evaluation
    first.report()
    device.time.now = 0.0
    second = device.batches()
    device.train(second)
    assert second.report()["coreset-size"] == int((98 - 8 - 50 - 1.5) * SPEED / 3)


def test_what_was_ended_by_the_alarm_is_left_more_time_for_every_time():
    """An evaluation after training that never ended: 1 second, then 2, then 4."""
    device, ends = Device(coreset_plan(7)), []
    for _ in range(4):
        device.time.now = 0.0
        device.train(device.batches())  # and no report
        ends.append(device.context.state.config_records["fedcore"]["after"])
    assert ends == [1.0, 2.0, 4.0, 8.0]
    device.time.now = 0.0
    last = device.batches()
    device.train(last)
    assert last.report()["coreset-size"] == int((98 - 8 - 50 - 1.5) * SPEED / 3)


class Stream(IterableDataset):
    def __iter__(self):
        yield from range(3)


@pytest.mark.parametrize("loader", [[1, 2], DataLoader(Stream()), DataLoader([1], batch_size=None)])
def test_what_does_not_say_where_a_sample_is_is_refused(loader):
    device = Device(SIT_OUT)
    with pytest.raises(BadOption, match="DataLoader"):
        on_time(loader, device.model, message(device.order), device.context)


class Normed(nn.Module):
    """Its last layer is called by keyword, and one sample alone has no variance."""

    def __init__(self):
        super().__init__()
        self.norm, self.head = nn.BatchNorm1d(5), nn.Linear(5, 3)

    def forward(self, x):
        return self.head(input=self.norm(x))


@pytest.mark.parametrize("budget", [9, 17, 25])
def test_no_batch_of_one_sample_where_the_loader_has_none(budget):
    device = Device(coreset_plan(budget), deadline=1000.0, count=96)
    device.model = Normed()
    met = device.train(device.batches())
    assert min(map(len, met)) > 1
    alone = Device(coreset_plan(budget), deadline=1000.0, count=97)  # whose own epochs have one
    assert min(map(len, alone.train(alone.batches()))) == 1


def test_a_head_called_by_keyword_is_watched():
    device = Device(coreset_plan(20), deadline=1000.0, count=96)
    device.model = Normed()
    batches = device.batches()
    device.train(batches)
    assert not read_report(batches.report())[0].fell_back


def test_a_sampler_that_balances_classes_does_so_after_the_first_epoch_too():
    plan = LocalPlan((Phase(1), Phase(40, CoresetSpec(50, "uniform", "none"))), Way.CORESET)
    sampler = torch.utils.data.WeightedRandomSampler([1.0] * 90 + [9.0] * 10, 200)
    device = Device(plan, deadline=1e6, shuffle=False, sampler=sampler)
    batches = device.batches()
    met = flat(device.train(batches))
    first, after = met[:200], met[200:]
    expected = np.mean([number >= 90 for number in first])
    assert expected > 0.35
    assert np.mean([number >= 90 for number in after]) == pytest.approx(expected, abs=0.1)
    report, examples = read_report(batches.report())
    assert examples == 200
    assert report.work <= 201 * examples


def test_a_loop_that_is_left_takes_its_hooks_with_it():
    scale, device = torch.amp.GradScaler.scale, Device(coreset_plan(20))
    batches = device.batches()
    next(iter(batches))
    assert torch.amp.GradScaler.scale is not scale
    batches.report()
    assert torch.amp.GradScaler.scale is scale


def test_a_shift_of_gradients_is_not_left_out_silently():
    device = Device(coreset_plan(20))
    sent = message(device.order)
    sent.content[SHIFT] = ArrayRecord({"w": torch.zeros(1)})
    with pytest.raises(BadOption, match="cannot shift gradients, as this strategy asks; use fit"):
        on_time(device.loader, device.model, sent, device.context, clock=device.time.clock())


def test_who_has_time_for_more_than_there_are_samples_draws_as_the_sampler_did():
    """50 samples, of whom the last ten make six tenths of 100 draws; there is time for 61."""
    sampler = [*range(50), *[*range(40, 50)] * 5]
    device = Device(coreset_plan(60, epochs=1), deadline=84.0, shuffle=False, sampler=sampler)
    met = flat(device.train(device.batches()))[100:]
    assert len(met) == 61
    assert np.mean([number >= 40 for number in met]) == pytest.approx(0.6, abs=0.1)
