"""Clients that are torch Datasets: equal to the same samples in arrays, and read no sooner."""

import logging
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import (
    ConcatDataset,
    DataLoader,
    Dataset,
    IterableDataset,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
)

import fedcore
from fedcore.compiled import say_once
from fedcore.errors import BadData, BadOption
from fedcore.sources import clients as lazily
from fedcore.sources.clients import LazyClients, Streamed, as_client

QUICK = {"rounds": 3, "epochs": 2, "clients_per_round": 3, "learning_rate": 0.1, "device": "cpu"}


class Counted(Dataset):
    """Samples of a client, and which of them were asked for."""

    def __init__(self, x, y):
        self.x, self.y, self.asked = x, y, []

    def __len__(self):
        return len(self.y)

    def __getitem__(self, index):
        self.asked.append(index)
        return self.x[index], self.y[index]


def pairs(sizes=(20, 35, 50, 80, 140)):
    draw = np.random.default_rng(0)
    inputs = [draw.normal(size=(size, 4)).astype(np.float32) for size in sizes]
    return [(x, (x.sum(axis=1) > 0).astype(int)) for x in inputs]


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))


def same(first, second):
    return all(torch.equal(first.params[name], second.params[name]) for name in first.params)


@pytest.fixture
def by_batch(monkeypatch):
    """Every client is too large to hold."""
    monkeypatch.setattr(lazily, "HELD", 0)


