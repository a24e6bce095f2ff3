import dataclasses

import numpy as np
import pytest
import torch
from torch import nn

import fedcore
from fedcore.client.executors.linear import LinearExecutor
from fedcore.errors import BadData, BadOption, FedCoreError
from fedcore.server.merge import all_at_once
from fedcore.sim.federation import try_out
from fedcore.task import Task


def diverged():
    model = nn.Linear(3, 2)
    nn.init.constant_(model.bias, torch.nan)
    return model


def clients(count=5):
    draw = np.random.default_rng(0)
    made = []
    for size in (20, 35, 50, 80, 140)[:count]:
        x = draw.normal(size=(size, 4))
        made.append((x, (x.sum(axis=1) > 0).astype(int)))
    return made


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))


QUICK = {"rounds": 3, "epochs": 2, "clients_per_round": 3, "learning_rate": 0.1}


def test_own_arrays_and_an_own_network_give_a_history():
    history = fedcore.simulate(clients(), network(), test=clients()[0], **QUICK)
    assert len(history.rounds) == 3
    assert history.longest_round <= 1.0
    assert history.deadline_misses == 0
    assert 0 <= history.final_test_accuracy <= history.best_test_accuracy <= 1
    assert history.final_train_loss < np.log(2)
    assert 0 < history.mean_round_time <= 1


def test_the_given_model_stays_as_it_is():
    model = network()
    before = [p.clone() for p in model.parameters()]
    history = fedcore.simulate(clients(), model, **QUICK)
    assert all(torch.equal(p, b) for p, b in zip(model.parameters(), before, strict=True))
    assert not torch.equal(history.params["0.weight"], before[0])


@pytest.mark.parametrize("strategy", ["fedavg", "fedbuff", "fedcore"])
@pytest.mark.parametrize(
    "layers",
    [(), (nn.Linear(4, 4), nn.ReLU()), (nn.Linear(4, 4), nn.Dropout(0.5))],
    ids=["compiled", "side by side", "one after another"],
)
def test_switching_evaluation_on_changes_no_weight(layers, strategy):
    """Bit for bit, also where training draws from PyTorch's own generator."""
    torch.manual_seed(0)
    last = nn.Linear(4, 2)
    model = nn.Sequential(*layers, last) if layers else last
    own = {"method": {"buffer": 2}} if strategy == "fedbuff" else {}
    ended = []
    for test, samples in ((None, 1), (clients()[0], 0)):
        torch.manual_seed(1)
        options = {**QUICK, **own, "evaluate_samples": samples}
        history = fedcore.simulate(clients(), model, test=test, strategy=strategy, **options)
        ended.append(torch.cat([value.flatten() for value in history.params.values()]))
    assert torch.equal(*ended)


def test_an_own_strategy_can_be_passed_as_it_is():
    def plan(client, deadline, epochs):
        return fedcore.LocalPlan((fedcore.Phase(1),), fedcore.Way.PARTIAL)

    def take_the_first(state, updates):
        return dataclasses.replace(state, params=updates[0].params)

    own = fedcore.Strategy(plan, all_at_once(take_the_first))
    history = fedcore.simulate(clients(), network(), strategy=own, **QUICK)
    assert all(c.path == "partial" for r in history.rounds for c in r.clients)


def test_every_round_is_told():
    heard = []
    fedcore.simulate(clients(), network(), on_round=heard.append, **QUICK)
    assert [record.number for record in heard] == [1, 2, 3]


def test_without_test_data():
    history = fedcore.simulate(clients(), network(), **QUICK)
    assert history.final_test_accuracy is None
    assert history.best_test_accuracy is None


@pytest.mark.parametrize(
    ("change", "error", "sentence"),
    [
        ({"rounds": -1}, BadOption, "rounds must be at least 1, got -1"),
        ({"stragglers": 100}, BadOption, "got 100"),
        ({"learnin_rate": 0.1}, BadOption, "did you mean 'learning_rate'"),
        ({"strategy": "fedpox"}, fedcore.errors.UnknownPlugin, "did you mean 'fedprox'"),
    ],
)
def test_bad_options_are_one_sentence(change, error, sentence):
    with pytest.raises(error, match=sentence):
        fedcore.simulate(clients(), network(), **{**QUICK, **change})


@pytest.mark.parametrize(
    ("bad", "sentence"),
    [
        ([], "at least one client"),
        ([(np.zeros((0, 4)), np.zeros(0, int))], "client 0 has no samples"),
        ([(np.full((2, 4), np.nan), np.zeros(2, int))], "client 0 has NaN"),
        ([(np.zeros((2, 4)), np.array([0, 7]))], "label 7; labels must be 0 to 1"),
        ([("text", "more")], "inputs of client 0 must be numbers, got <U4"),
    ],
)
def test_bad_clients_are_one_sentence(bad, sentence):
    with pytest.raises(BadData, match=sentence):
        fedcore.simulate(bad, network(), **QUICK)


def test_a_model_that_is_no_classifier_is_refused():
    with pytest.raises(BadOption, match="scores"):
        fedcore.simulate(clients(), nn.Flatten(0), **QUICK)


