"""Whole runs with losses, metrics and targets of other kinds than one class a sample."""

import json

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

import fedcore
from fedcore.cli.grid import run_grid
from fedcore.config import resolve
from fedcore.errors import BadData, BadOption, FedCoreError
from fedcore.losses import cross_entropy

SIZES = (40, 12, 90, 25, 60, 9)
QUICK = {"rounds": 3, "epochs": 3, "clients_per_round": 4, "learning_rate": 0.05}
QUICK |= {"stragglers": 40, "device": "cpu"}


def network(outputs, *, squeezed=False):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        layers = [nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, outputs)]
    return nn.Sequential(*layers, *([nn.Flatten(0)] if squeezed else []))


class Tagger(nn.Module):
    """A class for each of three positions."""

    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(5, 8), nn.Linear(8, 4)

    def forward(self, x):
        return self.head(torch.tanh(self.body(x)))


def fleet(kind):
    draw = torch.Generator().manual_seed(0)
    teacher = torch.randn(5, 4, generator=draw)
    clients = []
    for size in SIZES:
        x = torch.randn(*((size, 3, 5) if kind == "positions" else (size, 5)), generator=draw)
        scores = x @ teacher
        targets = {
            "class": scores.argmax(-1),
            "number": scores[..., 0],
            "column": scores[..., :1],
            "numbers": scores,
            "several": (scores > 0).float(),
            "positions": scores.argmax(-1),
        }
        clients.append((x, targets[kind]))
    return clients


def smoothed(outputs, targets):
    return functional.cross_entropy(outputs, targets, reduction="none", label_smoothing=0.1)


CASES = {
    "mse of a column": ("mse", "column", lambda: network(1)),
    "mse of a number": ("mse", "number", lambda: network(1)),
    "mse, squeezed": ("mse", "number", lambda: network(1, squeezed=True)),
    "huber of several": ("huber", "numbers", lambda: network(4)),
    "bce": ("bce", "several", lambda: network(4)),
    "own": (smoothed, "class", lambda: network(4)),
    "positions": ("cross-entropy", "positions", Tagger),
}


@pytest.mark.parametrize("strategy", ["fedcore", "tempo", "fedavg", "fedprox", "fedbalancer"])
@pytest.mark.parametrize("case", CASES)
def test_losses_fall_with_every_kind_of_target(case, strategy):
    loss, kind, model = CASES[case]
    clients = fleet(kind)
    history = fedcore.simulate(
        clients, model(), test=clients[2], loss=loss, strategy=strategy, **QUICK | {"rounds": 6}
    )
    losses = [record.test_loss for record in history.rounds]
    assert losses[-1] < losses[0]
    has_classes = kind in ("class", "positions")
    assert (history.final_test_accuracy is not None) == has_classes
    ending = history.rounds[-1].ending
    assert (ending.worst_accuracy is not None) == (ending.slow_accuracy is not None) == has_classes


def test_the_loss_of_a_round_is_the_mean_over_all_samples():
    clients, model = fleet("column"), network(1)
    history = fedcore.simulate(clients, model, test=clients[2], loss="mse", **QUICK)
    model.load_state_dict(history.params)
    with torch.no_grad():
        everything = torch.cat([(model(x) - y).square() for x, y in clients])
        held_out = (model(clients[2][0]) - clients[2][1]).square()
    assert history.final_train_loss == pytest.approx(float(everything.mean()), rel=1e-5)
    assert history.rounds[-1].test_loss == pytest.approx(float(held_out.mean()), rel=1e-5)


@pytest.mark.parametrize("executor", ["sequential", "auto", "vectorised"])
def test_cross_entropy_as_a_function_is_that_of_the_fast_paths(executor):
    """The plain loop with a loss of one's own against the fast one, to rounding."""
    clients = fleet("class")
    options = QUICK | {"executor": executor, "strategy": "fedcore"}
    fast = fedcore.simulate(clients, network(4), test=clients[0], **options)
    own = fedcore.simulate(clients, network(4), test=clients[0], loss=cross_entropy, **options)
    for name, value in fast.params.items():
        assert torch.allclose(own.params[name], value, atol=1e-5)
    assert own.final_test_accuracy == fast.final_test_accuracy
    assert own.final_train_loss == pytest.approx(fast.final_train_loss, abs=1e-5)


