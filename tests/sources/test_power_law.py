import pytest

pytest.importorskip("hypothesis")

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fedcore.errors import BadOption
from fedcore.sources.idx import by_power_law


def labels_of(per_class: int, seed: int = 0) -> np.ndarray:
    labels = np.repeat(np.arange(10), per_class)
    np.random.default_rng(seed).shuffle(labels)
    return labels


def literally(labels: np.ndarray, sigma: float, seed: int, clients: int) -> list[list[int]]:
    """The recipe as prose has it, image by image."""
    queues = [[row for row, label in enumerate(labels) if label == c] for c in range(10)]
    totals = [len(queue) for queue in queues]
    used = [0] * 10
    hands: list[list[int]] = [[] for _ in range(clients)]
    for u in range(clients):
        for c in (u % 10, (u + 1) % 10):
            for _ in range(5):
                hands[u].append(queues[c][used[c]])
                used[c] += 1
    weights = np.random.RandomState(seed).lognormal(0, sigma, (10, clients // 10, 2))
    for u in range(clients):
        for slot, c in enumerate((u % 10, (u + 1) % 10)):
            left = totals[c] - 2 * 5 * clients // 10
            grant = int(left * weights[c, u // 10, slot] / weights[c].sum())
            if used[c] + grant < totals[c]:
                for _ in range(grant):
                    hands[u].append(queues[c][used[c]])
                    used[c] += 1
    return hands


@pytest.mark.parametrize(("sigma", "seed"), [(2.0, 0), (0.0, 1), (1.7, 2), (6.0, 3)])
def test_it_is_the_recipe(sigma, seed):
    labels = labels_of(70)
    found = by_power_law(labels, clients=30, sigma=sigma, seed=seed)
    assert [rows.tolist() for rows in found] == literally(labels, sigma, seed, 30)


@settings(max_examples=25, deadline=None)
@given(
    per_class=st.integers(20, 60),
    blocks=st.integers(1, 2),
    sigma=st.floats(0, 4),
    seed=st.integers(0, 2**32 - 1),
)
def test_nobody_shares_and_everybody_has_two_classes(per_class, blocks, sigma, seed):
    labels = labels_of(per_class)
    owned = by_power_law(labels, clients=10 * blocks, sigma=sigma, seed=seed)
    rows = np.concatenate(owned)
    assert len(set(rows.tolist())) == len(rows)
    for client, mine in enumerate(owned):
        assert len(mine) >= 10
        assert set(labels[mine].tolist()) == {client % 10, (client + 1) % 10}


def test_equal_weights_share_evenly():
    owned = by_power_law(labels_of(100), clients=20, sigma=0.0, seed=0)
    # A class has 4 takers: 5 each, then 80 / 4 = 20 each; the last grant would reach the end. Last
    # taker of class 0 is client 19 (slot 1), of class c > 0 client 10 + c (slot 0).
    assert [len(rows) for rows in owned] == [50] * 11 + [30] * 8 + [10]


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"clients": 15}, "clients must be a multiple of 10"),
        ({"clients": 0}, "clients must be a multiple of 10"),
        ({"clients": 10.0}, "clients must be a multiple of 10"),
        ({"clients": 1000}, "clients must be at most 40, since some class has only 40 images"),
        ({"sigma": -1.0}, "sigma must be a number from 0 to 20, got -1"),
        ({"sigma": float("nan")}, "sigma must be a number"),
        ({"sigma": "wide"}, "sigma must be a number"),
    ],
)
def test_bad_options_are_refused(changed, why):
    options = {"clients": 10, "sigma": 2.0, "seed": 0, **changed}
    with pytest.raises(BadOption, match=why):
        by_power_law(labels_of(40), **options)
