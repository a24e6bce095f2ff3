"""Wrong uses of what brings data in: hundreds of them, one sentence each, never a traceback."""

import json
import math
import sys
import types
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn
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
from fedcore.errors import FedCoreError
from fedcore.sources import clients as lazily
from fedcore.sources.benchmark import find

QUICK = {"rounds": 1, "epochs": 2, "clients_per_round": 2, "device": "cpu", "stragglers": 50.0}
GOOD = TensorDataset(torch.randn(8, 4), torch.arange(8) % 2)
SENTENCE = 600  # characters at most, with the reason of whoever failed


class Of(Dataset):
    """Sample j is ``sample(j)``."""

    def __init__(self, sample, length=8):
        self.sample, self.length = sample, length

    def __len__(self):
        return self.length() if callable(self.length) else self.length

    def __getitem__(self, index):
        return self.sample(index)


class Stream(IterableDataset):
    def __iter__(self):
        yield from GOOD


class Many(Of):
    def __getitems__(self, rows):
        return [self.sample(row) for row in rows[:-1]] or [self.sample(0)] * 2


def fails(error):
    def sample(index):
        raise error

    return sample


X = torch.zeros(4)
ERRORS = [OSError("disk gone"), KeyError("x"), ValueError(), IndexError(9), RuntimeError("a\nb")]
ERRORS += [ZeroDivisionError("z"), AttributeError("no"), MemoryError(), StopIteration()]
SAMPLES = [X, 3, None, "text", object(), (), (X,), (X, 1, 2), [X], {"x": X, "y": 1}, b"bytes"]
SAMPLES += [
    (X, y) for y in (None, "cat", 1.5, math.nan, math.inf, -1, 2, 10**9, 10**30, [1], [], {})
]
SAMPLES += [(X, y) for y in (X, torch.eye(2)[0], object(), 1 + 2j, (1, 2), "", b"1")]
SAMPLES += [(x, 1) for x in (None, "text", object(), 3.0, [], {}, [[1], [2, 3]], torch.zeros(0))]
SAMPLES += [(x, 1) for x in (torch.zeros(5), torch.zeros(2, 2), torch.full((4,), math.nan))]
SAMPLES += [(x, 1) for x in (torch.zeros(4) / 0, X.to_sparse(), X + 1j, X.to("meta"), X.int())]
SAMPLES += [(np.zeros(4, dtype=kind), 1) for kind in ("U3", "O", "datetime64[s]", "c8")]
LENGTHS = [0, -3, 1.5, "8", None, lambda: 1 / 0, 9, 10**30, lambda: "many"]
COLLATES = [lambda batch: None, lambda batch: batch[0], lambda batch: (X, 1), lambda batch: 1 / 0]
COLLATES += [lambda batch: (torch.zeros(len(batch), 4), torch.zeros(len(batch), 2))]
COLLATES += [lambda batch: (torch.zeros(len(batch) + 1, 4), torch.zeros(len(batch) + 1))]
COLLATES += [lambda batch: (torch.zeros(len(batch), 7), torch.zeros(len(batch)))]
COLLATES += [lambda batch: (["a"] * len(batch), [0] * len(batch)), lambda batch: {"x": 1}]

DATASETS = [Of(fails(error)) for error in ERRORS]
DATASETS += [Of(lambda index, one=one: one) for one in SAMPLES]
DATASETS += [Of(lambda index, one=one: (X, 0) if index < 5 else one) for one in SAMPLES]
DATASETS += [Of(lambda index: GOOD[index], length) for length in LENGTHS]
DATASETS += [DataLoader(GOOD, 2, collate_fn=collate) for collate in COLLATES]
DATASETS += [
    Stream(),
    DataLoader(Stream()),
    DataLoader(GOOD, batch_size=None),
    Many(GOOD.__getitem__),
]
DATASETS += [DataLoader(GOOD, sampler=SubsetRandomSampler(range(n))) for n in (1, 7)]
DATASETS += [Subset(GOOD, [0, 99]), Subset(GOOD, ["a"]), Subset(GOOD, [None, 1])]
DATASETS += [ConcatDataset([GOOD, Of(lambda index: (torch.zeros(5), 1))]), Dataset()]
OTHERS = [
    None,
    3,
    "data",
    (X, 1),
    [X],
    {},
    object(),
    GOOD[0],
    np.zeros((3, 4)),
    Dataset,
    DataLoader,
]


def model():
    return nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))


def told(call):
    """Whether a wrong use is refused, and what is wrong with how that is said, if anything."""
    try:
        call()
    except FedCoreError as error:
        said = str(error)
        fine = said and "\n" not in said and len(said) < SENTENCE
        return True, "" if fine else f"no sentence: {said[:200]}"
    except Exception as error:
        return True, f"{type(error).__name__}: {error}"[:200]
    return False, ""