def test_accuracy_of_positions_counts_no_padding():
    clients = fleet("positions")
    for _, labels in clients:
        labels[:, 2] = -100
    model = Tagger()
    history = fedcore.simulate(clients, model, test=clients[2], **QUICK)
    model.load_state_dict(history.params)
    x, y = clients[2]
    right = (model(x).argmax(-1) == y)[:, :2].float().mean()
    assert history.final_test_accuracy == pytest.approx(float(right))


def test_metrics_are_those_of_the_models_outputs():
    def bias(outputs, targets):
        return (outputs - targets).mean()

    clients, model = fleet("column"), network(1)
    options = QUICK | {"evaluate_every": 2}
    history = fedcore.simulate(
        clients, model, test=clients[2], loss="mse", metrics=["r2", "mae", bias], **options
    )
    measured = [bool(record.metrics) for record in history.rounds]
    assert measured == [False, True, True]
    model.load_state_dict(history.params)
    x, y = clients[2]
    with torch.no_grad():
        error = model(x) - y
    found = history.rounds[-1].metrics
    r2 = 1 - error.square().sum() / (y - y.mean()).square().sum()
    assert found["r2"] == pytest.approx(float(r2), rel=1e-4)
    assert found["mae"] == pytest.approx(float(error.abs().mean()), rel=1e-4)
    assert found["bias"] == pytest.approx(float(error.mean()), rel=1e-3)


def test_patience_goes_by_the_loss_where_there_are_no_classes():
    clients = fleet("column")
    standing = QUICK | {"learning_rate": 1e-30, "rounds": 9, "patience": 2}
    history = fedcore.simulate(clients, network(1), test=clients[0], loss="mse", **standing)
    assert len(history.rounds) == 3


DATASET = """
import numpy as np
from fedcore.types import ClientData, FederatedDataset

def load(*, seed=0):
    draw = np.random.default_rng(seed)
    teacher = draw.normal(size=(4, 2))
    def client(size):
        x = draw.normal(size=(size, 4))
        return ClientData(x, x @ teacher)
    sizes = (30, 80, 12, 45)
    return FederatedDataset({n: client(size) for n, size in enumerate(sizes)}, client(50), 2)
"""
JOB = {"rounds": 3, "epochs": 2, "strategies": ("fedcore", "fedavg"), "stragglers": (40.0,)}


def job(tmp_path, **options):
    (tmp_path / "table.py").write_text(DATASET)
    given = {**JOB, "benchmark": str(tmp_path / "table.py"), "loss": "mse", **options}
    return resolve(given, lambda name, preset: {})


