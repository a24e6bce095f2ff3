import numpy as np
import pytest
import torch

from fedcore.coreset.build import build_coreset
from fedcore.coreset.candidates import Candidates
from fedcore.coreset.metric import Euclidean
from fedcore.errors import BadOption, UnknownPlugin


def build(points, budget, selector="kmedoids"):
    candidates = Candidates(Euclidean(points))
    return build_coreset(candidates, budget, selector, np.random.default_rng(0))


@pytest.mark.parametrize("budget", [5, 6, 100])
def test_a_budget_of_everything_or_more_is_everything_with_weight_one(budget):
    found = build(torch.randn(5, 2), budget)
    assert found.indices.tolist() == [0, 1, 2, 3, 4]
    assert found.weights.tolist() == [1] * 5
    assert found.objective == 0


def test_an_unknown_selector_is_named_with_the_nearest():
    with pytest.raises(UnknownPlugin, match="did you mean 'kmedoids'"):
        build(torch.randn(5, 2), 2, selector="kmedoid")


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        ("torch.tensor([0, 1, n]), torch.tensor([2.0, 2, n - 4])", "different indices from 0 to 9"),
        ("torch.tensor([0, 1, 1]), torch.tensor([2.0, 2, n - 4])", "different indices from 0 to 9"),
        ("torch.tensor([-1, 1, 2]), torch.tensor([2.0, 2, n - 4])", "different indices"),
        ("torch.tensor([0, 1]), torch.tensor([-2.0, n + 2])", "above 0 and sum to"),
        ("torch.tensor([0, 1]), torch.tensor([float('nan'), 1.0])", "above 0 and sum to"),
        ("torch.tensor([0, 1]), torch.tensor([1.0, 1.0])", "sum to 2; they must"),
        ("torch.arange(5), torch.full((5,), n / 5)", "gave 5 samples with 5 weights"),
        ("torch.arange(3), torch.full((2,), n / 2)", "gave 3 samples with 2 weights"),
    ],
)
def test_an_own_selector_that_gives_no_coreset_is_named(tmp_path, answer, sentence):
    path = tmp_path / "own.py"
    path.write_text(
        "import torch\nfrom fedcore.types import Coreset\n"
        "def select(candidates, budget, generator):\n"
        f"    n = len(candidates)\n    return Coreset({answer})\n"
    )
    with pytest.raises(BadOption, match=sentence) as refused:
        build(torch.randn(10, 2), 3, selector=str(path))
    assert "own.py" in str(refused.value)
