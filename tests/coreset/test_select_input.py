"""What ``select_coreset`` refuses, and the many forms of input that it takes."""

import numpy as np
import pytest
import torch

from fedcore import select_coreset
from fedcore.errors import BadData, BadOption, FedCoreError, UnknownPlugin


def points(size=20, dimension=3):
    return np.random.default_rng(0).normal(size=(size, dimension)).astype(np.float32)


@pytest.mark.parametrize(
    ("gradients", "sentence"),
    [
        ([[1.0, 2.0], [3.0]], "gradients must be one array of numbers, got a list"),
        (torch.eye(4).to_sparse(), r"gradients must be a dense tensor.*call \.to_dense\(\)"),
        (torch.eye(4, dtype=torch.complex64), "gradients must be real numbers, got torch.complex"),
        (np.eye(4, dtype=np.complex64), "gradients must be numbers, got complex64"),
        (np.array([None, 1.0]), "gradients must be numbers, got object"),
    ],
)
def test_gradients_that_are_no_matrix_of_numbers(gradients, sentence):
    with pytest.raises(BadData, match=sentence):
        select_coreset(gradients, 2)


def test_a_sparse_matrix_of_scipy_is_refused_with_what_to_do():
    sparse = pytest.importorskip("scipy.sparse", reason="scipy is not installed")
    with pytest.raises(BadData, match=r"must be numbers, got object; call \.toarray\(\) on it"):
        select_coreset(sparse.csr_matrix(points()), 2)


def test_a_single_column_may_run_backwards():
    column = points(dimension=1)
    one, other = select_coreset(column[:, ::-1], 4), select_coreset(column, 4)
    assert one.indices.tolist() == other.indices.tolist()
    assert select_coreset(column[:1][::-1], 1).indices.tolist() == [0]


@pytest.mark.parametrize("selector", [3, None, ["kmedoids"], 1.5])
def test_a_selector_is_named(selector):
    with pytest.raises(BadOption, match="selector must be a name or the path"):
        select_coreset(points(), 5, selector=selector)


@pytest.mark.parametrize("budget", [5, 20, 99])
def test_an_unknown_selector_is_refused_for_any_budget(budget):
    with pytest.raises(UnknownPlugin, match="did you mean 'kmedoids'"):
        select_coreset(points(), budget, selector="kmedoid")


def test_a_file_without_a_selector_is_refused(tmp_path):
    (tmp_path / "empty.py").write_text("selects = None\n")
    with pytest.raises(BadOption, match="has no function 'select'"):
        select_coreset(points(), 5, selector=str(tmp_path / "empty.py"))


def test_a_file_whose_selector_returns_something_else_is_refused(tmp_path):
    own = tmp_path / "own.py"
    own.write_text("def select(candidates, budget, generator):\n    return [0]\n")
    with pytest.raises(BadOption, match="must return a Coreset, got a list"):
        select_coreset(points(), 5, selector=str(own))


@pytest.mark.parametrize("selector", ["kmedoids-per-class", "kmedoids-same-label"])
def test_who_looks_at_labels_must_have_some(selector):
    with pytest.raises(BadOption, match=f"selector '{selector}' needs labels; pass labels="):
        select_coreset(points(), 5, selector=selector)


@pytest.mark.parametrize("seed", [-1, 1.5, "1", None, True])
def test_a_seed_is_a_whole_number(seed):
    with pytest.raises(BadOption, match="seed must be"):
        select_coreset(points(), 5, seed=seed)


@pytest.mark.parametrize(
    "start", [[999], [-1], ["a"], "a", [[0, 1], [2, 3]], [0.5], np.ones(20, bool), [[1], [2, 3]]]
)
def test_a_start_is_a_row_of_positions(start):
    with pytest.raises(BadOption, match="start must"):
        select_coreset(points(), 5, start=start)


def test_an_empty_start_is_none():
    found = select_coreset(points(), 5, start=[])
    assert np.array_equal(found.indices, select_coreset(points(), 5).indices)


@pytest.mark.parametrize("seconds", ["a", float("nan"), -1, True, [1]])
def test_a_time_limit_is_a_number_of_seconds(seconds):
    with pytest.raises(BadOption, match=r"seconds must be (a number|at least 0)"):
        select_coreset(points(), 5, seconds=seconds)


@pytest.mark.parametrize(
    ("labels", "sentence"),
    [
        (["a", "b"] * 10, "labels must be numbers, got <U1; number the classes"),
        ([0.0] * 19 + [float("nan")], "labels must be whole numbers, got nan for sample 19"),
        ([0.5] * 20, "labels must be whole numbers, got 0.5 for sample 0"),
        (np.zeros((20, 1), int), r"labels must be one class per sample, got shape \(20, 1\)"),
        ([[0], [1, 2]], "labels must be one array of numbers"),
    ],
)
def test_labels_are_whole_numbers(labels, sentence):
    with pytest.raises(BadData, match=sentence):
        select_coreset(points(), 5, labels=labels, selector="kmedoids-per-class")


@pytest.mark.parametrize("losses", [[float("nan")] * 20, ["a"] * 20, [1j] * 20, [1.0]])
def test_losses_are_numbers(losses):
    with pytest.raises(BadData, match="losses must be"):
        select_coreset(points(), 5, losses=losses, selector="loss-topk")


@pytest.mark.parametrize("selector", ["kmedoids-per-class", "kmedoids-same-label"])
def test_labels_of_any_kind_of_number_give_the_same(selector):
    classes = np.arange(20) % 3
    forms = [
        classes.astype(np.int32),
        classes.astype(np.uint16),
        classes.astype(np.float64),
        classes.astype(">i4"),
        classes[::-1][::-1],
        classes.tolist(),
        torch.from_numpy(classes).to(torch.uint8),
    ]
    expected = select_coreset(points(), 6, labels=classes, selector=selector).indices
    for labels in forms:
        found = select_coreset(points(), 6, labels=labels, selector=selector)
        assert np.array_equal(found.indices, expected)


def test_every_refusal_can_be_caught_as_one_kind():
    with pytest.raises(FedCoreError):
        select_coreset(points(), 5, selector=object())


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_a_share_may_be_a_number_of_numpy(kind):
    assert len(select_coreset(np.eye(20), kind(0.25)).indices) == 5