def test_a_job_of_regression_is_written_read_and_resumed(tmp_path):
    pytest.importorskip("typer")
    from fedcore.cli.main import evaluate
    from fedcore.report.grids import level_grids
    from fedcore.report.page import write_report

    experiment = job(tmp_path, metrics=("r2", "mae"))
    content, found = run_grid(experiment, tmp_path / "out")
    rows = [json.loads(x) for x in (tmp_path / "out/rounds.jsonl").read_text().splitlines()]
    assert all(set(row["metrics"]) == {"r2", "mae"} for row in rows)
    assert all(row["test_accuracy"] is None for row in rows)
    results = content["results"]
    assert [r["final_test_r2"] for r in results] == [r["metrics"]["r2"] for r in rows[2::3]]
    (grid,) = level_grids(results)
    assert [cell.text for cell in grid.head][3:5] == ["r2,\nlast round", "mae,\nlast round"]
    loaded = fedcore.load(tmp_path / "out")
    assert [run.rounds[-1].metrics["mae"] for run in loaded.values()] == [
        r["final_test_mae"] for r in results
    ]
    write_report([tmp_path / "out"], tmp_path / "page", plots=False)
    evaluate(tmp_path / "out", None)
    lines = (tmp_path / "out/rounds.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "out/rounds.jsonl").write_text("".join(lines[:2]))
    for file in ("summary.json", "checkpoint.safetensors"):
        (tmp_path / "out" / file).unlink(missing_ok=True)
    again, _ = run_grid(experiment, tmp_path / "out", resume=True)
    for one, other in zip(again["results"], results, strict=True):
        assert one["final_test_r2"] == other["final_test_r2"]
    assert len(found) == 2


def test_a_job_without_metrics_has_no_field_of_them(tmp_path):
    content, _ = run_grid(job(tmp_path), tmp_path / "out")
    assert '"metrics"' not in (tmp_path / "out/rounds.jsonl").read_text()
    assert not any(
        key.startswith("final_test_") for key in content["results"][0] if "acc" not in key
    )


def test_a_loss_and_a_metric_from_files(tmp_path):
    (tmp_path / "own_loss.py").write_text(
        "def loss(outputs, targets):\n    return (outputs - targets).abs().mean(1)\n"
    )
    (tmp_path / "worst.py").write_text(
        "def metric(outputs, targets):\n    return (outputs - targets).abs().max()\n"
    )
    options = {"loss": str(tmp_path / "own_loss.py"), "metrics": (str(tmp_path / "worst.py"),)}
    content, _ = run_grid(job(tmp_path, **options), None)
    assert all(result["final_test_worst"] > 0 for result in content["results"])


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"learning_rate": "0.1,0.2"}, "learning_rate is chosen by an accuracy, got 2 with loss"),
        ({"executor": "compiled"}, "executor 'compiled' trains chains of .* by cross-entropy"),
        ({"loss": "bcee"}, "no loss named 'bcee'; did you mean 'bce'"),
        ({"metrics": ("f1",)}, "metric needs classes, or labels of 0 and 1"),
        ({"metrics": ("accuracy",)}, None),
        ({"metrics": ("perplexity",)}, "a class for every row of scores"),
        ({"loss": "cross-entropy"}, "labels of client 0 must be one class per sample"),
    ],
)
def test_what_does_not_go_together(tmp_path, options, sentence):
    if sentence is None:
        run_grid(job(tmp_path, **options), None)
        return
    with pytest.raises(FedCoreError, match=sentence):
        run_grid(job(tmp_path, **options), None)


def test_advice_goes_by_accuracy(tmp_path):
    from fedcore.cli.advise import advise

    with pytest.raises(BadOption, match="loss 'mse' has no accuracy to reach"):
        advise("synthetic-1-1", loss="mse")


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"loss": lambda o, t: o.mean()}, "must give one number a sample"),
        ({"loss": lambda o, t: o.detach().mean(1)}, "has no gradient"),
        ({"loss": lambda o, t: o.missing}, "failed with AttributeError"),
        ({"loss": "nothing"}, "no loss named"),
        ({"loss": 3}, "no loss named '3'; there are cross-entropy"),
        ({"loss": "bce", "clients": "numbers of class"}, "as many targets as outputs"),
        ({"metrics": ["nothing"]}, "no metric named"),
        ({"metrics": "r2"}, "metrics must be a list"),
        ({"metrics": ["perplexity"]}, "a class for every row of scores"),
        ({"metrics": [lambda o, t: o.missing]}, "metric '<lambda>' of .* failed"),
        ({"metrics": ["r2"], "test": None}, "a metric needs held-out data; pass test="),
        ({"loss": "cross-entropy"}, "labels of client 0 must be one class per sample"),
        ({"clients": "nan"}, "labels of client 1 must be one array of finite numbers"),
        ({"clients": "text"}, "labels of client 0 must be numbers"),
        ({"clients": "short"}, "client 0 has 40 inputs but 39 labels"),
    ],
)
def test_wrong_uses_are_one_sentence_before_anything_is_trained(changes, sentence):
    clients = fleet("numbers")
    broken = clients[1][1].clone()
    broken[2, 0] = torch.nan
    other = {
        "numbers of class": fleet("class"),
        "nan": [clients[0], (clients[1][0], broken)],
        "text": [(clients[0][0], np.array(["a"] * 40))],
        "short": [(clients[0][0], clients[0][1][:39])],
    }
    given = {"loss": "mse", "test": clients[0], **changes}
    chosen = other.get(given.pop("clients", ""), clients)
    called = []
    with pytest.raises((BadOption, BadData), match=sentence) as refusal:
        fedcore.simulate(chosen, network(4), on_round=called.append, **given, **QUICK)
    assert "\n" not in str(refusal.value)
    assert not called


