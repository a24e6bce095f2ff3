"""A strategy says that it keeps the deadline where all of its plans fit, and nowhere else."""

import numpy as np
import pytest
import torch

from fedcore import plugins
from fedcore.config import Experiment
from fedcore.server.state import ServerState
from fedcore.sim.world import build_strategy
from fedcore.types import ClientProfile

EPOCHS = 5
KEEPING = {
    *("fedavg-ds", "fedprox", "partial", "fednova", "fedcore", "fedcore-buff", "fedcore-async"),
    *("random-subset", "random-epochs", "stratified", "importance", "fedbalancer", "tempo"),
}


def fleet():
    draws = np.random.default_rng(0)
    sizes = draws.integers(1, 400, 300).tolist()
    speeds = draws.lognormal(0, 1, 300).tolist()
    return {n: ClientProfile(m, c) for n, (m, c) in enumerate(zip(sizes, speeds, strict=True))}


@pytest.mark.parametrize("name", plugins.names("strategy"))
def test_all_plans_fit_where_a_strategy_says_so_and_some_do_not_elsewhere(name):
    strategy = build_strategy(name, Experiment(), "input", 300, 40)
    clients, state = fleet(), ServerState({"w": torch.zeros(10)})
    own = {} if strategy.by_cohort is None else strategy.by_cohort(state, clients)
    late = 0
    for number, client in clients.items():
        for deadline in (30.0, 300.0):
            plan = own.get(number, strategy.plan)(client, deadline, EPOCHS)
            late += client.seconds(plan.work(client.num_samples)) > deadline
    assert (late == 0) == strategy.keeps_deadline == (name in KEEPING)
