"""Methods that divide by the step size, after a schedule took it to zero."""

import pytest
import torch


@pytest.mark.parametrize("executor", ["auto", "sequential"])
@pytest.mark.parametrize(
    ("strategy", "own"), [("scaffold", {}), ("fednova", {}), ("fednova", {"nova_mu": 0.3})]
)
def test_from_there_on_the_model_stays_what_it_is(simulated, strategy, own, executor):
    """Cosine over 2 rounds, and time for more: all steps from version 2 on have size 0."""
    options = {"schedule": "cosine", "rounds": 2, "time_budget": 8.0, "executor": executor}
    versions = [state.params for _, state in simulated(strategy, method=own, **options)]
    assert len(versions) > 4
    for name, before in versions[0].items():
        assert before.isfinite().all()
        assert not torch.equal(before, versions[1][name])
        for later in versions[2:]:
            assert torch.equal(later[name], versions[1][name])
