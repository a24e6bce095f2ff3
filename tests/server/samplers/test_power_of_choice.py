import pytest
import torch

import fedcore
from fedcore.cli.grid import run_grid
from fedcore.config import Experiment
from fedcore.report.verify import verify
from fedcore.server.clock import VirtualClock
from fedcore.server.loop import Server
from fedcore.server.method import Draw
from fedcore.server.samplers import power_of_choice
from fedcore.server.state import ServerState
from fedcore.sources.clients import ClientSizes
from fedcore.strategies import fedavg, fedbuff
from fedcore.types import ClientProfile, LocalUpdate

SIZES = ClientSizes(range(6), [10, 10, 10, 10, 10, 1000])


def memory_of(sampler, losses):
    memory = {}
    for client, loss in losses.items():
        update = LocalUpdate(client, {}, 10, loss_sum=4 * loss, loss_count=4)
        memory = sampler.observe(memory, update, SIZES)
    return memory


def drawn(sampler, losses, count, version=0):
    memory = memory_of(sampler, losses)
    return list(sampler.draw(Draw(count, version, 0, SIZES, {}, memory=memory)))


def test_of_all_candidates_those_of_largest_mean_loss_take_part():
    """d = 6 is everybody; means, not sums: client 5 has many samples and little loss."""
    losses = {0: 0.1, 1: 0.5, 2: 0.9, 3: 0.3, 4: 0.7, 5: 0.2}
    sampler = power_of_choice.build(candidates=6)
    assert drawn(sampler, losses, 3) == [2, 4, 1]


def test_who_never_answered_comes_first():
    sampler = power_of_choice.build(candidates=6)
    assert set(drawn(sampler, {0: 9.0, 1: 8.0, 2: 7.0, 3: 6.0}, 2)) == {4, 5}


def test_a_later_answer_takes_the_place_of_the_earlier():
    sampler = power_of_choice.build(candidates=6)
    memory = memory_of(sampler, dict.fromkeys(range(6), 1.0))
    memory = sampler.observe(memory, LocalUpdate(3, {}, 10, loss_sum=8, loss_count=4), SIZES)
    memory = sampler.observe(memory, LocalUpdate(2, {}, 10, loss_sum=1, loss_count=4), SIZES)
    asked = Draw(5, 0, 0, SIZES, {}, memory=memory)
    cohort = list(sampler.draw(asked))
    assert cohort[0] == 3
    assert 2 not in cohort


def test_candidates_are_drawn_by_size():
    """K = d = 1: client 5 with 1000 / 1050 = 0.952; standard error 0.0034 over 4,000 draws."""
    sampler = power_of_choice.build(candidates=1)
    losses = dict.fromkeys(range(5), 100.0) | {5: 0.0}  # whatever their losses
    often = sum(drawn(sampler, losses, 1, version) == [5] for version in range(4000))
    assert abs(often / 4000 - 1000 / 1050) < 0.015


def test_twice_the_cohort_are_candidates_unless_told_otherwise():
    """K = 3 of 6: everybody is a candidate. K = 2: four are, so the two largest may be missed."""
    sampler = power_of_choice.build()
    losses = {0: 0.1, 1: 0.5, 2: 0.9, 3: 0.3, 4: 0.7, 5: 0.2}
    assert all(drawn(sampler, losses, 3, version) == [2, 4, 1] for version in range(20))
    assert any(drawn(sampler, losses, 2, version) != [2, 4] for version in range(20))


class Mover:
    """Whoever trains ends at its own centre, 10 times its number; and says that it lost nothing."""

    def run(self, params, assignments):
        ids = [told.client_id for told in assignments]
        return [LocalUpdate(n, {"w": torch.tensor([10.0 * n])}, 6, loss_count=6) for n in ids]

    def expect(self, assignments):
        pass


def served(sampler, strategy, merges=2, **more):
    """Of four clients, client n has the loss |w - 10 n|; 6 samples, n + 1 a second, 8 bytes a s."""
    profiles = {n: ClientProfile(6, n + 1.0, download=8.0) for n in range(4)}
    clock = VirtualClock(Mover(), 100.0, model_bytes=16)
    settings = {"epochs": 2, "clients_per_round": 2, "seed": 0, "merges": merges}
    far = {"loss_of": lambda params, client: abs(params["w"].item() - 10 * client), **more}
    sizes = ClientSizes.of(dict.fromkeys(profiles, 6))
    server = Server(strategy, sampler, clock, profiles, sizes, **settings, **far)
    return list(server.run(ServerState({"w": torch.tensor([0.0])})))


