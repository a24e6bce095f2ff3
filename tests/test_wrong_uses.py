"""Hundreds of wrong uses of what people reach for first: every one is refused in one sentence."""

import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import IterableDataset, TensorDataset

import fedcore
from fedcore.cli.grid import run_grid
from fedcore.config import resolve
from fedcore.errors import FedCoreError
from fedcore.history import History
from fedcore.records import RoundRecord

NOTHING = object()
NO_NUMBER = ["three", "", b"1", [], [1, 2], {}, {"a": 1}, 1j, NOTHING, (), np.array([1, 2]), int]
NO_NUMBER += [torch.tensor([1, 2]), True, False, None]
NO_WHOLE = [*NO_NUMBER, 1.5, -1, -(10**30), math.nan, math.inf, -math.inf, "2", np.float64(2.5)]
NO_POSITIVE = [*NO_NUMBER, 0.0, -0.5, math.nan, math.inf, -math.inf, "0.5"]
NO_BUDGET = [*NO_WHOLE, 0, 0.0, 1.0, 1.01, -0.1, np.float32(2.5), "10%", "0.1"]
NO_SHARE = [*NO_NUMBER, -0.1, 1.5, math.nan, math.inf, "80 %", -1, 80]
LABELS = np.arange(40) % 4
ROWS = np.random.default_rng(0).normal(size=(40, 3))


def without(values, *allowed):
    """The values that are wrong here, too."""
    return [value for value in values if not any(value is one for one in allowed)]


def partitions():
    def use(**given):
        return lambda: fedcore.partition(**{"labels": LABELS, "clients": 4, "how": "iid", **given})

    for wrong in [*NO_WHOLE, 0, 41, 10**12]:
        yield "clients", wrong, use(clients=wrong)
    for wrong in [*NO_NUMBER, "IID", "Dirichlet", "dirichlet ", "by label", 3, 0.5, "shard", len]:
        yield "how", wrong, use(how=wrong)
    for wrong in NO_POSITIVE:
        yield "alpha", wrong, use(how="dirichlet", alpha=wrong)
    for wrong in [*NO_WHOLE, 0, 11, 10**9]:
        yield "shards", wrong, use(how="shards", shards=wrong)
    for wrong in [*NO_WHOLE, 11, 10**12]:
        yield "least", wrong, use(least=wrong)
    for wrong in NO_WHOLE:
        yield "seed", wrong, use(seed=wrong)
    shapes = [None, 5, "abc", b"abc", [], ["a", "b"], {}, NOTHING, [NOTHING], [1, [2]]]
    shapes += [torch.tensor(3), [1j], np.array(["1", "2"]), np.zeros(0), [None, 1], lambda: 3]
    classless = [[[1, 2], [3, 4]], [1.5, 2.0], [math.nan], np.zeros((3, 2)), torch.zeros(3) / 0]
    for wrong in shapes:  # also where no label is looked at
        yield "labels", wrong, use(labels=wrong, clients=2)
    for wrong in [*shapes, *classless]:
        yield "labels", wrong, use(labels=wrong, clients=2, how="shards")
    for wrong in [None, 5, "abc", [], {}, [[1, 2], [3, 4]], NOTHING, np.zeros((3, 2)), [1, [2]]]:
        yield "labels", wrong, use(labels=wrong, how="by")
    yield "least", 20, lambda: fedcore.partition([0, 0, 1], how="by", least=2)
    yield "least", 10, use(how="dirichlet", alpha=1e-3, least=10, clients=3, labels=[0] * 31)

    class Broken:
        num_partitions = 2

        def load_partition(self, number):
            raise ValueError("partitions of no size\n  are none")

    yield "how", Broken, use(how=Broken())


