"""BatchNorm by the rule that the user chooses: what is sent, averaged, kept, and evaluated with."""

import copy

import pytest
import torch
from torch import nn

import fedcore
from fedcore.client.executors.sequential import SequentialExecutor
from fedcore.errors import BadOption
from fedcore.server.merge import RunningMean, aggregation, by_samples
from fedcore.server.state import ServerState
from fedcore.strategies import tempo
from fedcore.task import BATCH_NORM, Task, Terms
from fedcore.types import Assignment, ClientData, LocalPlan, LocalUpdate, Phase, Way
from fedcore.types import TrainingSettings as Settings

QUICK = {"rounds": 3, "epochs": 2, "clients_per_round": 4, "learning_rate": 0.05}
QUICK |= {"stragglers": 40, "device": "cpu", "batch_size": 8}
STATISTICS = {"1.running_mean", "1.running_var", "1.num_batches_tracked"}


def network():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 3))


def clients():
    draw = torch.Generator().manual_seed(0)
    teacher = torch.randn(4, 3, generator=draw)
    inputs = [torch.randn(size, 4, generator=draw) + size / 20 for size in (40, 17, 90, 25, 9)]
    return [(x, ((x - x.mean(0)) @ teacher).argmax(1)) for x in inputs]


def trained_by_torch(model, data, rate, batches):
    """The same steps by torch's own loop, which moves statistics as it goes."""
    model = copy.deepcopy(model).train()
    optimiser = torch.optim.SGD(model.parameters(), lr=rate)
    for rows in batches:
        optimiser.zero_grad()
        nn.functional.cross_entropy(model(data.x[rows]), data.y[rows]).backward()
        optimiser.step()
    return model.state_dict()


def answer(how, model, data, epochs=2):
    """What a client answers, and the batches that it met, in their order."""
    task = Task(model, terms=Terms(batch_norm=how))
    executor = SequentialExecutor(task.on(torch.device("cpu")), {0: data}, Settings(0.1, 8))
    met = []
    take = ClientData.take

    def noted(self, index):
        met.append(index)
        return take(self, index)

    ClientData.take = noted
    try:
        plan = LocalPlan((Phase(epochs),), Way.FULL)
        (found,) = executor.run(task.initial_params(), [Assignment(0, plan, 0, 0)])
    finally:
        ClientData.take = take
    return found.params, met


@pytest.mark.parametrize("how", BATCH_NORM)
def test_a_client_trains_as_torch_does_and_sends_what_the_rule_says(how):
    model, data = network(), ClientData(*clients()[2])
    params, met = answer(how, model, data)
    assert STATISTICS.issubset(params) == (how == "average")
    assert len(met) == 24
    if how == "frozen":  # the next test says what is trained then
        assert params.keys() == dict(model.named_parameters()).keys()
        return
    expected = trained_by_torch(model, data, 0.1, met)
    for name, value in params.items():
        assert torch.allclose(value.double(), expected[name].double(), atol=1e-5), name
    if how == "average":
        assert params["1.num_batches_tracked"] == 24
        assert params["1.num_batches_tracked"].dtype == torch.int64


