import numpy as np
import pytest

from fedcore.client.schedule import Samples, schedule
from fedcore.coreset.proxies import LOGITS, NONE
from fedcore.strategies import importance
from fedcore.types import ClientProfile, CoresetSpec, Phase


def test_a_forward_pass_is_paid_for_and_then_as_many_as_fit():
    """100 samples: a pass over them costs 34, which leaves floor((455 - 34) / 10) = 42."""
    client = ClientProfile(100, 1.0)
    plan = importance.build().plan(client, 455.0, 10)
    spec = CoresetSpec(42, "importance", LOGITS)
    assert plan.phases == (Phase(1, forward_price=1 / 3), Phase(10, spec))
    assert plan.work(100) == 34 + 420


def test_no_time_for_a_forward_pass_leaves_a_random_subset():
    plan = importance.build().plan(ClientProfile(100, 1.0), 35.0, 10)
    assert plan.phases == (Phase(10, CoresetSpec(3, "uniform-plain", NONE)),)


def test_weights_that_sum_in_the_mean_are_not_rescaled_in_a_batch():
    """b = 2, m = 6, δ = (1, 3): (2/6) δ / 2, where rescaling to Σ δ = 4 would have (2/4) δ / 2."""
    samples = Samples(np.array([4, 5]), np.array([1.0, 3.0]), total=6.0)
    tape = schedule(samples, 1, 2, np.random.default_rng(0))
    found = dict(zip(tape.index[0].tolist(), tape.coefficient[0].tolist(), strict=True))
    assert found == pytest.approx({4: 1 / 6, 5: 1 / 2})