def datasets():
    pair = (ROWS, LABELS)

    def use(given, **options):
        return lambda: fedcore.partitioned(lambda: given)(**{"clients": 3, **options})

    for wrong in [*without(NO_NUMBER, int), "load", 3, 1.5, pair]:
        yield "samples", wrong, lambda wrong=wrong: fedcore.partitioned(wrong)
    forms = [None, 3, "ab", [], (), pair[0], (pair,), (pair, None, None), {}, NOTHING]
    forms += [(None, None), (3, None), ("ab", None), ((ROWS,), None), ((ROWS, LABELS[:3]), None)]
    forms += [((ROWS, ROWS), None), ((ROWS, ["a"] * 40), None), ((None, LABELS), None)]
    forms += [(pair, 3), (pair, (ROWS,)), (pair, (ROWS, LABELS[:3])), (pair, (None, None))]
    forms += [((ROWS[:0], LABELS[:0]), None)]
    for wrong in forms:
        yield "data", wrong, use(wrong)
    for wrong in [3, LABELS[:3], [], ROWS, {}, [None, 1] * 20]:
        yield "owners", wrong, use(((*pair, wrong), None), how="by")
    for wrong in NO_SHARE:
        yield "held_out", wrong, use((pair, None), held_out=wrong)
    for wrong in NO_WHOLE:
        yield "seed", wrong, use((pair, None), seed=wrong)
    yield "option", "colour", use((pair, None), colour=3)
    yield "held_out", 1.0, use((pair, None), held_out=1.0)


def folders(place):
    wrongs = [*without(NO_NUMBER, ""), 5, 1.5, place / "nowhere", place / "empty", place / "file"]
    for wrong in [*wrongs, str(place / "nowhere"), place / "damaged", place / "nonsense", "\0"]:
        yield "folder", wrong, lambda wrong=wrong: fedcore.load(wrong)


def budgets():
    model = nn.Linear(3, 4)
    rows = ROWS.astype(np.float32)
    for wrong in NO_BUDGET:
        yield "budget", wrong, lambda wrong=wrong: fedcore.select_coreset(ROWS, wrong)
        yield "budget", wrong, lambda wrong=wrong: fedcore.coreset_for(model, (rows, LABELS), wrong)


def selectors():
    def use(y=None, **given):
        return lambda: fedcore.CoresetSelector(**given).fit(ROWS, y)

    for wrong in NO_BUDGET:
        yield "budget", wrong, use(budget=wrong)
    for wrong in [*NO_NUMBER, "medoids", "k-medoids", "nowhere.py", 3, 0.5, "KMEDOIDS"]:
        yield "selector", wrong, use(selector=wrong)
    for wrong in NO_WHOLE:
        yield "seed", wrong, use(seed=wrong)
    per_class = "kmedoids-per-class"
    yield "labels", None, use(selector=per_class)
    for wrong in [3, LABELS[:5], ROWS, [], "abc", NOTHING]:
        yield "labels", wrong, use(y=wrong, selector=per_class)


def coresets():
    found = fedcore.select_coreset(ROWS, 8)
    for wrong in [*without(NO_WHOLE, None), 0]:
        yield "num_samples", wrong, lambda wrong=wrong: found.sampler(wrong)
    for wrong in [*NO_WHOLE, 2**70]:
        yield "seed", wrong, lambda wrong=wrong: found.sampler(seed=wrong)

    class Stream(IterableDataset):
        def __iter__(self):
            return iter(range(40))

    short = TensorDataset(torch.zeros(5, 3))
    for wrong in [None, 3, 1.5, NOTHING, Stream(), short, int, {}, set(), ROWS[:5], [1, 2]]:
        yield "dataset", wrong, lambda wrong=wrong: found.subset(wrong)


def histories():
    scores = {"train_loss": None, "train_accuracy": None, "test_loss": None, "test_accuracy": 0.5}
    round_one = RoundRecord(1, 1.0, 2.0, (), rejected=0, wall_seconds=0.0, **scores)
    history = History((round_one,))
    for wrong in NO_SHARE:
        yield "accuracy", wrong, lambda wrong=wrong: history.time_to(wrong)
    for wrong in [3, "axes", [], {}, NOTHING, 1.5, True, lambda: None, np.zeros(3), int]:
        yield "axes", wrong, lambda wrong=wrong: history.plot(wrong)
    for wrong in ["Test", "validation", None, 3, [], NOTHING]:
        yield "split", wrong, lambda wrong=wrong: history.accuracies(wrong)