def test_clients_may_be_loaded_on_demand():
    data = [(torch.as_tensor(x).float(), torch.as_tensor(y)) for x, y in clients()]
    lazy = fedcore.LazyClients(
        [len(y) for _, y in data], lambda client: fedcore.ClientData(*data[client])
    )
    kept, loaded = (fedcore.simulate(c, network(), **QUICK) for c in (data, lazy))
    assert all(torch.equal(kept.params[name], loaded.params[name]) for name in kept.params)


def test_clients_loaded_on_demand_are_checked_then():
    bad = fedcore.ClientData(torch.full((3, 4), torch.nan), torch.zeros(3, dtype=torch.long))
    with pytest.raises(BadData, match="client 0 has NaN"):
        fedcore.simulate(fedcore.LazyClients([3], lambda client: bad), network(), **QUICK)


def test_what_on_round_raises_ends_the_work_that_was_begun_ahead(monkeypatch):
    closed = []
    close = LinearExecutor.close
    monkeypatch.setattr(LinearExecutor, "close", lambda self: (closed.append(1), close(self)))

    def stop(record):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fedcore.simulate(clients(), nn.Linear(4, 2), on_round=stop, device="cpu", **QUICK)
    assert closed == [1]


@pytest.mark.parametrize("executor", ["auto", "sequential", "vectorised"])
@pytest.mark.parametrize("floating", [torch.float32, torch.float64])
def test_models_of_either_precision_take_the_same_arrays(floating, executor):
    options = {**QUICK, "test": clients()[0], "executor": executor}
    history = fedcore.simulate(clients(), network().to(floating), **options)
    assert all(value.dtype == floating for value in history.params.values())
    assert history.final_train_loss < np.log(2)


@pytest.mark.parametrize("executor", ["auto", "sequential", "vectorised"])
@pytest.mark.parametrize("model", [lambda: nn.Linear(4, 2), network])
@pytest.mark.parametrize(
    "load",
    [
        lambda x, y: (torch.from_numpy(x), torch.from_numpy(y).int()),
        lambda x, y: (x, y.astype(np.int32)),
    ],
)
def test_clients_loaded_on_demand_may_be_arrays_of_any_type(load, model, executor):
    own = clients()
    lazy = fedcore.LazyClients(
        [len(y) for _, y in own], lambda client: fedcore.ClientData(*load(*own[client]))
    )
    options = {**QUICK, "executor": executor}
    torch.manual_seed(0)
    first = model()
    kept, loaded = (fedcore.simulate(c, first, **options) for c in (own, lazy))
    assert all(torch.equal(kept.params[name], loaded.params[name]) for name in kept.params)


def test_labels_with_a_fraction_are_refused_when_they_are_loaded():
    data = fedcore.ClientData(np.zeros((3, 4)), np.array([0.0, 1.0, 0.5]))
    with pytest.raises(
        BadData, match=r"labels of client 0 must be whole numbers, got 0.5 for sample 2"
    ):
        fedcore.simulate(fedcore.LazyClients([3], lambda client: data), network(), **QUICK)


def test_a_model_with_running_statistics_is_refused_in_one_sentence_and_untouched():
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 2))
    with pytest.raises(BadOption, match="use a layer without running statistics"):
        fedcore.simulate(clients(), model, **QUICK)
    assert model[1].num_batches_tracked == 0


def test_trying_a_model_changes_nothing_of_it():
    modes = []

    class Counting(nn.Linear):
        calls = 0

        def forward(self, x):
            self.calls += 1
            modes.append(self.training)
            return super().forward(x)

    model = Counting(4, 2)
    assert try_out(Task(model), torch.zeros(1, 4), torch.zeros(1)) == 2
    assert (model.calls, model.training, modes) == (0, True, [False])


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"clients": None}, "clients must be a list of .* got NoneType"),
        ({"model": None}, "model must be a torch nn.Module, got NoneType"),
        ({"model": torch.tanh}, "model must be a torch nn.Module, got builtin"),
        ({"strategy": None}, "strategy must be a name or a Strategy, got NoneType"),
        ({"stragglers": (10, 30)}, r"stragglers must be one number here, got \(10.0, 30.0\)"),
        (
            {"learning_rate": (0.1, 0.2)},
            r"learning_rates must be one number here, got \(0.1, 0.2\)",
        ),
        ({"seed": (0, 1)}, r"seed must be one number here, got \(0, 1\)"),
        ({"benchmark": "mnist"}, "benchmark is for benchmarks that FedCore loads"),
        ({"data_seed": 3}, "data_seed is for benchmarks that FedCore loads"),
        ({"model": nn.Linear(7, 2)}, r"model cannot take a batch of inputs \[1, 3\] of type float"),
    ],
)
def test_what_cannot_be_simulated_is_refused_in_a_sentence(changes, sentence):
    clients = [(torch.randn(5, 3), torch.zeros(5, dtype=torch.int64))]
    given = {"clients": clients, "model": nn.Linear(3, 2), "rounds": 1, **changes}
    with pytest.raises(FedCoreError, match=sentence):
        fedcore.simulate(**given)


