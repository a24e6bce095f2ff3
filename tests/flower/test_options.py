"""What options name, and what they do not take."""

import pytest
import torch

pytest.importorskip("flwr")

from fedcore.coreset.proxies import LAST_LAYER_INPUT, STATIC
from fedcore.errors import BadOption
from fedcore.flower import FedCore
from fedcore.flower.strategy import Options
from fedcore.server.state import ServerState
from fedcore.types import ClientProfile, LocalUpdate

SLOW = ClientProfile(100, 15.0)


def proxy(params, **method):
    plan = Options(strategy="fedcore", method=method).build_strategy(params, 3).plan(SLOW, 10.0, 3)
    return plan.phases[-1].coreset.proxy


def test_what_stands_in_for_gradients_is_chosen_as_in_the_simulator():
    linear = {"w": torch.zeros(2, 3), "b": torch.zeros(2)}
    assert proxy(linear) == STATIC
    assert proxy({**linear, "w2": torch.zeros(3, 4)}) == LAST_LAYER_INPUT
    assert proxy(linear, proxy="logits") == "logits"


@pytest.mark.parametrize("strategy", ["tempo", "fednova", "fedcore"])
def test_batch_norms_statistics_are_averaged_whatever_the_strategy(strategy):
    """Of few steps moves are stretched: by three, a variance of 1 that falls to 0.3 would be -1."""
    names = ["bn.running_mean", "bn.running_var", "bn.num_batches_tracked"]
    start = {"w": torch.zeros(2), **dict(zip(names, torch.tensor([0.0, 1.0, 5.0]), strict=True))}
    start[names[2]] = start[names[2]].long()
    merging = Options(strategy=strategy).build_strategy(start, 2).merge(ServerState(start))
    for client, move in enumerate(([1.0, 0.0], [0.0, 1.0])):
        sent = {"w": torch.tensor(move), names[0]: torch.tensor(2.0 * client)}
        sent |= {names[1]: torch.tensor(0.3), names[2]: torch.tensor(9)}
        merging.add(LocalUpdate(client, sent, 80, steps=4, work=30), start)
    after = merging.finish().params
    assert [float(after[name]) for name in names] == pytest.approx([1.0, 0.3, 9.0])
    assert after["w"].abs().max() > 0


@pytest.mark.parametrize(
    ("strategy", "keeps"),
    [("fedcore", True), ("fedprox", True), ("fedavg-ds", True), ("fedavg", False)],
)
def test_who_keeps_a_deadline(strategy, keeps):
    built = Options(strategy=strategy).build_strategy({}, 3)
    assert built.keeps_deadline is keeps


def test_weights_need_a_mean(tmp_path):
    (tmp_path / "own.py").write_text(
        "from fedcore.server.merge import all_at_once\n"
        "from fedcore.server.method import Strategy\n"
        "from fedcore.strategies.fedavg import build as fedavg\n"
        "def build():\n"
        "    return Strategy(fedavg().plan, all_at_once(lambda state, answers: state))\n"
    )
    Options(strategy=str(tmp_path / "own.py"))
    with pytest.raises(BadOption, match="weighted_by_key"):
        Options(strategy=str(tmp_path / "own.py"), weighted_by="num-examples")


@pytest.mark.parametrize(
    ("option", "reason"),
    [
        ({"fraction_evaluate": 2.0}, "fraction_evaluate must be at most 1, got 2.0"),
        ({"grace": "3"}, "grace must be a number, got '3'"),
        ({"local_epochs": None}, "local_epochs must be a number, got None"),
    ],
)
def test_what_would_wait_without_end_or_is_no_number_is_refused(option, reason):
    with pytest.raises(BadOption, match=reason):
        FedCore(**option)


def test_options_of_their_own_reach_the_strategy():
    built = Options(strategy="fedprox", method={"fedprox_mu": 0.7}).build_strategy({}, 3)
    assert built.plan(SLOW, 1000.0, 3).prox_mu == 0.7