class Rows(torch.utils.data.Dataset):
    """Samples as dicts with a target of any kind, one by one."""

    def __init__(self, inputs, targets):
        self.inputs, self.targets = inputs, targets

    def __len__(self):
        return len(self.inputs)

    def __getitem__(self, place):
        return {"input": self.inputs[place]}, self.targets[place]


def own_collate(rows):
    return torch.utils.data.default_collate(rows)


class ByName(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, input):
        return {"logits": self.inner(input)}


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_datasets_of_dicts_with_every_kind_of_target(case, streamed):
    loss, kind, model = CASES[case]
    arrays = fleet(kind)
    clients = [Rows(*pair) for pair in arrays]
    if streamed:  # a collate function of one's own: batches are read as steps ask for them
        load = torch.utils.data.DataLoader
        clients = [load(one, collate_fn=own_collate) for one in clients]
    own = {"evaluate_samples": 100, **QUICK}
    network = model()
    found = fedcore.simulate(clients, ByName(network), test=clients[2], loss=loss, **own)
    expected = fedcore.simulate(arrays, network, test=arrays[2], loss=loss, **own)
    for name, value in expected.params.items():
        assert torch.allclose(found.params[f"inner.{name}"], value, atol=1e-5)
    assert found.rounds[-1].test_loss == pytest.approx(expected.rounds[-1].test_loss, rel=1e-4)


def test_texts_of_different_lengths_are_padded_batch_by_batch():
    """A collate function that pads, as that of transformers does, and a loss by position."""
    draw = torch.Generator().manual_seed(0)

    class Texts(torch.utils.data.Dataset):
        def __init__(self, count):
            lengths = torch.randint(2, 9, (count,), generator=draw).tolist()
            self.texts = [torch.randint(1, 9, (length,), generator=draw) for length in lengths]

        def __len__(self):
            return len(self.texts)

        def __getitem__(self, place):
            return self.texts[place], self.texts[place] % 4

    def padded(rows):
        texts, labels = zip(*rows, strict=True)
        pad = nn.utils.rnn.pad_sequence
        ids = pad(texts, batch_first=True)
        inputs = {"ids": ids, "mask": (ids > 0).long()}
        return inputs, pad(labels, batch_first=True, padding_value=-100)

    class Marked(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.head = nn.Embedding(9, 8), nn.Linear(8, 4)

        def forward(self, ids, mask):
            return self.head(self.words(ids) * mask[..., None])

    load = torch.utils.data.DataLoader
    clients = [load(Texts(count), collate_fn=padded) for count in (40, 12, 90, 25)]
    options = QUICK | {"rounds": 8, "learning_rate": 0.5, "evaluate_samples": 80}
    options |= {"strategy": "fedcore", "executor": "auto"}
    history = fedcore.simulate(clients, Marked(), test=clients[0], **options)
    losses = [record.test_loss for record in history.rounds]
    assert losses[-1] < 0.7 * losses[0]
    assert history.final_test_accuracy > 0.5
