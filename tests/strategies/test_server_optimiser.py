"""Server optimisers against their formulas, alone and around strategies with state of their own."""

import dataclasses

import pytest
import torch

from fedcore.config import Experiment
from fedcore.errors import BadOption
from fedcore.server.state import to_snapshot
from fedcore.sim.world import build_strategy
from fedcore.strategies import fedbuff, feddyn, scaffold
from fedcore.strategies.fedadagrad import build as fedadagrad
from fedcore.strategies.fedadam import build as fedadam
from fedcore.strategies.fedavgm import build as fedavgm
from fedcore.strategies.fedyogi import build as fedyogi

STEP = {"server_rate": 2.0, "beta1": 0.5, "beta2": 0.75, "adaptivity": 0.5}


@pytest.mark.parametrize(
    ("build", "second"),
    [
        # v starts at a² = 0.25; D = 4, then D = 1
        (fedadam, [0.75 * 0.25 + 0.25 * 16, 0.75 * 4.1875 + 0.25]),
        (fedyogi, [0.25 + 0.25 * 16, 4.25 - 0.25]),
        (fedadagrad, [0.25 + 16, 16.25 + 1]),
    ],
)
def test_two_steps_by_hand(merged, state_of, build, second):
    """m = 0.5 · 4 = 2, then 0.5 · 2 + 0.5 · 1 = 1.5, not corrected for its start."""
    strategy, state, expected = build(**STEP), state_of(1.0), 1.0
    for change, m, v in zip((4.0, 1.0), (2.0, 1.5), second, strict=True):
        now = state.params["w"].item()
        state = merged(strategy, state, (0, now + change, now, {}))
        expected += 2.0 * m / (v**0.5 + 0.5)
        assert state.params["w"].item() == pytest.approx(expected)
        assert state.tensors["v/w"].item() == pytest.approx(v)


def test_momentum_by_hand(merged, state_of):
    """m = 4, then 0.9 · 4 + 1 = 4.6, at a step of 0.5."""
    strategy = fedavgm(server_rate=0.5)
    first = merged(strategy, state_of(1.0), (0, 5.0, 1.0, {}))
    assert first.params["w"].item() == pytest.approx(3.0)
    second = merged(strategy, first, (0, 4.0, 3.0, {}))
    assert second.params["w"].item() == pytest.approx(3 + 0.5 * 4.6)


def test_answers_are_averaged_as_asked(merged, state_of):
    """By samples, 30 and 10: D = 0.75 · 4 = 3; plainly 2."""
    answers = (0, 4.0, 0.0, {"num_samples": 30}), (1, 0.0, 0.0, {"num_samples": 10})
    found = [
        merged(fedavgm(aggregation=name), state_of(0.0), *answers).params["w"].item()
        for name in ("samples", "mean")
    ]
    assert found == pytest.approx([3.0, 2.0])


def test_adam_without_memory_and_with_a_large_adaptivity_is_fedavg(simulated):
    """β1 = β2 = 0 and η = a = 10⁶: w + 10⁶ D / (|D| + 10⁶) = w + D."""
    method = {"beta1": 0.0, "beta2": 0.0, "server_rate": 1e6, "adaptivity": 1e6}
    mine, theirs = simulated("fedadam", method=method), simulated("fedavg")
    for (_, state), (_, expected) in zip(mine, theirs, strict=True):
        for name, value in expected.params.items():
            assert torch.allclose(state.params[name], value, atol=1e-5)


@pytest.mark.parametrize("optimiser", ["momentum", "adam", "yogi", "adagrad"])
def test_the_option_around_fedavg_is_the_strategy_of_that_name(simulated, optimiser):
    named = {"momentum": "fedavgm"}.get(optimiser, f"fed{optimiser}")
    one = simulated("fedavg", server_optimiser=optimiser)[-1][1]
    other = simulated(named)[-1][1]
    for name, value in other.params.items():
        assert torch.equal(one.params[name], value)


def untimed(result):
    return [dataclasses.replace(record, wall_seconds=0.0) for record, _ in result]


@pytest.mark.parametrize(
    "strategy",
    [
        "fedcore",
        "fednova",
        "scaffold",
        "feddyn",
        "fedbuff",
        "fadas",
        "ca2fl",
        "fedadam",
        "fedbalancer",
    ],
)
def test_around_any_strategy_a_step_of_one_without_memory_changes_nothing(simulated, strategy):
    """β = 0 and η = 1: w + D. What the strategy remembers goes on undisturbed, over a stop too."""
    method = {"beta1": 0.0, "server_rate": 1.0, "buffer": 2, "dyn_alpha": 1.0}
    plain = simulated(strategy, method=method)
    wrapped = simulated(strategy, method=method, server_optimiser="momentum")
    for (one, state), (other, expected) in zip(wrapped, plain, strict=True):
        assert one.clients == other.clients
        for name, value in expected.params.items():
            assert torch.allclose(state.params[name], value, atol=1e-5)
    again = simulated(
        strategy, to_snapshot(wrapped[2][1]), method=method, server_optimiser="momentum"
    )
    assert untimed(again) == untimed(wrapped)[3:]


def test_a_strategys_own_tensors_do_not_collide(merged, state_of):
    """SCAFFOLD calls its c as the parameter is called; FADAS-like names m/w are another's too."""
    inner = fedadam(around=scaffold.build(options={"num_clients": 1}))
    outer = fedyogi(around=inner)
    state = merged(outer, state_of(1.0), (0, 5.0, 1.0, {}))
    assert set(state.tensors) == {"m/w", "v/w", "under/m/w", "under/v/w", "under/under/w"}
    assert outer.shift(state, 1)["w"].item() == pytest.approx(-4.0 / 0.01)  # c = (x - y) / η
    later = merged(outer, state, (0, 6.0, 5.0, {}))
    assert set(later.tensors) == set(state.tensors)


def test_the_pace_and_the_plans_are_the_strategys_own():
    inner = fedbuff.build("partial", buffer=3)
    outer = fedadam(around=inner)
    assert (outer.plan, outer.pace) == (inner.plan, inner.pace)


def test_without_answers_nothing_moves(state_of):
    strategy = fedavgm()
    state = state_of(1.0, tensors={"m/w": 3.0})
    assert strategy.merge(state).finish() is state


def test_an_unknown_optimiser_is_refused():
    told = "server_optimiser must be one of none, momentum, adam, yogi, adagrad, got 'lion'"
    with pytest.raises(BadOption, match=told):
        Experiment(server_optimiser="lion")


def test_feddyn_keeps_its_clients(merged, state_of):
    """h_0 = -α · 4 whoever is around it."""
    strategy = fedadam(around=feddyn.build(dyn_alpha=0.5))
    assert merged(strategy, state_of(1.0), (0, 5.0, 1.0, {})).clients[0]["w"].item() == -2.0


def test_what_it_is_around_is_no_option_of_the_users():
    with pytest.raises(BadOption, match=r"strategy 'fedadam' cannot be built: .*'around'"):
        build_strategy("fedadam", Experiment(method={"around": "fedcore"}), "input")
