"""FedAvg with over-selection: the first K of 1.3 K, and what the others spent."""

import pytest
import torch

from fedcore.errors import BadOption
from fedcore.records import Waste
from fedcore.server.clock import VirtualClock
from fedcore.server.loop import Server
from fedcore.server.method import Sampler
from fedcore.server.state import ServerState
from fedcore.sources.clients import ClientSizes
from fedcore.strategies.fedavg_os import build
from fedcore.types import ClientProfile, LocalUpdate


class Adding:
    """Client i adds i to the model."""

    def run(self, params, assignments):
        return [LocalUpdate(a.client_id, {"w": params["w"] + a.client_id}, 10) for a in assignments]


def served(speeds, cohort, clients_per_round):
    profiles = {client: ClientProfile(10, speed) for client, speed in speeds.items()}
    sizes = ClientSizes.of(dict.fromkeys(profiles, 10))
    asked = []

    def draw(wanted):
        asked.append(wanted.count)
        return cohort

    settings = {"epochs": 10, "clients_per_round": clients_per_round, "seed": 0, "merges": 2}
    strategy = build(clients_per_round=clients_per_round)
    clock = VirtualClock(Adding(), 100.0)
    server = Server(strategy, Sampler(draw), clock, profiles, sizes, **settings)
    return list(server.run(ServerState({"w": torch.zeros(1)}))), asked


def test_the_first_are_merged_and_the_rest_is_wasted():
    """K = 3, so 4 start; 100 samples at speeds 1, 2, 4, 0.5 take 100, 50, 25 and 200 seconds.

    At 100 seconds clients 0, 1 and 2 have answered: w = 1, and client 3 has spent 100 of 200.
    """
    merges, asked = served({0: 1.0, 1: 2.0, 2: 4.0, 3: 0.5}, dict.fromkeys(range(4), 1), 3)
    assert asked == [4, 4]  # ceil(3.9), and nobody is left over from the first round
    assert [merge.seconds for merge in merges] == [100.0, 100.0]
    assert [merge.state.params["w"].item() for merge in merges] == [1.0, 2.0]
    assert merges[0].state.jobs == ()
    found = [(c.client_id, c.seconds, c.wasted) for c in merges[1].clients]
    assert found == [
        (0, 100.0, None),
        (1, 50.0, None),
        (2, 25.0, None),
        (3, 100.0, Waste.CANCELLED),
    ]


def test_a_client_drawn_twice_is_two_of_the_first():
    """K = 3: client 2 at 25 seconds counts twice, client 1 at 50 is the third; w = 5 / 3."""
    merges, _ = served({0: 1.0, 1: 2.0, 2: 4.0}, {0: 1, 1: 1, 2: 2}, 3)
    assert merges[0].seconds == 50.0
    assert merges[0].state.params["w"].item() == pytest.approx(5 / 3)


@pytest.mark.parametrize(
    ("wanted", "factor", "drawn"), [(10, 1.3, 13), (10, 1.1, 11), (7, 1.3, 10)]
)
def test_how_many_start(wanted, factor, drawn):
    strategy = build(clients_per_round=wanted, over_selection=factor)
    assert strategy.pace.concurrency == drawn


def test_without_over_selection_it_is_fedavg(simulated):
    mine, theirs = simulated("fedavg-os", method={"over_selection": 1.0}), simulated("fedavg")
    for (one, state), (other, expected) in zip(mine, theirs, strict=True):
        assert one.clients == other.clients
        assert torch.equal(state.params["linear.weight"], expected.params["linear.weight"])


def test_rounds_are_shorter_than_fedavgs_and_waste_is_counted(simulated):
    mine, theirs = simulated("fedavg-os"), simulated("fedavg")
    assert sum(r.seconds for r, _ in mine) < sum(r.seconds for r, _ in theirs)
    for record, _ in mine:
        wasted = [client for client in record.clients if client.wasted]
        assert len(wasted) == 1
        assert all(client.seconds == record.seconds for client in wasted)


def test_fewer_than_needed_are_refused():
    with pytest.raises(BadOption, match="over_selection must be at least 1"):
        build(over_selection=0.9)
