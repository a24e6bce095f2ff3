import pytest
import torch

from fedcore.errors import BadOption
from fedcore.models import cnn
from fedcore.task import Task


def count(module):
    return sum(parameter.numel() for parameter in module.parameters())


def test_it_has_the_published_number_of_parameters():
    model = cnn.build(torch.zeros(1, 28, 28), 10)
    assert count(model.first) == 25 * 32 + 32
    assert count(model.second) == 25 * 32 * 64 + 64
    assert count(model.hidden) == 7 * 7 * 64 * 512 + 512
    assert count(model.head) == 512 * 10 + 10
    assert count(model) == 1_663_370


@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 32, 32), (1, 8, 9), (2, 4, 4)])
def test_it_scores_images_of_any_size(shape):
    model = cnn.build(torch.zeros(shape), 7)
    assert model(torch.randn(5, *shape)).shape == (5, 7)


def test_its_last_layer_is_found_and_it_has_no_buffers():
    model = cnn.build(torch.zeros(1, 8, 8), 3)
    task = Task(model)
    x = torch.randn(4, 1, 8, 8)
    logits, entered = task.forward(task.initial_params(), x, torch.zeros(4, task.head_width))
    assert entered.shape == (4, 512)
    torch.testing.assert_close(logits, model(x))
    torch.testing.assert_close(model.head(entered), logits)


def test_the_callers_seed_decides_where_it_starts():
    def start(seed):
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            return cnn.build(torch.zeros(1, 8, 8), 3).head.weight

    assert torch.equal(start(1), start(1))
    assert not torch.equal(start(1), start(2))


@pytest.mark.parametrize(
    "example",
    [
        torch.zeros(784),
        torch.zeros(28, 28),
        torch.zeros(1, 3, 28),
        torch.zeros(1, 28, 28, dtype=torch.uint8),
    ],
)
def test_other_inputs_are_refused(example):
    with pytest.raises(BadOption, match="model 'cnn' needs images"):
        cnn.build(example, 10)
