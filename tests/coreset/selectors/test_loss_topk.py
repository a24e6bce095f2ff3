import pytest
import torch

from fedcore.coreset.selectors import loss_topk
from fedcore.errors import BadOption


def test_loss_topk_takes_the_worst_and_needs_losses(run, line):
    found = run(loss_topk, line, 2, losses=torch.tensor([0.1, 5.0, 0.2, 4.0, 0.3]))
    assert found.indices.tolist() == [1, 3]
    with pytest.raises(BadOption, match="needs losses"):
        run(loss_topk, line, 2)