FORMS = {
    "a Dataset": Counted,
    "tensors": lambda x, y: TensorDataset(torch.from_numpy(x), torch.from_numpy(y)),
    "a Subset": lambda x, y: Subset(
        Counted(np.concatenate([x, x]), np.concatenate([y, y])), range(len(y))
    ),
    "a ConcatDataset": lambda x, y: ConcatDataset([Counted(x[:7], y[:7]), Counted(x[7:], y[7:])]),
    "a DataLoader": lambda x, y: DataLoader(Counted(x, y), batch_size=3, shuffle=True),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("strategy", ["tempo", "fedcore"])
def test_datasets_train_as_the_same_samples_in_arrays(form, strategy):
    data = pairs()
    options = {"strategy": strategy, **QUICK}
    expected = fedcore.simulate(data, network(), test=data[0], **options)
    given = [FORMS[form](*pair) for pair in data]
    found = fedcore.simulate(given, network(), test=given[0], **options)
    assert same(found, expected)
    assert found.final_test_accuracy == expected.final_test_accuracy
    assert found.final_train_loss == pytest.approx(expected.final_train_loss)


@pytest.mark.parametrize("strategy", ["tempo", "fedcore"])
@pytest.mark.parametrize("model", [network, lambda: nn.Linear(4, 2)], ids=["network", "linear"])
def test_batch_by_batch_is_the_plain_executor(by_batch, strategy, model):
    data, options = pairs(), {"strategy": strategy, "proxy": "last-layer-input", **QUICK}
    torch.manual_seed(1)
    one = model()
    expected = fedcore.simulate(data, one, test=data[0], executor="sequential", **options)
    given = [Counted(*pair) for pair in data]
    options |= {"proxy": "auto", "evaluate_samples": 10**6}
    found = fedcore.simulate(given, one, test=given[0], **options)
    assert same(found, expected)
    assert found.final_test_accuracy == expected.final_test_accuracy
    assert found.final_train_loss == pytest.approx(expected.final_train_loss)


def test_only_the_samples_that_a_step_asks_for_are_read(by_batch):
    x, y = pairs()[4]
    dataset = Counted(x, y)
    client = as_client("client 0", dataset, torch.float64)
    assert isinstance(client, Streamed)
    assert (len(client), client.x.shape, client.x.dtype) == (140, (0, 4), torch.float64)
    dataset.asked.clear()
    inputs, labels = client.take(torch.tensor([3, 139, 5]))
    assert dataset.asked == [3, 139, 5]
    assert inputs.numpy() == pytest.approx(x[[3, 139, 5]])
    assert labels.tolist() == y[[3, 139, 5]].tolist()
    client.take(slice(0, 2))
    dataset.asked.clear()
    assert client.labels.tolist() == y.tolist()
    assert sorted(dataset.asked) == sorted(set(range(140)) - {0, 1, 3, 5, 139})  # others are known
    with pytest.raises(BadOption, match=r"client 0 is read batch by batch.* 140 samples"):
        client.take(slice(None))


def test_proxy_input_is_refused_before_anything_is_trained(by_batch):
    given = [Counted(*pair) for pair in pairs()]
    for proxy in ("input",):
        with pytest.raises(BadOption, match="proxy 'input' needs all of a client"):
            fedcore.simulate(given, network(), strategy="fedcore", proxy=proxy, **QUICK)
    assert sum(len(one.asked) for one in given) < 10


def test_a_large_client_among_small_ones_is_named_with_what_to_do(monkeypatch):
    """The executor goes by the first client; blocks of the others must not grow in silence."""
    monkeypatch.setattr(lazily, "HELD", 20 * 4 * 4)
    given = [Counted(*pair) for pair in pairs()]
    options = {**QUICK, "clients_per_round": 5}
    with pytest.raises(BadOption, match=r"client \d is read batch by batch.*executor 'sequential'"):
        fedcore.simulate(given, network(), **options)
    found = fedcore.simulate(given, network(), executor="sequential", **options)
    expected = fedcore.simulate(pairs(), network(), executor="sequential", **options)
    assert same(found, expected)


def test_a_fleet_of_10_000_opens_nothing_but_its_cohorts():
    x, y = pairs()[0]
    asked = set()

    class Noted(Counted):
        def __init__(self, number):
            super().__init__(x, y)
            self.number = number

        def __getitem__(self, index):
            asked.add(self.number)
            return super().__getitem__(index)

    fleet = [Noted(number) for number in range(10_000)]
    cohorts = set()
    options = {**QUICK, "clients_per_round": 4, "test": Counted(*pairs()[1])}
    note = lambda record: cohorts.update(one.client_id for one in record.clients)  # noqa: E731
    history = fedcore.simulate(fleet, network(), on_round=note, **options)
    assert len(cohorts) >= 10
    assert asked <= cohorts | {0}  # client 0 says what inputs look like
    assert history.final_train_loss is None
    assert history.final_test_accuracy is not None
    asked.clear()
    lazy = fedcore.LazyClients([20] * 10_000, Noted)
    again = fedcore.simulate(lazy, network(), **options, evaluate_samples=10)
    assert same(history, again)
    assert len(asked - cohorts - {0}) < 20  # those of ten samples, as asked, and judged by theirs


def test_a_million_samples_of_a_kilobyte_grow_memory_by_less_than_500_mb():
    """Time for one sample in twenty of a client of 1 GB; the peak of the process says it."""
    script = """
        import resource
        import torch
        from torch import nn
        from torch.utils.data import Dataset
        import fedcore

        class Large(Dataset):
            read = 0
            def __len__(self):
                return 1_000_000
            def __getitem__(self, index):
                Large.read += 1
                return torch.full((256,), index / 1e6), index % 2

        small = torch.utils.data.Subset(Large(), range(100))
        model = nn.Sequential(nn.Linear(256, 4), nn.ReLU(), nn.Linear(4, 2))
        options = dict(rounds=1, epochs=1, batch_size=64, clients_per_round=1, device="cpu")
        fedcore.simulate([small], model, **options)
        before, Large.read = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, 0
        for strategy in ("tempo", "fedcore"):
            history = fedcore.simulate(
                [Large()], model, test=small, strategy=strategy, deadline=50_000.0,
                capability="equal", **options)
            assert history.longest_round <= 1, history.longest_round
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        print(Large.read, grown / 1024, history.rounds[0].clients[0].path)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    read, megabytes, _ = done.stdout.split()
    assert 50_000 < int(read) < 120_000
    assert float(megabytes) < 500


def ragged(count, seed):
    """Texts of 3 to 9 symbols; the class is whether symbol 1 is in it."""
    draw = np.random.default_rng(seed)
    texts = [torch.from_numpy(draw.integers(1, 9, draw.integers(3, 10))) for _ in range(count)]
    return [(text, int((text == 1).any())) for text in texts]


class Texts(Dataset):
    def __init__(self, count, seed):
        self.samples = ragged(count, seed)

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, index):
        return self.samples[index]


def padded(batch):
    texts, labels = zip(*batch, strict=True)
    return pad_sequence(texts, batch_first=True), torch.tensor(labels)


class Bag(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.head = nn.Embedding(9, 8, padding_idx=0), nn.Linear(8, 2)

    def forward(self, x):
        return self.head(self.words(x).amax(dim=1))


@pytest.mark.parametrize("strategy", ["tempo", "fedcore"])
@pytest.mark.parametrize("count", [0, 30])
def test_texts_of_any_length_are_padded_batch_by_batch(strategy, count):
    widths = set()

    def collate(batch):
        widths.add(padded(batch)[0].shape[1])
        return padded(batch)

    given = [DataLoader(Texts(40 + n, n), 4, collate_fn=collate) for n in range(6)]
    options = {"strategy": strategy, **QUICK, "rounds": 20, "epochs": 5, "learning_rate": 0.5}
    torch.manual_seed(0)
    history = fedcore.simulate(given, Bag(), test=given[0], evaluate_samples=count, **options)
    assert history.final_test_accuracy > 0.9
    assert history.rounds[0].train_loss > history.final_train_loss
    assert len(widths) > 3


def test_a_loaders_batches_and_order_are_left_aside_with_one_line(caplog):
    say_once.cache_clear()
    loaders = [DataLoader(Counted(*pair), 3, shuffle=True) for pair in pairs()]
    with caplog.at_level(logging.WARNING):
        fedcore.simulate(loaders, network(), **QUICK)
    assert [r.message for r in caplog.records if "DataLoader" in r.message] == [
        "of a DataLoader its dataset and collate function are used, not size and order"
    ]


def test_what_augmentation_draws_is_the_same_every_time_and_leaves_the_callers_draws():
    class Noisy(Counted):
        def __getitem__(self, index):
            x, y = super().__getitem__(index)
            return x + torch.randn(4).numpy(), y

    given, model = [Noisy(*pair) for pair in pairs()], network()
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    first = fedcore.simulate(given, model, **QUICK)
    assert torch.equal(torch.rand(1), expected)
    torch.manual_seed(4)
    assert same(first, fedcore.simulate(given, model, **QUICK))
    zeros = [Noisy(np.zeros((3, 4), np.float32), np.zeros(3, int)) for _ in range(2)]
    one, other = (as_client(f"client {n}", own, torch.float32).x for n, own in enumerate(zeros))
    assert not one.equal(other)  # as two clients would draw


def test_a_coreset_of_a_dataset_goes_into_its_subset():
    x, y = pairs()[4]
    dataset = Counted(x, y)
    coreset = fedcore.coreset_for(network(), dataset, budget=20)
    assert [label for _, label in coreset.subset(dataset)] == y[coreset.indices.numpy()].tolist()


def test_a_dataset_file_may_give_datasets(tmp_path):
    from fedcore.sim.federation import check_dataset

    data = pairs()
    made = {number: Counted(*pair) for number, pair in enumerate(data)}
    checked = check_dataset(fedcore_dataset(made, Counted(*data[0])))
    assert isinstance(checked.clients, LazyClients)
    assert len(checked.test) == 20
    assert [len(made[number].asked) for number in range(1, 5)] == [0] * 4
    assert checked.clients[4].x.numpy() == pytest.approx(data[4][0])


def fedcore_dataset(clients, test):
    from fedcore.types import FederatedDataset

    return FederatedDataset(clients, test, 2)


class Endless(IterableDataset):
    def __iter__(self):
        yield torch.zeros(4), 0


class Unsized(Dataset):
    def __getitem__(self, index):
        return torch.zeros(4), 0


class Lying(Counted):
    def __len__(self):
        return 500


def gives(sample, length=6):
    class Given(Dataset):
        def __len__(self):
            return length

        def __getitem__(self, index):
            return sample(index) if callable(sample) else sample

    return Given()


X, Y = pairs()[0]
WRONG = {
    "iterable": (
        Endless(),
        "client 1 must be a map-style torch Dataset, got a Endless",
    ),
    "loader of one": (
        DataLoader(Endless()),
        "client 1 must be a map-style torch Dataset, got a Endless",
    ),
    "unsized": (
        Unsized(),
        "the length of client 1 failed with TypeError: object of type .Unsized. has no len",
    ),
    "empty": (Counted(X[:0], Y[:0]), "client 1 has a size of 0; leave it out"),
    "a pair": ((X, Y), "client 1 must be a map-style torch Dataset.*, got a tuple; wrap arrays"),
    "none": (None, "client 1 must be a map-style torch Dataset.*, got a NoneType"),
    "too short": (Lying(X, Y), r"reading client 1 \(a Lying\) failed with IndexError"),
    "no label": (gives(torch.zeros(4)), "samples of client 1 must be pairs"),
    "three": (gives((1.0, 2, 3)), "samples of client 1 must be pairs"),
    "a table": (gives({"x": 1.0, "y": 2}), "samples of client 1 must be pairs.*got a dict"),
    "text": (gives(("hello", 1)), "inputs of client 1 must be numbers"),
    "classes by name": (gives((torch.zeros(4), "cat")), "labels of client 1 must be numbers"),
    "one-hot": (gives((torch.zeros(4), torch.eye(2)[0])), "labels of client 1 must be one class"),
    "an object": (gives((object(), 1)), r"reading client 1 \(a Given\) failed with TypeError"),
    "lengths": (
        gives(lambda index: (torch.zeros(3 + index), 1)),
        "equal size.*give a DataLoader whose collate_fn pads them",
    ),
    "a label too high": (gives((torch.zeros(4), 7)), "client 1 has label 7; labels must be 0 to 1"),
    "a label too low": (gives((torch.zeros(4), -1)), "client 1 has label -1"),
    "another shape": (gives((torch.zeros(5), 1)), r"client 1 has inputs of shape \[5\]"),
    "NaN": (gives((torch.full((4,), torch.nan), 1)), "client 1 has NaN or infinity"),
    "no batches": (
        DataLoader(Counted(X, Y), batch_size=None),
        "client 1 is a DataLoader without batches, or",
    ),
    "a sampler": (
        DataLoader(Counted(X, Y), sampler=SubsetRandomSampler(range(5))),
        "client 1 is a DataLoader.* that leaves out samples; give",
    ),
    "a collate function": (
        DataLoader(Counted(X, Y), collate_fn=lambda batch: padded(batch[:1])),
        r"reading client 1|client 1 gave 1 samples where",
    ),
    "a failing one": (
        DataLoader(Counted(X, Y), collate_fn=lambda batch: 1 / 0),
        "reading client 1 .*failed with ZeroDivisionError",
    ),
}


@pytest.mark.parametrize("batchwise", [False, True])
@pytest.mark.parametrize("case", WRONG)
def test_wrong_datasets_are_one_sentence_that_names_the_client(case, batchwise, monkeypatch):
    if batchwise:
        monkeypatch.setattr(lazily, "HELD", 0)
    given, said = WRONG[case]
    with pytest.raises((BadData, BadOption), match=said) as caught:
        fedcore.simulate(
            [Counted(X, Y), given], network(), **{**QUICK, "clients_per_round": 2, "epochs": 8}
        )
    assert "\n" not in str(caught.value)


def test_the_test_set_may_be_wrong_as_well():
    with pytest.raises(BadData, match=r"the test set must be a map-style torch Dataset"):
        fedcore.simulate(pairs(), network(), test=Endless(), **QUICK)
    with pytest.raises(BadData, match="the test set has label 9"):
        fedcore.simulate(pairs(), network(), test=gives((torch.zeros(4), 9)), **QUICK)
    with pytest.raises(BadData, match=r"reading the test set .*IndexError"):
        fedcore.simulate(pairs(), network(), test=Counted(X[:0], Y[:0]), **QUICK)


def test_a_stream_goes_where_the_model_is(by_batch):
    client = as_client("client 0", Counted(X, Y), torch.float32).to(torch.device("meta"))
    inputs, labels = client.take(torch.tensor([3, 4]))
    assert (inputs.device.type, labels.device.type) == ("meta", "meta")
    assert client.take(torch.tensor([], dtype=torch.int64))[0].shape == (0, 4)


class Halves(nn.Module):
    """A model of two inputs."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.head = nn.Linear(4, 2)

    def forward(self, left, right):
        return self.head(torch.cat([left, right], dim=1))


@pytest.mark.parametrize("wrap", [list, DataLoader], ids=["dataset", "loader"])
def test_several_inputs_of_a_sample_may_be_a_tuple_as_in_arrays(wrap):
    """Of which torch's own collate function makes a list."""
    arrays = [((x[:, :2], x[:, 2:]), y) for x, y in pairs()]
    samples = [[((x[:2], x[2:]), y) for x, y in zip(*own, strict=True)] for own in pairs()]
    given = [Counted([s[0] for s in own], [s[1] for s in own]) for own in samples]
    given = given if wrap is list else [DataLoader(one, batch_size=7) for one in given]
    known = fedcore.simulate(arrays, Halves(), test=arrays[0], strategy="fedcore", **QUICK)
    found = fedcore.simulate(given, Halves(), test=given[0], strategy="fedcore", **QUICK)
    assert same(known, found)
    one, other = (fedcore.coreset_for(Halves(), own[0], 5) for own in (arrays, given))
    assert one.indices.tolist() == other.indices.tolist()