BLANK = (np.zeros((5, 3)), np.zeros(5, int))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"clients": [(torch.eye(5).to_sparse(), np.zeros(5))]}, "inputs of client 0 must be a de"),
        ({"clients": [(torch.eye(5, device="meta"), np.zeros(5))]}, "got a tensor on the meta dev"),
        ({"clients": [(np.ma.masked_equal(np.eye(5), 1), np.zeros(5))]}, "some that are masked"),
        (
            {"clients": [BLANK, (BLANK[0], np.full(5, 10**20, object))]},
            "labels of client 1 must be",
        ),
        (
            {"test": (torch.eye(5).to_sparse(), np.zeros(5))},
            "inputs of the test set must be a dens",
        ),
        ({"test": (np.zeros((0, 3)), np.zeros(0))}, "the test set has no samples"),
        ({"model": nn.Sequential(nn.LazyLinear(2))}, r"without a shape yet \(0.weight\); call the"),
        ({"model": nn.Linear(3, 2, device="meta")}, r"parameter on the meta device \(weight\)"),
        (
            {"model": diverged()},
            r"model has NaN or infinity in a parameter \(bias\) before training",
        ),
        ({"capability_std": float("inf")}, "capability_std must be at least 0, got inf"),
    ],
)
def test_what_holds_no_numbers_to_train_with_is_refused_in_a_sentence(changes, sentence):
    given = {"clients": [BLANK], "model": nn.Linear(3, 2), "rounds": 1, **changes}
    with pytest.raises(FedCoreError, match=sentence):
        fedcore.simulate(**given)


def test_numbers_of_numpy_are_numbers_and_minus_nothing_is_nothing():
    options = {"rounds": np.int64(1), "capability_std": -0.0, "learning_rate": np.float32(0.5)}
    assert len(fedcore.simulate([BLANK], nn.Linear(3, 2), **options).rounds) == 1


def test_whole_numbers_for_a_model_of_fractions_are_named():
    clients = [(torch.ones(5, 3, dtype=torch.int64), torch.zeros(5, dtype=torch.int64))]
    with pytest.raises(BadOption, match="of type int64"):
        fedcore.simulate(clients, nn.Linear(3, 2), rounds=1)


def test_an_own_sampler_gets_its_own_option(tmp_path):
    path = tmp_path / "shares.py"
    path.write_text(
        "from fedcore.server.samplers import uniform\n"
        "def build(*, share=1.0):\n"
        "    if share > 1:\n"
        "        raise ValueError(f'share is {share}')\n"
        "    return uniform.build()\n"
    )
    options = {"rounds": 1, "selection": str(path)}
    fedcore.simulate([BLANK], nn.Linear(3, 2), method={"share": 0.5}, **options)
    with pytest.raises(BadOption, match=r"sampler '.*shares.py' cannot be built: share is 3"):
        fedcore.simulate([BLANK], nn.Linear(3, 2), method={"share": 3}, **options)
    with pytest.raises(BadOption, match="no method option named 'shar'; did you mean 'share'"):
        fedcore.simulate([BLANK], nn.Linear(3, 2), method={"shar": 3}, **options)


def test_a_deadline_in_seconds_takes_the_place_of_stragglers():
    """Equal speeds, 2 epochs: clients of 20 to 140 samples take 40 to 280 seconds."""
    options = {**QUICK, "capability": "equal", "selection": "uniform"}
    history = fedcore.simulate(clients(), network(), deadline=150.0, **options)
    assert {record.deadline for record in history.rounds} == {150.0}
    with pytest.raises(BadOption, match="deadline is 150 and stragglers are"):
        fedcore.simulate(clients(), network(), deadline=150.0, stragglers=30, **options)


def test_events_come_with_the_rounds():
    history = fedcore.simulate(clients(), network(), **QUICK)
    kinds = [event["event"] for event in history.rounds[0].events]
    assert kinds.count("sent") == kinds.count("merged") > 0


def test_a_dict_goes_by_its_names_and_not_by_their_order():
    class Sum(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(5, 2)

        def forward(self, u, v):
            return self.layer(torch.cat([u, v], 1))

    parts, y = {"u": torch.ones(9, 2), "v": torch.zeros(9, 3)}, torch.zeros(9, dtype=torch.long)
    turned = dict(reversed(parts.items()))
    history = fedcore.simulate([(parts, y), (turned, y)], Sum(), rounds=1, clients_per_round=2)
    assert len(history.rounds) == 1


class Copied(nn.Linear):
    """Its state is made of copies, as wrappers may have it."""

    def state_dict(self, *given, **named):
        return {name: value.clone() for name, value in super().state_dict(*given, **named).items()}


def test_a_model_that_gives_copies_of_its_state_comes_back_trained():
    clients = [(torch.randn(30, 4), torch.randint(2, (30,)))] * 3
    options, model = {"rounds": 1, "epochs": 1, "clients_per_round": 2}, Copied(4, 2)
    params = fedcore.simulate(clients, model, **options).params
    assert params.keys() == model.state_dict().keys()
    assert not torch.equal(params["weight"], model.weight)
