"""Who holds which samples: exact where the rule is, in the mean where it draws."""

import sys
import time
import types

import numpy as np
import pytest
import torch
from torch.utils.data import TensorDataset

import fedcore
from fedcore import partition, partitioned
from fedcore.bundle import Bundle
from fedcore.errors import BadData, BadOption
from fedcore.sources.partitions import dealt
from fedcore.types import ClientData, FederatedDataset

LABELS = np.repeat(np.arange(10), 100)


@pytest.mark.parametrize("how", ["iid", "dirichlet", "shards"])
def test_every_sample_is_somebodys_once(how):
    parts = partition(LABELS, 20, how, seed=3)
    assert len(parts) == 20
    assert np.array_equal(np.sort(np.concatenate(parts)), np.arange(1000))
    again, other = (partition(LABELS, 20, how, seed=seed) for seed in (3, 4))
    assert all(np.array_equal(a, b) for a, b in zip(parts, again, strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(parts, other, strict=True))


def test_iid_parts_differ_by_one_sample_at_most():
    sizes = [len(part) for part in partition(LABELS, 7, "iid")]
    assert (min(sizes), max(sizes), sum(sizes)) == (142, 143, 1000)


def test_shards_have_so_many_classes_at_most():
    """20 clients of 2 slices of 25 samples: four slices a class, none across two."""
    parts = partition(LABELS, 20, "shards", shards=2)
    assert all(len(part) == 50 for part in parts)
    assert max(len(np.unique(LABELS[part])) for part in parts) == 2


def test_dirichlet_shares_have_the_spread_of_the_law():
    """Var of a share is (N - 1) / (N² (N α + 1)): N = 5, α = 0.3 gives 0.064; wide bounds."""
    found = []
    for seed in range(60):
        parts = partition(LABELS, 5, alpha=0.3, least=0, seed=seed)
        found += [np.mean(LABELS[part] == 0) * len(part) / 100 for part in parts]
    assert np.mean(found) == pytest.approx(0.2)
    assert np.var(found) == pytest.approx(0.064, rel=0.25)
    even = partition(LABELS, 5, alpha=1e6)
    assert all(abs(len(part) - 200) <= 10 for part in even)


@pytest.mark.parametrize("alpha", [1.0, 100.0])
def test_dirichlet_favours_nobody_where_classes_have_fewer_samples_than_there_are_clients(alpha):
    """All expect the same, 15.5 samples; the first had 9 at alpha 1, and none at 100."""
    labels = np.repeat(np.arange(62), 25)
    drawn = [partition(labels, 100, alpha=alpha, least=0, seed=seed) for seed in range(30)]
    means = np.mean([[len(part) for part in parts] for parts in drawn], axis=0)
    assert 12 < means.min() < means.max() < 19


def test_the_least_is_kept_or_refused():
    assert min(len(part) for part in partition(LABELS, 20, alpha=0.1, least=5)) >= 5
    with pytest.raises(BadOption, match="no draw of 1000 gave 90 clients 11 samples"):
        partition(LABELS, 90, alpha=0.01, least=11)
    with pytest.raises(BadOption, match="2000 clients of 1 samples or more need 2000, but"):
        partition(LABELS, 2000)
    with pytest.raises(BadData, match="client 1 has 1 samples, below least=2"):
        partition(["ann", "bob", "ann"], how="by", least=2)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"clients": 0}, "clients must be"),
        ({"how": "dirichlett"}, "how must be"),
        ({"alpha": 0}, "alpha must be"),
        ({"how": "shards", "shards": 0}, "shards must be"),
        ({"seed": -1}, "seed must be"),
        ({"least": -1}, "least must be"),
        ({"clients": None}, "clients must be"),
    ],
)
def test_wrong_arguments_are_one_sentence(given, said):
    with pytest.raises(BadOption, match=said):
        partition(LABELS, **{"clients": 5, **given})


def test_a_partitioner_of_flower_datasets(monkeypatch):
    """By what we use of it: a dataset to set, a number of parts, and parts with their columns."""

    class Dataset(dict):
        from_dict = classmethod(lambda cls, columns: cls(columns))

    class Halves:
        num_partitions = 2

        def load_partition(self, number):
            half = len(self.dataset["place"]) // 2
            return {"place": self.dataset["place"][number * half : (number + 1) * half]}

    module = types.ModuleType("datasets")
    module.Dataset = Dataset
    monkeypatch.setitem(sys.modules, "datasets", module)
    assert [part.tolist() for part in partition([0, 1, 0, 1], how=Halves())] == [[0, 1], [2, 3]]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["Iid", "Dirichlet", "Shard", "Linear", "NaturalId"])
def test_the_partitioners_of_flower_datasets_themselves(name):
    there = pytest.importorskip("flwr_datasets.partitioner", reason="not installed")
    options = {
        "Iid": {"num_partitions": 10},
        "Dirichlet": {"num_partitions": 10, "partition_by": "label", "alpha": 0.5},
        "Shard": {"num_partitions": 10, "partition_by": "label", "num_shards_per_partition": 2},
        "Linear": {"num_partitions": 10},
        "NaturalId": {"partition_by": "label"},
    }
    labels = np.random.default_rng(0).integers(10, size=1000)
    parts = partition(labels, how=getattr(there, f"{name}Partitioner")(**options[name]))
    assert len(parts) == 10
    assert np.array_equal(np.sort(np.concatenate(parts)), np.arange(1000))
    if name == "NaturalId":
        assert all(len(set(labels[part])) == 1 for part in parts)
    with pytest.raises(BadData, match="partitioning by LinearPartitioner failed with"):
        partition(labels[:3], how=there.LinearPartitioner(10))


