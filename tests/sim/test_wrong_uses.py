"""Wrong uses of losses, metrics, targets, inputs and outputs: each is refused in one sentence."""

from itertools import product

import numpy as np
import pytest
import torch
from torch import nn

import fedcore
from fedcore.config import resolve
from fedcore.errors import FedCoreError

QUICK = {"rounds": 1, "epochs": 1, "clients_per_round": 2, "learning_rate": 0.01}
QUICK |= {"device": "cpu", "strategy": "fedavg"}
ROWS, COLUMNS = 12, 4
DRAW = np.random.default_rng(0)
X = DRAW.normal(size=(ROWS, COLUMNS)).astype(np.float32)
NUMBERS = DRAW.normal(size=(ROWS, 2)).astype(np.float32)
CLASSES = np.arange(ROWS) % 2
GOOD = {"cross-entropy": CLASSES, "mse": NUMBERS, "huber": NUMBERS, "bce": (NUMBERS > 0) * 1.0}


def model():
    return nn.Sequential(nn.Linear(COLUMNS, 3), nn.Tanh(), nn.Linear(3, 2))


def simulated(inputs, targets, *, network=None, **options):
    pair, called = (inputs, targets), []
    given = {"test": (X, GOOD[options["loss"]]) if options.get("metrics") else None, **options}
    try:
        fedcore.simulate([pair] * 3, network or model(), on_round=called.append, **given, **QUICK)
    except FedCoreError:
        assert not called, "something was trained before the refusal"
        raise


def chosen(inputs, targets, *, network=None, **options):
    fedcore.coreset_for(network or model(), (inputs, targets), 3, **options)


ENTRIES = {"simulate": simulated, "coreset_for": chosen}


def raising(error):
    def loss(outputs, targets):
        raise error

    return loss


class NoCall:
    pass


class Stubborn:
    def __call__(self):
        return 1


WRONG_LOSSES = {
    **{repr(name): name for name in ("", "MSE", "l2", "cross_entropy", "mse ", "crossentropy")},
    **{
        repr(one): one for one in (None, 0, 1.5, True, (), [], {}, ["mse"], ("mse",), b"mse", np.pi)
    },
    **{repr(name): name for name in ("none.py", "/no/where.py", ".py", "mse,bce", "\0")},
    "an object": NoCall(),
    "no arguments": lambda: 1,
    "one argument": lambda outputs: outputs.sum(1),
    "three arguments": lambda outputs, targets, more: outputs.sum(1),
    "a class": NoCall,
    "a stubborn object": Stubborn(),
    "a mean": lambda outputs, targets: outputs.mean(),
    "a matrix": lambda outputs, targets: outputs * 1,
    "a column": lambda outputs, targets: outputs.sum(1, keepdim=True),
    "too few": lambda outputs, targets: outputs.sum(1)[:-1],
    "too many": lambda outputs, targets: torch.cat([outputs, outputs]).sum(1),
    "nothing": lambda outputs, targets: None,
    "a float": lambda outputs, targets: 0.5,
    "a list": lambda outputs, targets: [0.5] * len(outputs),
    "a tuple": lambda outputs, targets: (outputs.sum(1), outputs.sum(1)),
    "an array": lambda outputs, targets: outputs.detach().numpy().sum(1),
    "a text": lambda outputs, targets: "loss",
    "whole numbers": lambda outputs, targets: outputs.argmax(1),
    "truth values": lambda outputs, targets: outputs[:, 0] > 0,
    "detached": lambda outputs, targets: outputs.detach().sum(1),
    "constants": lambda outputs, targets: torch.ones(len(outputs)),
    "a module with a mean": nn.L1Loss(),
    "a module of sums": nn.MSELoss(reduction="sum"),
    "unknown attribute": lambda outputs, targets: outputs.nothing,
    "a clash": lambda outputs, targets: outputs @ torch.ones(99),
    "an index": lambda outputs, targets: outputs[:, 99],
    "a zero": lambda outputs, targets: 1 / 0,
    "a key": lambda outputs, targets: {}["loss"],
    "lines": raising(RuntimeError("first\nsecond")),
    "silent": raising(ValueError()),
    "refused": raising(NotImplementedError("later")),
    "asserted": raising(AssertionError()),
    "stopped": raising(OSError("disk")),
    "recursive": raising(RecursionError("deep")),
}
# Strings and functions both; what a loss gives is looked at before its targets.
LOSS_USES = list(product(ENTRIES, WRONG_LOSSES, ("class", "numbers")))


