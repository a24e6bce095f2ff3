"""FedAsync against its formulas; what public versions do instead must not come out."""

import pytest

from fedcore.errors import BadOption
from fedcore.strategies.fedasync import build
from fedcore.types import ClientProfile


@pytest.mark.parametrize(
    ("options", "age", "share"),
    [
        # by default α = 0.6, a = 0.5: 0.6 / √(s + 1)
        ({}, 0, 0.6),
        ({}, 3, 0.3),
        ({"staleness": "constant"}, 9, 0.6),
        ({"staleness": "polynomial", "staleness_power": 1.0}, 2, 0.2),
        # a = 10, b = 4: 1 up to an age of 4, then 1 / (10 (s - 4) + 1)
        ({"staleness": "hinge"}, 4, 0.6),
        ({"staleness": "hinge"}, 5, 0.6 / 11),
        ({"staleness": "hinge", "hinge_slope": 1.0, "hinge_from": 6.0}, 8, 0.2),
        ({"mixing": 1.0, "staleness": "constant"}, 0, 1.0),
    ],
)
def test_the_share_of_an_answer(merged, state_of, options, age, share):
    """w = 2, w_i = 12: (1 - share) 2 + share 12, whatever model it began from."""
    state = state_of(2.0, version=10)
    answer = (0, 12.0, -100.0, {"base_version": 10 - age})
    found = merged(build(**options), state, answer).params["w"].item()
    assert found == pytest.approx(2 + 10 * share)


def test_the_share_does_not_decay_by_itself(merged, state_of):
    """Twice the same: 0 -> 6 -> 8.4 towards 10; a share that is multiplied into itself: 7.44."""
    strategy = build(staleness="constant")
    state = merged(strategy, state_of(0.0), (0, 10.0, 0.0, {}))
    assert state.params["w"].item() == pytest.approx(6.0)
    assert merged(strategy, state, (0, 10.0, 0.0, {})).params["w"].item() == pytest.approx(8.4)


def test_neither_samples_nor_the_number_of_clients_count(merged, state_of):
    answer = (0, 10.0, 0.0, {"num_samples": 1_000_000})
    assert merged(build(), state_of(0.0), answer).params["w"].item() == pytest.approx(6.0)


def test_clients_are_pulled_towards_the_model_they_began_from():
    assert build().plan(ClientProfile(100, 1.0), 1.0, 10).prox_mu == 0.005
    assert build(rho=0.5).plan(ClientProfile(100, 1.0), 1.0, 10).prox_mu == 0.5


def test_a_merge_for_every_answer_and_the_newest_model_for_every_start(simulated):
    rounds = simulated("fedasync", rounds=12)
    assert all(len(record.clients) == 1 for record, _ in rounds)
    for _, state in rounds:  # what is handed out next begins from this version
        assert all(job.assignment.base_version < state.version for job in state.jobs)
        assert len(state.jobs) == 2
    assert max(client.staleness for record, _ in rounds for client in record.clients) > 0


def test_an_unknown_function_is_refused():
    with pytest.raises(BadOption, match="staleness must be one of constant, polynomial, hinge"):
        build(staleness="exponential")