def check(calls, share):
    """All end in a sentence, or well; at least a ``share`` of them are refused."""
    results = {name: told(call) for name, call in calls.items()}
    wrong = [f"{name}: {what}" for name, (_, what) in results.items() if what]
    assert not wrong
    taken = [name for name, (refused, _) in results.items() if not refused]
    assert len(taken) <= (1 - share) * len(results), taken


WAYS = {
    "a client": lambda given: fedcore.simulate([GOOD, given], model(), **QUICK),
    "the first": lambda given: fedcore.simulate([given, GOOD], model(), **QUICK),
    "loaded": lambda given: fedcore.simulate(
        fedcore.LazyClients([8, 8], [GOOD, given].__getitem__), model(), **QUICK
    ),
    "held out": lambda given: fedcore.simulate([GOOD, GOOD], model(), test=given, **QUICK),
}


@pytest.mark.parametrize("batchwise", [False, True])
@pytest.mark.parametrize("way", WAYS)
def test_wrong_datasets(way, batchwise, monkeypatch):
    if batchwise:
        monkeypatch.setattr(lazily, "HELD", 0)
    every = enumerate((*DATASETS, *OTHERS))
    # Batch by batch, what no step asks for is nobody's harm.
    check({n: lambda one=one: WAYS[way](one) for n, one in every}, 0.5 if batchwise else 0.8)


@pytest.fixture
def places(tmp_path, monkeypatch):
    """A stand-in for Hugging Face's package, LEAF files, and a file of the user's own."""
    columns = {"x": np.ones((20, 3)), "y": np.arange(20) % 2, "t": np.array(["abc"] * 20)}

    def load_dataset(name, cache_dir):
        read = types.SimpleNamespace(with_format=lambda kind: Whole())
        return {
            "train": types.SimpleNamespace(
                column_names=list(columns), select_columns=lambda names: read
            )
        }

    class Whole:
        def __getitem__(self, key):
            return columns

    hub = types.ModuleType("datasets")
    hub.load_dataset = load_dataset
    monkeypatch.setitem(sys.modules, "datasets", hub)
    users = {"ann": {"x": [[1.0, 2.0]] * 6, "y": [0, 1] * 3}}
    whole = {"users": ["ann"], "num_samples": [6], "user_data": users}
    (tmp_path / "all.json").write_text(json.dumps(whole))
    (tmp_path / "own.py").write_text(
        "import numpy as np\nimport fedcore\n"
        "def samples(rows: int = 30):\n"
        "    return (np.ones((rows, 2)), np.arange(rows) % 3, np.arange(rows) % 4), None\n"
        "load = fedcore.partitioned(samples)\n"
    )
    return tmp_path


VALUES = ["", "abc", -1, 0, 1.5, math.nan, math.inf, -math.inf, 10**30, "1,2", "y", "x", True, None]
VALUES += [[], {}, "a\nb", "🦜", "None", "../..", 1e-300, object()]
OPTIONS = {
    "hf:some/data": ["inputs", "labels", "owners", "train", "test", "length", "held_out"],
    "leaf": ["train", "shape", "classes", "length"],
    "own.py": ["rows", "held_out"],
}
DEALING = ["how", "clients", "alpha", "shards", "least"]
KNOWN = {"hf:some/data": {"inputs": "x", "labels": "y"}}


@pytest.mark.parametrize("name", OPTIONS)
def test_wrong_options_of_data(name, places):
    place = places if name == "leaf" else None
    benchmark = find(str(places / name) if name.endswith(".py") else name)
    cases = [{key: value} for key in (*OPTIONS[name], *DEALING) for value in VALUES]
    cases += [{"how": "shards", "shards": value} for value in VALUES]
    cases += [{"how": "dirichlet", "alpha": value} for value in VALUES]
    cases += [{"how": "iid", "clients": value} for value in VALUES]
    cases += [{"how": "by", "least": value} for value in VALUES]
    cases += [{key: 1} for key in ("seed", "data_dir", "zzz", "", "Alpha", "how ", "name=")]
    calls = {}
    for case in cases:
        options = {"clients": 4, **KNOWN.get(name, {}), **case}
        load = partial(benchmark.load, seed=0, data_dir=place, options=options)
        calls[f"{len(calls)} {case}"] = load
    check(calls, 0.5)


def test_wrong_options_of_a_benchmark_that_is_made():
    load = partial(find("synthetic-1-1").load, seed=0, data_dir=None)
    cases = [{"dimension": value, "clients": 2} for value in VALUES]
    cases += [{"clients": 2, "how": value} for value in VALUES]
    check({f"{n} {one}": partial(load, options=one) for n, one in enumerate(cases)}, 0.5)


@pytest.mark.parametrize(
    "name", ["hf", "hf-x", "hf:", "cifar", "cifar-10", "cifar10-x", "cifar100:a"]
)
def test_wrong_names(name):
    with pytest.raises(FedCoreError) as caught:
        find(name).load(seed=0, data_dir=None, options={})
    assert "\n" not in str(caught.value)
