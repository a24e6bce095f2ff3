"""Server and clients together: the deadline is kept by devices that nobody knows beforehand.

The server's loop over a grid in one process, ``on_time`` in every node, and time that passes only
when a sample is trained or a message is under way.
"""

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

pytest.importorskip("flwr")

from flwr.app import ArrayRecord
from tests.flower.client_side import context
from tests.flower.grid import InProcessGrid, Time

from fedcore.flower import FedCore, on_time
from fedcore.flower.turn import Clock

DEADLINE, GRACE, ROUNDS, OUT, BACK = 40.0, 3.0, 12, 1.0, 0.5


def a_model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))


class Device:
    """A node with so many samples, of which it trains so many a second."""

    def __init__(self, samples, speed, *, slower_from=ROUNDS, skew=0.0):
        draws = torch.Generator().manual_seed(samples)
        data = TensorDataset(torch.randn(samples, 4, generator=draws), torch.arange(samples) % 3)
        self.loader, self.context = DataLoader(data, 8, shuffle=True), context()
        self.speed, self.slower_from, self.skew = speed, slower_from, skew
        self.trips, self.reports = [], []

    def __call__(self, order, arrays, message):
        model, now = a_model(), 0.0
        model.load_state_dict(arrays.to_torch_state_dict())
        sent = message.metadata.created_at
        clock = Clock(wall=lambda: sent + OUT + self.skew + now, steady=lambda: now)
        speed = self.speed / (3 if order.assignment.base_version >= self.slower_from else 1)
        batches = on_time(self.loader, model, message, self.context, clock=clock)
        optimiser = torch.optim.SGD(model.parameters(), lr=0.01)
        for x, y in batches:
            optimiser.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimiser.step()
            now += len(x) / speed
        self.trips.append(OUT + now + BACK)
        self.reports.append(batches.report())
        return self.trips[-1], batches.reply(model.state_dict()).content


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fedcore", "tempo"])
def test_after_first_contact_everybody_is_in_time_and_uses_it(monkeypatch, method):
    monkeypatch.setattr("fedcore.flower.turn.is_warm", lambda _: True)
    devices = {
        "fast": Device(120, 40.0),
        "slow": Device(120, 8.0),
        "large": Device(960, 30.0),
        "slower from the sixth round on": Device(240, 30.0, slower_from=6),
        "a minute behind": Device(120, 8.0, skew=-60.0),
        "ahead": Device(120, 8.0, skew=4.0),
    }
    grid = InProcessGrid(Time(), dict(enumerate(devices.values(), 1)))
    times = {"deadline": DEADLINE, "grace": GRACE, "local_epochs": 4}
    strategy = FedCore(strategy=method, fraction_evaluate=0.0, **times)
    strategy.monotonic, strategy.sleep = grid.time.monotonic, grid.time.sleep
    strategy.start(grid, ArrayRecord(a_model().state_dict()), ROUNDS)
    for name, device in devices.items():
        assert len(device.trips) == ROUNDS, name
        assert max(device.trips) <= DEADLINE + GRACE, name
        assert max(device.trips[1:]) <= DEADLINE, name
        if name != "fast":  # who has time for everything
            assert sum(device.trips[2:]) > 0.75 * DEADLINE * (ROUNDS - 2), name
            assert device.reports[-1]["coreset-size"] > 0, name
    first = devices["slow"].reports[0]  # contact: a coreset already, or as many epochs as fit
    assert 0 < first["coreset-size"] < 120 or (method == "tempo" and first["cut-short"])
    assert all(report["work"] == 4 * 120 for report in devices["fast"].reports)
