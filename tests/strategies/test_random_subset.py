"""Random subsets, and what all strategies have in common that draw the samples of slow clients."""

import dataclasses
import pathlib
from itertools import combinations

import numpy as np
import pytest
import torch

from fedcore import plugins
from fedcore.client.schedule import Samples, schedule
from fedcore.config import Experiment
from fedcore.coreset.proxies import NONE
from fedcore.records import RunKey
from fedcore.sim.federation import federation_from_model
from fedcore.sim.world import build_strategy, build_world, simulate_rounds
from fedcore.strategies import random_subset
from fedcore.types import ClientProfile, CoresetSpec, FederatedDataset, Phase, Way

NAMES = ("random-subset", "random-epochs", "stratified", "importance")
SLOW = ClientProfile(100, 1.0)


def plan_of(deadline, epochs=10):
    return random_subset.build().plan(SLOW, deadline, epochs)


@pytest.mark.parametrize("name", NAMES)
def test_it_fits_on_a_page(name):
    file = pathlib.Path(plugins.load("strategy", name).__file__)
    assert len(file.read_text().splitlines()) <= 60


def test_as_many_samples_as_fit_the_epochs():
    """100 samples, 1 a second, 455 seconds, E = 10: 45 samples; weights come from the selector."""
    subset = CoresetSpec(45, "uniform-plain", NONE)
    assert plan_of(455.0).phases == (Phase(10, subset),)
    assert plan_of(455.0).path is Way.RANDOM_SUBSET


def test_too_little_time_for_a_sample_in_each_epoch():
    one = CoresetSpec(1, "uniform-plain", NONE)
    assert plan_of(7.5).phases == (Phase(7, one),)
    assert plan_of(0.5).path is Way.SAT_OUT


def test_the_mean_over_all_subsets_is_the_gradient_of_everything():
    """Σ_j coefficient_j L_j of one batch of all, averaged over the C(5, 2) subsets of 2 of 5."""
    expected = np.zeros(5)
    for chosen in combinations(range(5), 2):
        samples = Samples(np.array(chosen), np.full(2, 5 / 2))
        tape = schedule(samples, 1, 8, np.random.default_rng(0))
        np.add.at(expected, tape.index[0][:2], tape.coefficient[0][:2] / 10)
    assert expected == pytest.approx(np.full(5, 1 / 5))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("executor", ["sequential", "auto"])
def test_it_trains_on_time_and_executors_agree(name, executor, build_client):
    clients = {i: build_client(20 + 15 * i, seed=i) for i in range(6)}
    data = FederatedDataset(clients, build_client(50), 2)
    federation = federation_from_model(data, "logistic", 0)
    experiment = Experiment(rounds=3, epochs=3, clients_per_round=3, learning_rate=0.1)
    found = {}
    for kind in ("sequential", executor):
        experiment = dataclasses.replace(experiment, executor=kind)
        strategy = build_strategy(name, experiment, federation.proxy)
        world = build_world(federation, experiment, RunKey("test", name, 50.0, 0), strategy)
        rounds = list(simulate_rounds(world))
        assert all(record.time <= 1 for record, _ in rounds)
        found[kind] = rounds[-1][1].params
    for key, value in found["sequential"].items():
        assert torch.allclose(found[executor][key], value, atol=1e-6)