FRESH = power_of_choice.build(candidates=4, fresh=True, forward_price=1 / 3, model_bytes=16)


def test_fresh_losses_are_those_of_the_model_as_it_is_and_take_time():
    """At w = 0 clients 3 and 2 are furthest and move it to 25; there 0 and 1 are.

    Asking takes as long as client 0, 16 / 8 + 2 / 1 = 4 s. Then client 2, at 2 + 12 / 3 = 6 s, is
    the slower of the first two, and client 0, at 2 + 12 / 1 = 14 s, of the others.
    """
    one, other = served(FRESH, fedavg.build())
    assert [sorted(c.client_id for c in merged.clients) for merged in (one, other)] == [
        [2, 3],
        [0, 1],
    ]
    assert (one.seconds, other.seconds) == (4 + 6, 4 + 14)
    assert [event["time"] for event in one.events if event["event"] == "sent"] == [4, 4]
    assert one.state.params["w"].item() == 25


def test_remembered_losses_cost_nothing():
    """All said that they lost nothing, so those who never answered come first."""
    one, other = served(power_of_choice.build(candidates=4), fedavg.build())
    assert {c.client_id for merged in (one, other) for c in merged.clients} == {0, 1, 2, 3}
    assert one.seconds + other.seconds < 4 + 6 + 4 + 14


def test_nobody_is_asked_in_a_deployment_or_while_answers_are_out():
    asked = []

    def noted(params, client):
        asked.append(client)
        return float(client)

    by_memory = served(power_of_choice.build(candidates=4), fedavg.build())
    assert [m.clients for m in served(FRESH, fedavg.build(), loss_of=None)] == [
        m.clients for m in by_memory
    ]
    buffered = served(FRESH, fedbuff.build(buffer=1), merges=5, loss_of=noted)
    assert len(buffered) == 5
    assert len(asked) == 4  # at the start alone


@pytest.mark.parametrize("strategy", ["fedavg", "fedavg-os", "fedbuff"])
@pytest.mark.parametrize("presence", [{}, {"mean_on": 1.0, "mean_off": 0.5}])
def test_asking_takes_no_more_time_than_a_run_has(strategy, presence, tmp_path):
    """The fleet's links take longer than the run: it ends where its time does, and adds up."""
    options = {"rounds": 5, "epochs": 2, "clients_per_round": 4, "time_budget": 2.5, **presence}
    known = {"selection": "power-of-choice", "method": {"fresh": True}, "strategies": (strategy,)}
    for number, link in enumerate((1.0, 20.0)):
        slow = {"download": link, "upload": link, "deadline": 300.0, "stragglers": ()}
        folder = tmp_path / str(number)
        _, found = run_grid(Experiment(**options, **known, **slow), folder)
        (rounds,) = found.values()
        assert rounds[-1].cut
        assert sum(record.time for record in rounds) == pytest.approx(2.5)
        assert all(client.seconds >= 0 for record in rounds for client in record.clients)
        assert verify(folder)[0] == []
        run_grid(Experiment(**options, **known, **slow), folder, resume=True)


def test_a_simulation_asks_everybody_for_the_mean_loss_of_its_samples():
    """Scores are (x, -x) at x = 2: a loss of ln(1 + e^-4) for class 0, and 4 more for class 1.

    Client 3 has half of class 1, client 1 two of them, but among more samples.
    """
    ones = {0: (0, 12), 1: (2, 12), 2: (0, 4), 3: (2, 4), 4: (0, 8)}
    labels = [torch.tensor([1] * one + [0] * (count - one)) for one, count in ones.values()]
    clients = [(torch.full((len(y), 1), 2.0), y) for y in labels]
    model = torch.nn.Linear(1, 2, bias=False)
    model.weight.data = torch.tensor([[1.0], [-1.0]])
    options = {"selection": "power-of-choice", "rounds": 1, "clients_per_round": 1}
    for seed in range(5):
        method = {"fresh": 1, "candidates": 5}
        found = fedcore.simulate(clients, model, method=method, seed=seed, **options)
        assert [client.client_id for client in found.rounds[0].clients] == [3]


@pytest.mark.parametrize("selection", ["power-of-choice", "oort"])
def test_who_cannot_work_does_not_take_the_seats_of_others_for_ever(selection):
    options = {"rounds": 30, "epochs": 5, "clients_per_round": 5, "stragglers": (30.0,)}
    experiment = Experiment(selection=selection, strategies=("fedavg-ds",), **options)
    _, found = run_grid(experiment, None)
    (rounds,) = found.values()
    working = [sum(client.work > 0 for client in record.clients) for record in rounds]
    assert sum(working[15:]) >= 3 * 15
