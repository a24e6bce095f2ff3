import logging

import numpy as np
import pytest
import torch

from fedcore.coreset.build import build_coreset
from fedcore.coreset.candidates import Candidates
from fedcore.coreset.metric import Euclidean
from fedcore.coreset.selectors import kcenter
from fedcore.errors import BadOption, UnknownPlugin
from fedcore.types import Coreset


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
        (
            "torch.tensor([0, 1, n]), torch.tensor([2.0, 2, n - 4])",
            "indices, whole numbers from 0 to 9",
        ),
        ("torch.tensor([0, 1, 1]), torch.tensor([2.0, 2, n - 4])", "different indices"),
        ("torch.tensor([-1, 1, 2]), torch.tensor([2.0, 2, n - 4])", "different indices"),
        ("torch.tensor([0, 1]), torch.tensor([-2.0, n + 2])", "above 0 and sum to"),
        ("torch.tensor([0, 1]), torch.tensor([float('nan'), 1.0])", "above 0 and sum to"),
        ("torch.tensor([0, 1]), torch.tensor([1.0, 1.0])", "sum to 2; they must"),
        ("torch.arange(5), torch.full((5,), n / 5)", r"of shape \[5\] .* must give 1 to 3 samples"),
        ("torch.arange(3), torch.full((2,), n / 2)", r"of shape \[3\] and weights of \[2\]"),
        ("torch.ones(2).nonzero(), torch.full((2,), n / 2)", r"of shape \[2, 1\] and"),
        ("torch.arange(2), torch.full((2, 1), n / 2)", r"weights of \[2, 1\]"),
        ("torch.linspace(0, n - 1, 3), torch.full((3,), n / 3)", "whole numbers"),
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


def test_small_whole_numbers_name_samples_and_are_no_mask(tmp_path):
    path = tmp_path / "own.py"
    path.write_text(
        "import numpy as np\nfrom fedcore.types import Coreset\n"
        "def select(candidates, budget, generator):\n"
        "    return Coreset(np.array([1, 4], np.uint8), np.array([7.0, 3.0]))\n"
    )
    found = build(torch.randn(10, 2), 3, selector=str(path))
    assert torch.arange(10)[found.indices].tolist() == [1, 4]


def test_an_own_selector_that_raises_ends_the_run_in_one_sentence(tmp_path):
    path = tmp_path / "own.py"
    path.write_text("def select(candidates, budget, generator):\n    return 1 / 0\n")
    with pytest.raises(BadOption, match=r"own\.py.*failed: ZeroDivisionError: division by zero"):
        build(torch.randn(10, 2), 3, selector=str(path))


@pytest.mark.parametrize(
    "answer",
    [
        lambda *_: 1 / 0,
        lambda *_: None,
        lambda *_: Coreset(torch.tensor([0, 1]), torch.tensor([1.0, 0.0])),
    ],
)
def test_a_selector_of_ours_that_fails_never_ends_a_run(monkeypatch, caplog, answer):
    monkeypatch.setattr(kcenter, "select", answer)
    with caplog.at_level(logging.WARNING):
        found = build(torch.randn(10, 2), 4, selector="kcenter")
    assert found.fell_back
    assert found.weights.tolist() == [2.5] * 4
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "'kcenter'" in caplog.text


def test_what_a_selector_asks_of_its_caller_is_still_said():
    with pytest.raises(BadOption, match="needs losses"):
        build(torch.randn(10, 2), 4, selector="loss-topk")


def test_a_coreset_that_did_not_fail_says_so():
    assert not build(torch.randn(10, 2), 4).fell_back


def test_an_own_selector_may_answer_in_numpy(tmp_path):
    path = tmp_path / "own.py"
    path.write_text(
        "import numpy as np\nfrom fedcore.types import Coreset\n"
        "def select(candidates, budget, generator):\n"
        "    return Coreset(np.array([4, 1]), np.array([7.0, 3.0]))\n"
    )
    coreset = build(torch.randn(10, 2), 3, selector=str(path))
    assert (coreset.indices.tolist(), coreset.weights.tolist()) == ([4, 1], [7.0, 3.0])
    assert list(coreset.subset(list(range(10)))) == [4, 1]
    with pytest.raises(ValueError, match="what the coreset was chosen from"):
        coreset.subset([0, 1, 2])
