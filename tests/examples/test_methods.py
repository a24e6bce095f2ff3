"""The doors are open: methods with state, an own pace and an own draw, each one file.

What they compute is held against formulas that are worked out here, or against FedAvg.
"""

import dataclasses
import pathlib

import pytest

from fedcore import plugins
from fedcore.config import Experiment
from fedcore.records import RunKey
from fedcore.server.method import Draw, Sampler, Strategy
from fedcore.server.state import to_snapshot
from fedcore.sim.federation import federation_from_model
from fedcore.sim.world import build_strategy, build_world, simulate_rounds
from fedcore.sources.clients import ClientSizes
from fedcore.types import ClientProfile, FederatedDataset, LocalUpdate

EXAMPLES = pathlib.Path(__file__).parents[2] / "examples"
OORT = str(EXAMPLES / "oort_sampler.py")
SMALL = Experiment(rounds=6, epochs=3, clients_per_round=3, learning_rate=0.1, selection="uniform")


@pytest.fixture
def federation(build_client):
    clients = {i: build_client(20 + 15 * i, seed=i) for i in range(6)}
    return federation_from_model(FederatedDataset(clients, build_client(50), 2), "logistic", 0)


def run(federation, strategy, experiment=SMALL, start=None):
    world = build_world(federation, experiment, RunKey("test", "own", 30.0, 0), strategy)
    return list(simulate_rounds(world, start))


def by_hand(name, **options):
    return plugins.build("strategy", name, Strategy, method=options)


def untimed(result):
    return [dataclasses.replace(record, wall_seconds=0.0) for record, _ in result]


@pytest.mark.parametrize("path", [OORT])
def test_a_method_fits_on_a_page(path):
    assert len(pathlib.Path(path).read_text().splitlines()) <= 60


def sampled(memory, version=0, count=4):
    sizes = ClientSizes(range(10), [10] * 10)
    sampler = plugins.build("sampler", OORT, Sampler, method={"explore": 0.25})
    profiles = dict.fromkeys(range(10), ClientProfile(10, 1.0))
    return sampler, sampler.draw(Draw(count, version, 0, sizes, profiles, memory=memory)), sizes


def test_the_sampler_tries_everybody_and_prefers_high_loss_and_speed():
    sampler, _, sizes = sampled({})
    memory = {}
    for client in range(8):  # 8 and 9 have never answered; 0 learns most, 1 as much but slowly
        answer = LocalUpdate(
            client,
            {},
            10,
            loss_square_sum=1000.0 if client < 2 else 0.1,
            loss_count=10,
            seconds=1000.0 if client == 1 else 10.0,
        )
        memory = sampler.observe(memory, answer, sizes)
    drawn = [set(sampled(memory, version)[1]) for version in range(60)]
    assert all(len({8, 9} & cohort) == 1 for cohort in drawn)  # a quarter of four explores
    often = [sum(client in cohort for cohort in drawn) for client in range(8)]
    assert often[0] > 50
    assert often[1] < often[0] / 2


def test_the_sampler_runs_and_goes_on_from_a_snapshot(federation):
    experiment = dataclasses.replace(SMALL, selection=OORT)
    method = build_strategy("fedcore", experiment, federation.proxy)
    whole = run(federation, method, experiment)
    rest = run(federation, method, experiment, start=to_snapshot(whole[2][1]))
    assert untimed(rest) == untimed(whole)[3:]
    assert "seen" in whole[-1][1].sampler