@pytest.mark.parametrize(("entry", "wrong", "kind"), LOSS_USES)
def test_losses(entry, wrong, kind):
    targets = {"class": CLASSES, "numbers": NUMBERS}[kind]
    refused(ENTRIES[entry], X, targets, loss=WRONG_LOSSES[wrong])


def refused(function, *arguments, **options):
    with pytest.raises(FedCoreError) as refusal:
        function(*arguments, **options)
    sentence = str(refusal.value)
    assert sentence
    assert "\n" not in sentence
    assert len(sentence) < 500


BROKEN = NUMBERS.copy()
BROKEN[5, 1] = np.nan
ENDLESS = NUMBERS.copy()
ENDLESS[0, 0] = np.inf
WRONG_TARGETS = {
    "too few": lambda good: good[:-1],
    "none": lambda good: good[:0],
    "texts": lambda good: np.array(["a"] * ROWS),
    "objects": lambda good: np.array([object()] * ROWS),
    "nothing": lambda good: None,
    "a number": lambda good: 3,
    "a dict": lambda good: {"y": good},
    "a dict of nothing": lambda good: {},
    "complex": lambda good: good.astype(complex),
    "dates": lambda good: np.array(["2020-01-01"] * ROWS, "datetime64[D]"),
    "ragged": lambda good: [[1.0]] * (ROWS - 1) + [[1.0, 2.0]],
    "three columns": lambda good: np.ones((ROWS, 3)) * 0.5,
    "a cube": lambda good: np.ones((ROWS, 2, 2)) * 0.5,
    "NaN": lambda good: BROKEN,
    "infinity": lambda good: ENDLESS,
    "sparse": lambda good: torch.from_numpy(NUMBERS).to_sparse(),
    "meta": lambda good: torch.ones(ROWS, 2, device="meta"),
    "quantised": lambda good: np.ma.masked_array(NUMBERS, mask=NUMBERS > 0),
}
TARGET_USES = list(product(ENTRIES, GOOD, WRONG_TARGETS))


@pytest.mark.parametrize(("entry", "loss", "wrong"), TARGET_USES)
@pytest.mark.filterwarnings("ignore:Sparse")
def test_targets(entry, loss, wrong):
    refused(ENTRIES[entry], X, WRONG_TARGETS[wrong](np.array(GOOD[loss])), loss=loss)


class Named(nn.Module):
    """A model of two inputs by name."""

    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(COLUMNS, 3), nn.Linear(3, 2)

    def forward(self, values, mask):
        return self.head(torch.tanh(self.body(values * mask)))


WRONG_INPUTS = {
    "empty": {},
    "one missing": {"values": X},
    "another name": {"values": X, "masks": np.ones_like(X)},
    "one more": {"values": X, "mask": np.ones_like(X), "more": X},
    "a number for a name": {0: X, 1: X, 2: X},
    "too few rows": {"values": X, "mask": np.ones_like(X)[:-1]},
    "rows of one": {"values": X[:-1], "mask": np.ones_like(X)},
    "a number": {"values": X, "mask": 1.0},
    "nothing": {"values": X, "mask": None},
    "texts": {"values": X, "mask": np.array(["a"] * ROWS)},
    "a dict inside": {"values": {"x": X}, "mask": np.ones_like(X)},
    "NaN": {"values": X * np.nan, "mask": np.ones_like(X)},
    "infinity": {"values": X, "mask": np.full_like(X, np.inf)},
    "another width": {"values": X, "mask": np.ones((ROWS, 9))},
    "whole numbers": {"values": X.astype(int), "mask": np.ones((ROWS, 1), int)},
    "a tuple of one": (X,),
    "a tuple of three": (X, X, X),
    "a tuple of other rows": (X, np.ones_like(X)[:-2]),
    "an empty tuple": (),
    "one tensor": X,
    "complex": {"values": X.astype(complex), "mask": np.ones_like(X)},
    "objects": {"values": X, "mask": np.array([object()] * ROWS)},
}
INPUT_USES = list(product(ENTRIES, ("cross-entropy", "mse"), WRONG_INPUTS))