def made(shift: float = 0.0, *, seed: int = 0):
    draw = np.random.default_rng(seed)
    owners = np.array(["ann", "bob", "eve"])[draw.integers(3, size=300)]
    labels = draw.integers(4, size=300)
    return (draw.normal(size=(300, 5)) + shift, labels, owners), None


def test_a_dataset_in_one_piece_is_dealt_out():
    load = partitioned(made)
    dataset = load(seed=1, clients=6, how="iid")
    assert len(dataset.clients) == 6
    assert dataset.num_classes == 4
    assert sum(map(len, dataset.clients.values())) + len(dataset.test) == 300
    assert 30 < len(dataset.test) < 90  # a fifth of them, six standard deviations
    (x, _, owners), _ = made(2.0, seed=1)
    own = load(seed=1, how="by", held_out=0.0, shift=2.0)
    assert own.test is None
    for client, name in enumerate(("ann", "bob", "eve")):
        rows, _ = own.clients[client].take(slice(None))
        assert rows.numpy() == pytest.approx(x[owners == name])


def test_from_the_command_line_through_a_file(tmp_path):
    from fedcore.sources.benchmark import find

    file = tmp_path / "own.py"
    file.write_text(
        "import numpy as np\nimport fedcore\n"
        "def samples(classes: int = 3):\n"
        "    y = np.arange(90) % classes\n"
        "    return (np.eye(classes)[y], y), (np.eye(classes), np.arange(classes))\n"
        "load = fedcore.partitioned(samples)\n"
    )
    benchmark = find(str(file))
    given = {"clients": 5, "alpha": 0.4, "classes": 3}
    dataset = benchmark.load(seed=0, data_dir=None, options=given)
    assert (len(dataset.clients), len(dataset.test), dataset.num_classes) == (5, 3, 3)
    with pytest.raises(BadOption, match="no data option named 'alfa'; did you mean 'alpha'"):
        benchmark.load(seed=0, data_dir=None, options={"alfa": 1})
    clients = [client.take(slice(None)) for client in dataset.clients.values()]
    history = fedcore.simulate(clients, __import__("torch").nn.Linear(3, 3), rounds=1, epochs=1)
    assert len(history.rounds) == 1


@pytest.mark.parametrize("how", ["iid", "dirichlet", "shards", "by"])
def test_any_benchmark_is_dealt_out_anew(how):
    from fedcore.sources.benchmark import find

    known = find("synthetic-1-1").load(seed=0, data_dir=None, options={})
    options = {"how": how, "clients": 12, "alpha": 0.7}
    dealt = find("synthetic-1-1").load(seed=0, data_dir=None, options=options)
    pairs = [(np.concatenate([c.take(slice(None))[0] for c in one.clients.values()]), one)
             for one in (known, dealt)]  # fmt: skip
    before, after = (np.sort(x.sum(axis=1)) for x, _ in pairs)
    assert after == pytest.approx(before)
    assert len(dealt.clients) == (10 if how == "by" else 12)
    assert dealt.test.x.equal(known.test.x)
    if how == "by":
        assert all(len(set(c.labels.tolist())) == 1 for c in dealt.clients.values())
    as_many = find("synthetic-1-1").load(seed=0, data_dir=None, options={"how": "iid"})
    assert len(as_many.clients) == 30
    with pytest.raises(BadOption, match="no data option named 'alpa'; did you mean 'alpha'"):
        find("mnist").load(seed=0, data_dir=None, options={"how": "iid", "alpa": 3})


def test_fractions_as_targets_are_dealt_out_by_what_needs_no_class():
    x, y = np.random.default_rng(0).normal(size=(40, 3)), np.linspace(-2, 2, 40)
    load = partitioned(lambda: ((x, y), None))
    dataset = load(clients=4, how="iid")
    assert dataset.num_classes == 1
    targets = torch.cat([own.labels for own in (*dataset.clients.values(), dataset.test)])
    assert sorted(targets.tolist()) == pytest.approx(y)
    with pytest.raises(BadData, match="labels must be whole numbers"):
        load(clients=4, how="shards")
    assert sorted(np.concatenate(partition(y, 4, "iid")).tolist()) == list(range(40))


def test_inputs_of_several_parts_and_datasets_are_dealt_out_anew():
    parts = {"u": torch.arange(10.0)[:, None], "v": torch.zeros(10, 2)}
    labels = torch.arange(10) % 2
    bundles = {n: ClientData(Bundle(parts), labels, torch.arange(n, 10, 2)) for n in range(2)}
    pieces = {n: TensorDataset(torch.arange(10.0)[n::2, None], labels[n::2]) for n in range(2)}
    for given, column in ((bundles, lambda x: x.parts["u"]), (pieces, lambda x: x)):
        dataset = dealt(FederatedDataset(given, None, 2), {"how": "iid", "clients": 3})
        taken = [column(own.take(slice(None))[0]) for own in dataset.clients.values()]
        assert len(taken) == 3
        assert sorted(torch.cat(taken).flatten().tolist()) == list(range(10))


def test_a_million_owners_do_not_cost_the_square_of_their_number():
    def seconds(count):
        times = []
        for _ in range(2):
            begun = time.process_time()
            partition(np.arange(count), how="by")
            times.append(time.process_time() - begun)
        return min(times)

    # 32 times as many samples, each with an owner of its own: the product is 1,024 times as large.
    assert seconds(160_000) < 100 * seconds(5_000)


def test_nobody_has_anything_of_no_samples():
    assert [len(part) for part in partition([], 3, least=0)] == [0, 0, 0]
