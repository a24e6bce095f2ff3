import dataclasses

import numpy as np
import pytest

from fedcore.client.schedule import Samples, schedule
from fedcore.coreset.proxies import LOGITS
from fedcore.strategies import importance
from fedcore.types import ClientProfile, CoresetSpec, Phase


def test_importance_sampling_goes_fedcores_way():
    """One epoch on everything, then floor((455 - 100) / 9) = 39; or a forward pass for a third."""
    client = ClientProfile(100, 1.0)
    spec = CoresetSpec(39, "importance", LOGITS, options=(("gate", 0.0),))
    assert importance.build().plan(client, 455.0, 10).phases == (Phase(1), Phase(9, spec))
    look, rest = importance.build().plan(client, 95.0, 10).phases
    assert look == Phase(1, forward_price=1 / 3)
    assert rest == Phase(10, dataclasses.replace(spec, budget=6))  # (95 - 34) / 10


def test_weights_that_sum_in_the_mean_are_not_rescaled_in_a_batch():
    """b = 2, m = 6, δ = (1, 3): (2/6) δ / 2, where rescaling to Σ δ = 4 would have (2/4) δ / 2."""
    samples = Samples(np.array([4, 5]), np.array([1.0, 3.0]), total=6.0)
    tape = schedule(samples, 1, 2, np.random.default_rng(0))
    found = dict(zip(tape.index[0].tolist(), tape.coefficient[0].tolist(), strict=True))
    assert found == pytest.approx({4: 1 / 6, 5: 1 / 2})