@pytest.mark.parametrize(("entry", "loss", "wrong"), INPUT_USES)
def test_inputs(entry, loss, wrong):
    given = WRONG_INPUTS[wrong]
    refused(ENTRIES[entry], given, GOOD[loss], loss=loss, network=Named())


class Returning(nn.Module):
    """A model that returns something made of its scores."""

    def __init__(self, make):
        super().__init__()
        self.body, self.head, self.make = nn.Linear(COLUMNS, 3), nn.Linear(3, 2), make

    def forward(self, x):
        return self.make(self.head(torch.tanh(self.body(x))))


class Object:
    def __init__(self, logits):
        self.logits = logits


WRONG_OUTPUTS = {
    "a pair": lambda a: (a, a),
    "a list": lambda a: [a],
    "nothing": lambda a: None,
    "a number": lambda a: 1.0,
    "a text": lambda a: "scores",
    "an array": lambda a: a.detach().numpy(),
    "an empty dict": lambda a: {},
    "a dict of scores": lambda a: {"scores": a},
    "a dict of nothing": lambda a: {"logits": None},
    "a dict of a list": lambda a: {"logits": [a]},
    "an object of nothing": lambda a: Object(None),
    "an object of a pair": lambda a: Object((a, a)),
    "an object": lambda a: NoCall(),
    "a sum": lambda a: a.sum(),
    "one row": lambda a: a[:1].repeat(3, 1),
    "rows twice": lambda a: torch.cat([a, a]),
    "a dict of a sum": lambda a: {"logits": a.sum()},
    "a fault": lambda a: a.nothing,
    "a clash": lambda a: a @ torch.ones(77),
}
OUTPUT_USES = list(product(ENTRIES, GOOD, WRONG_OUTPUTS))


@pytest.mark.parametrize(("entry", "loss", "wrong"), OUTPUT_USES)
def test_outputs(entry, loss, wrong):
    network = Returning(WRONG_OUTPUTS[wrong])
    refused(ENTRIES[entry], X, GOOD[loss], loss=loss, network=network)


WRONG_METRICS = {
    **{
        repr(name): [name]
        for name in ("", "F1", "top-0", "top--1", "top-a", "auc", "none.py", ".py")
    },
    **{repr(one): [one] for one in (None, 0, 1.5, True, (), {}, b"r2")},
    **{repr(one): one for one in ("r2", None, 3, {"r2": 1}, {"r2"}, b"r2")},
    "twice": ["r2", "r2"],
    "a name twice": ["text", "text"],
    "no arguments": [lambda: 1],
    "nothing": [lambda outputs, targets: None],
    "a text": [lambda outputs, targets: "good"],
    "a matrix": [lambda outputs, targets: outputs],
    "a fault": [lambda outputs, targets: outputs.nothing],
    "a zero": [lambda outputs, targets: 1 // 0],
    "lines": [raising(RuntimeError("first\nsecond"))],
    "a class": [NoCall],
}
METRIC_USES = list(product(("mse", "cross-entropy"), WRONG_METRICS))


@pytest.mark.parametrize(("loss", "wrong"), METRIC_USES)
def test_metrics(loss, wrong):
    refused(simulated, X, GOOD[loss], loss=loss, metrics=WRONG_METRICS[wrong])


OPTIONS = {"batch_norm": ["", "mean", "AVERAGE", None, 1, True, [], "keep"]}
OPTIONS |= {"precision": ["", "fp16", "bfloat16", "16", 16, None, True, ["bf16"]]}
OPTIONS |= {"loss": ["", "l1", 3, None, ["mse"], "no.py"], "metrics": ["auc", 3, ["r2", "r2"], ""]}
OPTION_USES = [(name, value) for name, values in OPTIONS.items() for value in values]


@pytest.mark.parametrize(("name", "value"), OPTION_USES)
def test_options_of_a_job(name, value):
    if (name, value) == ("metrics", ""):
        assert resolve({name: value}, lambda benchmark, preset: {}).metrics == ()
        return
    refused(resolve, {name: value}, lambda benchmark, preset: {})


def test_there_are_many():
    uses = (LOSS_USES, TARGET_USES, INPUT_USES, OUTPUT_USES, METRIC_USES, OPTION_USES)
    assert sum(map(len, uses)) >= 400