def stopping():
    pair = (ROWS.astype(np.float32), LABELS)

    def use(**given):
        options = {"rounds": 2, "epochs": 1, "clients_per_round": 1, **given}
        return lambda: fedcore.simulate([pair, pair], nn.Linear(3, 4), test=pair, **options)

    for wrong in [*NO_WHOLE, 0, 10**9]:
        yield "evaluate_every", wrong, use(evaluate_every=wrong)
    for wrong in NO_WHOLE:
        yield "patience", wrong, use(patience=wrong)
    for wrong in [3, "stop", [], {}, NOTHING, 1.5, True]:
        yield "on_round", wrong, use(on_round=wrong)
    yield "patience", 1, lambda: fedcore.simulate([pair, pair], nn.Linear(3, 4), patience=1)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Folders that hold no job, or half of one."""
    root = tmp_path_factory.mktemp("folders")
    (root / "empty").mkdir()
    (root / "file").write_text("rounds")
    given = {"benchmark": "synthetic-0-0", "strategies": ("fedavg",), "rounds": 2}
    given |= {"stragglers": (30.0,), "epochs": 1, "clients_per_round": 2, "data": {"clients": 4}}
    run_grid(resolve(given, lambda name, preset: {}), root / "damaged")
    rounds = (root / "damaged" / "rounds.jsonl").read_text()
    (root / "damaged" / "rounds.jsonl").write_text(rounds[10:])
    (root / "nonsense").mkdir()
    (root / "nonsense" / "experiment.json").write_text("{")
    return root


GROUPS = [partitions, datasets, budgets, selectors, coresets, histories, stopping]


def not_refused(cases, kinds=FedCoreError):
    """Run wrong uses; those that were not refused in one sentence."""
    bad = []
    for name, wrong, use in cases:
        case = f"{name}={wrong!r:.60}".replace("\n", " ")
        try:
            use()
        except kinds as refusal:
            said = str(refusal)
            if "\n" in said or len(said) > 400 or len(said.split()) < 4 or said.endswith("."):
                bad.append(f"{case}: {said!r}")
        except Exception as error:
            bad.append(f"{case}: {type(error).__name__}: {error}")
        else:
            bad.append(f"{case}: accepted")
    return bad


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.__name__)
@pytest.mark.filterwarnings("ignore")
def test_every_one_is_one_sentence(group):
    if group is selectors:
        pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    # A Coreset is a noun, below our own errors; BadOption is a ValueError as well.
    bad = not_refused(group(), ValueError if group is coresets else FedCoreError)
    assert not bad, "\n".join(bad)


def test_folders_that_hold_no_job(place):
    bad = not_refused(folders(place))
    assert not bad, "\n".join(bad)


SPELLED = [
    "three",
    "",
    "1.5",
    "-1",
    "nan",
    "inf",
    "1e3",
    "1,2",
    "²",
    "१",
    "--",
    "None",
    "0x2",
    "2x",
]


@pytest.mark.parametrize("name", ["evaluate-every", "patience"])
@pytest.mark.parametrize("wrong", SPELLED)
def test_on_the_command_line(name, wrong, monkeypatch, capsys, tmp_path):
    pytest.importorskip("typer")
    pytest.importorskip("rich")
    from fedcore.cli.main import main

    out = tmp_path / "job"
    given = ["compare", "--rounds", "2", f"--{name}={wrong}", "--out", str(out)]
    monkeypatch.setattr("sys.argv", ["fedcore", *given])
    with pytest.raises(SystemExit) as stopped:
        main()
    said = capsys.readouterr().err.strip()
    assert stopped.value.code == 2
    assert "\n" not in said
    assert name.replace("-", "_") in said.replace("-", "_")
    assert not out.exists()


def test_there_are_enough_of_them(place):
    assert sum(len(list(group())) for group in GROUPS) + len(list(folders(place))) >= 300
