"""FedDyn against its formulas; with one client it is the proximal-point method."""

import pytest
import torch

from fedcore.errors import BadOption
from fedcore.server.clock import VirtualClock
from fedcore.server.loop import Server
from fedcore.server.method import Sampler
from fedcore.server.state import ServerState
from fedcore.sources.clients import ClientSizes
from fedcore.strategies.feddyn import build
from fedcore.types import ClientProfile, LocalUpdate


def test_it_follows_its_formulas(merged, state_of):
    """w = 1, α = 0.5, N = 4, h = 0.2; client 0 moves by 2 with h_0 = 0.4, client 1 by -1.

    h_0 = 0.4 - 0.5 · 2 = -0.6;  h_1 = 0.5;  h = 0.2 - 0.5 / 4 · (2 - 1) = 0.075
    w+ = 1 + (2 - 1) / 2 - 0.075 / 0.5 = 1.35
    """
    state = state_of(1.0, tensors={"w": 0.2}, clients={0: 0.4})
    strategy = build(dyn_alpha=0.5, options={"num_clients": 4})
    assert strategy.shift(state, 0)["w"].item() == pytest.approx(-0.4)
    assert strategy.shift(state, 1) is None
    after = merged(strategy, state, (0, 3.0, 1.0, {}), (1, 0.0, 1.0, {}))
    assert after.clients[0]["w"].item() == pytest.approx(-0.6)
    assert after.clients[1]["w"].item() == pytest.approx(0.5)
    assert after.tensors["w"].item() == pytest.approx(0.075)
    assert after.params["w"].item() == pytest.approx(1.35)


def test_the_pull_is_in_the_plan():
    assert build(dyn_alpha=0.3).plan(ClientProfile(100, 1.0), 1.0, 10).prox_mu == 0.3


class Exact:
    """Solves a (w - b) + shift + μ (w - w^t) = 0: the job's objective for f = a/2 (w - b)²."""

    def __init__(self, curvature, centre):
        self.curvature, self.centre, self.models = curvature, centre, []

    def run(self, params, assignments):
        (told,) = assignments
        pull, shift = told.plan.prox_mu, 0.0 if told.shift is None else told.shift["w"]
        w = (self.curvature * self.centre - shift + pull * params["w"]) / (self.curvature + pull)
        self.models.append(w.item())
        return [LocalUpdate(0, {"w": w}, 10)]


def test_one_client_and_exact_solves_are_proximal_points():
    """w_i = argmin a/2 (w - b)² + α/2 (w - previous w_i)²: w_i - b shrinks by α / (a + α).

    a = 1, α = 3, b = 2, from 10: 2 + 8 (3/4)^r. FedAvg with the same solves would send w_i back,
    which is the same; FedDyn's global model is w_i - h / α = w_i - a (w_i - b) / α.
    """
    executor = Exact(curvature=1.0, centre=2.0)
    sizes, one = ClientSizes.of({0: 10}), ClientProfile(10, 1.0)
    settings = {"epochs": 10, "clients_per_round": 1, "seed": 0, "merges": 6}
    alone = Sampler(lambda asked: {0: 1})
    strategy = build(dyn_alpha=3.0, options={"num_clients": 1})
    server = Server(strategy, alone, VirtualClock(executor, 100.0), {0: one}, sizes, **settings)
    start = ServerState({"w": torch.tensor([10.0], dtype=torch.float64)})
    states = [merge.state.params["w"].item() for merge in server.run(start)]
    expected = [2 + 8 * 0.75**r for r in range(1, 7)]
    assert executor.models == pytest.approx(expected)
    assert states == pytest.approx([w - (w - 2) / 3 for w in expected])


def test_where_a_schedule_has_ended_everything_stays(merged, state_of):
    """At η = 0 nobody moves; w - h / α = 1 - 0.2 / 0.5 would all the same be another model."""
    state = state_of(1.0, tensors={"w": 0.2}, clients={0: 0.4})
    ended = build(dyn_alpha=0.5, step_size=lambda version: 0.0, options={"num_clients": 4})
    after = merged(ended, state, (0, 1.0, 1.0, {}))
    assert after.params["w"].item() == 1.0
    assert (after.tensors["w"].item(), after.clients[0]["w"].item()) == pytest.approx((0.2, 0.4))
    going_on = build(dyn_alpha=0.5, options={"num_clients": 4})
    assert merged(going_on, state, (0, 1.0, 1.0, {})).params["w"].item() == pytest.approx(0.6)


def test_no_pull_is_refused():
    with pytest.raises(BadOption, match="dyn_alpha must be above 0"):
        build(dyn_alpha=0.0)


def test_more_memory_than_there_is_is_refused():
    with pytest.raises(BadOption, match="feddyn keeps a vector of the model's size"):
        build(options={"num_clients": 100_000, "model_bytes": 40_000_000})
