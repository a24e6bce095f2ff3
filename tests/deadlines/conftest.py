import math

import numpy as np
import pytest

from fedcore.server.controller import Seen


@pytest.fixture
def see():
    """What was seen of clients with these (samples, samples a second, seconds of transfer)."""

    def make(*known, epochs=2, drawn=None, clients=None, rounds=(), most=math.inf):
        table = np.array(known, dtype=float).reshape(-1, 3)
        chosen = np.ones(len(table), bool) if drawn is None else np.array(drawn)
        before = np.array(rounds, dtype=float).reshape(-1, 3)
        every = len(table) if clients is None else clients
        return Seen(epochs, *table.T, chosen, every, before, most)

    return make


@pytest.fixture
def of_seconds(see):
    """Clients for whom the one epoch that is asked for lasts so long, without transfer."""
    return lambda *seconds, **more: see(*((s, 1.0, 0.0) for s in seconds), **{"epochs": 1} | more)
