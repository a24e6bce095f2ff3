import math

import pytest
import torch

from fedcore.config import Experiment
from fedcore.sim.world import Simulated, build_strategy, training_of
from fedcore.types import SIT_OUT, Assignment, LocalUpdate, SelectionTime


class Adding:
    """Adds 1, 4 and 16 to the model, by client."""

    def __init__(self):
        self.selection = SelectionTime(work=3.0)
        self.memory = {}
        self.told = []

    def expect(self, assignments):
        self.told.append("expect")

    def run(self, params, assignments):
        return [
            LocalUpdate(a.client_id, {"w": params["w"] + 4.0**a.client_id}, 1) for a in assignments
        ]

    def close(self):
        self.told.append("close")


@pytest.mark.parametrize(("version", "expected"), [(0, [1.0, 5.0, 21.0]), (1, [1.0, 4.0, 16.0])])
def test_only_the_first_round_is_chained_each_to_the_one_before_it(version, expected):
    assignments = [Assignment(client, SIT_OUT, version, 0) for client in range(3)]
    updates = Simulated(Adding(), chained=True).run({"w": torch.tensor(0.0)}, assignments)
    assert [update.params["w"].item() for update in updates] == expected


def test_everything_else_is_handed_on():
    inner = Adding()
    outer = Simulated(inner)
    outer.expect([])
    outer.close()
    assert inner.told == ["expect", "close"]
    assert outer.selection.work == 3.0


@pytest.mark.parametrize("schedule", ["constant", "step", "cosine", "inverse-time"])
def test_a_strategy_can_ask_for_the_learning_rate_of_a_version(schedule, tmp_path):
    """``step_size`` is what clients of that version train with."""
    own = tmp_path / "asking.py"
    own.write_text(
        "from fedcore.server.merge import aggregation\n"
        "from fedcore.server.method import Strategy\n"
        "from fedcore.types import LocalPlan, Way\n"
        "def build(*, step_size):\n"
        "    plan = lambda client, time, version: LocalPlan((), Way.FULL, step_size(version))\n"
        "    return Strategy(plan, aggregation('mean'))\n"
    )
    given = Experiment(learning_rate=0.4, schedule=schedule, schedule_every=2, rounds=8)
    strategy = build_strategy(str(own), given, "input")
    rates = [strategy.plan(None, 1.0, version).prox_mu for version in range(8)]
    assert rates == [training_of(given).learning_rate_at(version) for version in range(8)]
    assert rates[0] == 0.4
    last = {
        "constant": 0.4,
        "step": 0.4 * 0.1**3,
        "cosine": 0.4 * (1 + math.cos(math.pi * 7 / 8)) / 2,
        "inverse-time": 0.4 / 1.7,
    }[schedule]
    assert rates[7] == pytest.approx(last)