def test_frozen_statistics_normalise_as_they_were():
    model, data = network(), ClientData(*clients()[2])
    model[1].running_mean.fill_(0.5)
    model[1].running_var.fill_(2.0)
    params, met = answer("frozen", model, data)

    class Fixed(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.last = copy.deepcopy(model[0]), copy.deepcopy(model[3])
            self.weight, self.bias = copy.deepcopy(model[1].weight), copy.deepcopy(model[1].bias)

        def forward(self, x):
            normal = (self.first(x) - 0.5) / (2.0 + 1e-5) ** 0.5
            return self.last(torch.tanh(normal * self.weight + self.bias))

    expected = trained_by_torch(Fixed(), data, 0.1, met)
    for name, own in (
        ("0.weight", "first.weight"),
        ("1.weight", "weight"),
        ("3.bias", "last.bias"),
    ):
        assert torch.allclose(params[name], expected[own], atol=1e-5)


@pytest.mark.parametrize("how", BATCH_NORM)
def test_a_batch_of_one_sample_is_normalised_by_the_running_statistics(how):
    """Torch refuses it in training: it has no variance. A client of nine has one in each epoch."""
    params, met = answer(how, network(), ClientData(*clients()[4]))
    assert sorted(len(rows) for rows in met) == [1, 1, 8, 8]
    assert all(bool(torch.isfinite(value).all()) for value in params.values())


def test_the_merge_of_statistics_is_their_mean_whatever_a_strategy_does():
    state = ServerState({"w": torch.zeros(1), "s": torch.zeros(1), "n": torch.tensor(0)})

    class Doubled:
        def __init__(self, state):
            self.inner = aggregation("mean")(state)
            self.add = self.inner.add

        def finish(self):
            found = self.inner.finish()
            doubled = {name: 2 * value for name, value in found.params.items()}
            return ServerState(doubled, version=7)

    merging = RunningMean(by_samples, state, Doubled, ("s", "n"))
    for samples, value in ((1, 4.0), (3, 8.0)):
        sent = {"w": torch.tensor([value]), "s": torch.tensor([value])}
        sent["n"] = torch.tensor(int(value))
        merging.add(LocalUpdate(samples, sent, samples), state.params)
    after = merging.finish()
    assert after.version == 7
    assert float(after.params["w"]) == 2 * 6  # the plain mean, doubled
    assert float(after.params["s"]) == 7  # (4 + 3 · 8) / 4
    assert (int(after.params["n"]), after.params["n"].dtype) == (7, torch.int64)


def test_statistics_change_nothing_for_parameters():
    """Tempo goes by lengths and angles, of which large and growing statistics would be all."""
    start = {"w": torch.zeros(2), "s": torch.ones(1), "n": torch.tensor(0)}
    plain = {"w": start["w"]}
    states = [ServerState(start), ServerState(plain)]
    for turn in (1.0, -1.0, -0.5):
        merges = [RunningMean(by_samples, states[0], tempo.build().merge, ("s", "n"))]
        merges.append(tempo.build().merge(states[1]))
        for client, far in ((0, turn), (1, 0.25)):
            own = {"w": states[1].params["w"] + torch.tensor([far, 0.5])}
            sent = {**own, "s": torch.full((1,), 0.3), "n": states[0].params["n"] + 40}
            for merging, params, state in zip(merges, (sent, own), states, strict=True):
                merging.add(LocalUpdate(client, params, 80, steps=10), state.params)
        states = [merging.finish() for merging in merges]
        assert torch.equal(states[0].params["w"], states[1].params["w"])
        assert float(states[0].params["s"]) == pytest.approx(0.3)
        assert states[0].tensors["stretch"] == states[1].tensors["stretch"]
    assert int(states[0].params["n"]) == 120


KINDS_OF_MERGES = [
    *("fedavg", "fedcore", "tempo", "fedadam", "scaffold", "fedbuff", "feddyn", "fednova"),
    *("fedasync", "ca2fl", "timelyfl"),
]


@pytest.mark.parametrize("strategy", KINDS_OF_MERGES)
def test_averaged_statistics_stay_statistics_under_every_kind_of_merge(strategy):
    own = {"method": {"buffer": 2}} if strategy == "fedbuff" else {}
    history = fedcore.simulate(
        clients(), network(), test=clients()[2], batch_norm="average", strategy=strategy,
        **QUICK, **own,
    )  # fmt: skip
    assert history.params.keys() >= STATISTICS
    assert bool((history.params["1.running_var"] > 0).all())
    assert history.params["1.num_batches_tracked"].dtype == torch.int64
    assert int(history.params["1.num_batches_tracked"]) > 0


def test_evaluations_go_by_the_averaged_statistics():
    model, (x, y) = network(), clients()[2]
    history = fedcore.simulate(clients(), model, test=(x, y), batch_norm="average", **QUICK)
    model.load_state_dict(history.params)
    model.eval()
    with torch.no_grad():
        expected = nn.functional.cross_entropy(model(x), y)
    assert history.rounds[-1].test_loss == pytest.approx(float(expected), rel=1e-5)


def test_evaluations_go_by_the_data_that_are_evaluated_where_statistics_are_local():
    model, (x, y) = network(), clients()[2]
    history = fedcore.simulate(clients(), model, test=(x, y), batch_norm="local", **QUICK)
    assert torch.equal(history.params["1.running_mean"], torch.zeros(8))  # as they were given
    model.load_state_dict(history.params)
    model.train()
    with torch.no_grad():
        expected = nn.functional.cross_entropy(model(x), y)
    assert history.rounds[-1].test_loss == pytest.approx(float(expected), rel=1e-5)


def test_bytes_that_are_sent_hold_statistics_only_where_they_are_averaged():
    trained = sum(p.numel() for p in network().parameters()) * 4
    sizes = {"average": trained + 2 * 8 * 4 + 8, "local": trained, "frozen": trained}
    for how, expected in sizes.items():
        history = fedcore.simulate(clients(), network(), batch_norm=how, **QUICK)
        assert history.rounds[-1].ending.model_bytes == expected


def test_one_client_after_another_leaves_nothing_behind():
    """Statistics of a client do not reach the next one, also where a batch of one looks at them."""
    task = Task(network(), terms=Terms(batch_norm="local"))
    data = {n: ClientData(*pair) for n, pair in enumerate(clients())}
    plan = LocalPlan((Phase(1),), Way.FULL)
    jobs = [Assignment(client, plan, 0, 0) for client in (2, 4)]
    start = task.initial_params()
    both = SequentialExecutor(task.on(torch.device("cpu")), data, Settings(0.1, 8)).run(start, jobs)
    alone = SequentialExecutor(task.on(torch.device("cpu")), data, Settings(0.1, 8))
    (last,) = alone.run(start, jobs[1:])
    assert all(torch.equal(both[1].params[name], value) for name, value in last.params.items())


def test_the_callers_model_stays_as_it_is():
    for how in BATCH_NORM:
        model = network()
        before = copy.deepcopy(model.state_dict())
        fedcore.simulate(clients(), model, batch_norm=how, **QUICK)
        assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
        assert model[1].training


def test_without_a_rule_such_a_model_is_refused_and_others_need_none():
    with pytest.raises(BadOption, match=r"1.running_mean.*choose batch_norm average, local or fro"):
        fedcore.simulate(clients(), network(), **QUICK)
    with pytest.raises(BadOption, match="batch_norm must be one of"):
        fedcore.simulate(clients(), network(), batch_norm="mean", **QUICK)
    with pytest.raises(BadOption, match="compress must be none where batch_norm is average"):
        fedcore.simulate(clients(), network(), batch_norm="average", compress="8bit", **QUICK)
    without = nn.Sequential(nn.Linear(4, 8), nn.GroupNorm(2, 8), nn.Linear(8, 3))
    fedcore.simulate(clients(), without, batch_norm="average", **QUICK)


class Positions(nn.Module):
    """A buffer that a module makes anew, and does not save, is a constant."""

    def __init__(self):
        super().__init__()
        self.register_buffer("places", torch.arange(4.0), persistent=False)
        self.head = nn.Linear(4, 3)

    def forward(self, x):
        return self.head(x + self.places)


@pytest.mark.parametrize("executor", ["sequential", "vectorised", "auto"])
def test_constants_that_a_module_does_not_save_need_no_rule(executor):
    history = fedcore.simulate(clients(), Positions(), executor=executor, **QUICK)
    assert set(history.params) == {"head.weight", "head.bias"}
