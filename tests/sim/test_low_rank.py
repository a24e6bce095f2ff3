"""Only what is trained travels: low-rank updates beside frozen layers, by hand."""

import copy

import pytest
import torch
from torch import nn

import fedcore
from fedcore.cli.grid import run_grid
from fedcore.config import resolve
from fedcore.report.output import load_model

QUICK = {"rounds": 3, "epochs": 2, "clients_per_round": 4, "learning_rate": 0.1}
QUICK |= {"stragglers": 40, "device": "cpu"}
RANK = 2


class LowRank(nn.Module):
    """A frozen layer W with an update B A of low rank: W x + B A x."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer.requires_grad_(False)
        self.down = nn.Linear(layer.in_features, RANK, bias=False)
        self.up = nn.Linear(RANK, layer.out_features, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, x):
        return self.layer(x) + self.up(self.down(x))


def network():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        body = [LowRank(nn.Linear(6, 16)), nn.Tanh(), LowRank(nn.Linear(16, 16)), nn.Tanh()]
        return nn.Sequential(*body, nn.Linear(16, 3))


def clients():
    draw = torch.Generator().manual_seed(0)
    teacher = torch.randn(6, 3, generator=draw)
    inputs = [torch.randn(size, 6, generator=draw) for size in (40, 17, 90, 25, 9)]
    return [(x, (x @ teacher).argmax(1)) for x in inputs]


def trained_names(model):
    return {name for name, p in model.named_parameters() if p.requires_grad}


@pytest.mark.parametrize("executor", ["sequential", "vectorised", "auto"])
@pytest.mark.parametrize("strategy", ["fedcore", "tempo", "scaffold", "fedadam"])
def test_frozen_layers_are_neither_averaged_nor_counted(strategy, executor):
    model = network()
    before = copy.deepcopy(model.state_dict())
    history = fedcore.simulate(
        clients(), model, strategy=strategy, executor=executor, loss="cross-entropy", **QUICK
    )
    small = sum(p.numel() for p in model.parameters() if p.requires_grad)
    assert small == RANK * (6 + 16 + 16 + 16) + 16 * 3 + 3
    assert history.rounds[-1].ending.model_bytes == 4 * small
    assert history.params.keys() == before.keys()
    for name, value in history.params.items():
        assert torch.equal(value, before[name]) == (name not in trained_names(model)), name
    network().load_state_dict(history.params)


MODEL = """
import torch
from torch import nn

class LowRank(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer.requires_grad_(False)
        self.down = nn.Linear(layer.in_features, 2, bias=False)
        self.up = nn.Linear(2, layer.out_features, bias=False)

    def forward(self, x):
        return self.layer(x) + self.up(self.down(x))

def build(example, num_classes):
    body = LowRank(nn.Linear(example.numel(), 16))
    return nn.Sequential(body, nn.Tanh(), nn.Linear(16, num_classes))
"""


def test_a_checkpoint_holds_what_is_trained_and_the_model_all_once(tmp_path, monkeypatch):
    from fedcore.report import output

    monkeypatch.setattr(output, "CHECKPOINT_EVERY", 0.0)
    (tmp_path / "low_rank.py").write_text(MODEL)
    given = {"model": str(tmp_path / "low_rank.py"), "rounds": 2, "epochs": 1}
    given |= {"strategies": ("fedcore",), "stragglers": (30.0,)}
    experiment = resolve(given, lambda name, preset: {})
    saved = []
    write = output.OutputFolder.add

    def noted(self, record, run, save, model):
        saved.append(set(save().tensors))
        return write(self, record, run, save, model)

    monkeypatch.setattr(output.OutputFolder, "add", noted)
    run_grid(experiment, tmp_path / "out")
    trained = {"0.down.weight", "0.up.weight", "2.weight", "2.bias"}
    assert all(names == {f"param/{name}" for name in trained} for names in saved)
    (model,) = (tmp_path / "out").rglob("*.safetensors")
    assert set(load_model(model)) == trained | {"0.layer.weight", "0.layer.bias"}
