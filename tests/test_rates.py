import math

import pytest
import torch

from fedcore.rates import SCHEDULES, factor_of


def test_a_constant_rate_has_no_factor():
    assert factor_of("constant", 100, 0.1, 30) is None


def test_the_factors_are_those_of_the_formulas():
    step = factor_of("step", 100, 0.5, 30)
    assert [step(v) for v in (0, 29, 30, 59, 60, 99)] == [1, 1, 0.5, 0.5, 0.25, 0.125]
    cosine = factor_of("cosine", 12, 0.1, 30)
    expected = [1.0, (2 + math.sqrt(3)) / 4, 3 / 4, 1 / 2, 1 / 4]
    assert [cosine(v) for v in (0, 2, 4, 6, 8)] == pytest.approx(expected)
    assert cosine(50) == 0.0  # an asynchronous server may go on: no rise after the end
    inverse = factor_of("inverse-time", 100, 0.25, 30)
    assert [inverse(v) for v in (0, 2, 4, 12)] == pytest.approx([1, 2 / 3, 1 / 2, 1 / 4])


@pytest.mark.parametrize("name", SCHEDULES[1:])
def test_every_schedule_is_the_one_of_torch(name):
    weight = torch.zeros(1, requires_grad=True)
    optimiser = torch.optim.SGD([weight], lr=0.3)
    theirs = {
        "step": lambda: torch.optim.lr_scheduler.StepLR(optimiser, 7, 0.2),
        "cosine": lambda: torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, 20),
        "inverse-time": lambda: torch.optim.lr_scheduler.LambdaLR(
            optimiser, lambda v: 1 / (1 + 0.2 * v)
        ),
    }[name]()
    ours = factor_of(name, 20, 0.2, 7)
    for version in range(20):
        assert 0.3 * ours(version) == pytest.approx(theirs.get_last_lr()[0], rel=1e-9)
        assert 0 < ours(version) <= 1
        optimiser.step()
        theirs.step()
