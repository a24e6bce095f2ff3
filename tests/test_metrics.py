"""Against scikit-learn, which has all of them."""

import math

import numpy as np
import pytest
import torch

pytest.importorskip("sklearn")

from sklearn import metrics as sk

from fedcore.errors import BadData, BadOption
from fedcore.losses import measured, metrics_of, right_answers

DRAW = torch.Generator().manual_seed(1)
SCORES = torch.randn(200, 6, generator=DRAW)
CLASSES = torch.randint(6, (200,), generator=DRAW)


def value(name, outputs, targets):
    return measured(metrics_of([name]), outputs, targets)[name]


def test_classes():
    guessed = SCORES.argmax(1).numpy()
    assert value("accuracy", SCORES, CLASSES) == pytest.approx(sk.accuracy_score(CLASSES, guessed))
    f1 = sk.f1_score(CLASSES, guessed, average="macro")
    assert value("f1", SCORES, CLASSES) == pytest.approx(f1)
    for most in (1, 2, 5):
        expected = sk.top_k_accuracy_score(CLASSES, SCORES, k=most)
        assert value(f"top-{most}", SCORES, CLASSES) == pytest.approx(expected)
    assert value("top-99", SCORES, CLASSES) == 1
    chances = SCORES.double().softmax(1).numpy()
    expected = math.exp(sk.log_loss(CLASSES, chances))
    assert value("perplexity", SCORES, CLASSES) == pytest.approx(expected, rel=1e-5)


def test_f1_of_classes_that_are_missing_and_of_several_labels_a_sample():
    scores, classes = torch.eye(4)[[0, 0, 2, 3]], torch.tensor([0, 1, 2, 2])
    guessed = scores.argmax(1)
    expected = sk.f1_score(classes, guessed, average="macro", zero_division=0)
    assert value("f1", scores, classes) == pytest.approx(expected)
    labels = (torch.rand(200, 6, generator=DRAW) > 0.6).float()
    guesses = (SCORES > 0).int().numpy()
    expected = sk.f1_score(labels.int().numpy(), guesses, average="macro", zero_division=0)
    assert value("f1", SCORES, labels) == pytest.approx(expected)


@pytest.mark.parametrize("columns", [1, 4])
def test_numbers(columns):
    outputs = torch.randn(50, columns, generator=DRAW)
    targets = outputs + torch.randn(50, columns, generator=DRAW)
    assert value("mae", outputs, targets) == pytest.approx(sk.mean_absolute_error(targets, outputs))
    assert value("r2", outputs, targets) == pytest.approx(sk.r2_score(targets, outputs))
    if columns == 1:
        assert value("r2", outputs, targets[:, 0]) == pytest.approx(sk.r2_score(targets, outputs))


def test_padding_does_not_count():
    scores, classes = SCORES.view(50, 4, 6), CLASSES.view(50, 4).clone()
    classes[:, 3] = -100
    kept = scores[:, :3].flatten(0, 1), classes[:, :3].flatten()
    for name in ("accuracy", "top-2", "f1", "perplexity"):
        assert value(name, scores, classes) == pytest.approx(value(name, *kept)), name
    assert right_answers(scores, classes) == pytest.approx(value("accuracy", *kept) * 50)


@pytest.mark.parametrize(
    ("outputs", "targets"),
    [
        (torch.zeros(3), torch.zeros(3)),
        (torch.zeros(3, 1), torch.zeros(3).long()),
        (torch.zeros(3, 2), torch.zeros(3, 2).long()),
        (torch.zeros(3, 2), torch.zeros(3, 2)),
    ],
)
def test_there_is_no_accuracy_without_classes(outputs, targets):
    assert math.isnan(right_answers(outputs, targets))


def test_own_functions_and_files(tmp_path):
    def bias(outputs, targets):
        return (outputs - targets).mean()

    file = tmp_path / "worst.py"
    file.write_text("def metric(outputs, targets):\n    return (outputs - targets).abs().max()\n")
    found = metrics_of([bias, str(file), "mae"])
    assert list(found) == ["bias", "worst", "mae"]
    outputs, targets = torch.tensor([1.0, 5.0]), torch.tensor([2.0, 2.0])
    numbers = measured(found, outputs, targets)
    assert list(numbers.values()) == [1, 3, 2]
    assert all(type(number) is float for number in numbers.values())


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (["mea"], "no metric named 'mea'; did you mean 'mae'"),
        (["top-0"], "no metric named 'top-0'"),
        (["top-"], "no metric named 'top-'"),
        (["f1", "f1"], "metrics must not name 'f1' twice"),
        ([3], "no metric named '3'"),
        ([None], "no metric named 'None'"),
    ],
)
def test_others_are_refused(given, sentence):
    with pytest.raises(BadOption, match=sentence):
        metrics_of(given)


def test_metrics_that_do_not_fit_say_so():
    with pytest.raises(BadData, match="needs a class for every row of scores"):
        value("top-5", torch.zeros(4), torch.zeros(4))
    with pytest.raises(BadData, match="as many targets as outputs"):
        value("mae", SCORES, CLASSES)
    added, texts = metrics_of([lambda o, t: o + t]), metrics_of([text])
    with pytest.raises(BadData, match=r"metric '<lambda>' of outputs \[3\] and targets \[2\] fail"):
        measured(added, torch.zeros(3), torch.zeros(2))
    with pytest.raises(BadData, match="metric 'text' of"):
        measured(texts, torch.zeros(3), torch.zeros(3))


def text(outputs, targets):
    return np.str_("a text")


@pytest.mark.parametrize("kind", [torch.int64, torch.bool, torch.float32])
def test_f1_of_one_number_a_sample_is_that_of_its_sign(kind):
    targets = (CLASSES > 2).to(kind)
    expected = sk.f1_score(CLASSES > 2, SCORES[:, 0] > 0)
    for shape in ((200,), (200, 1)):
        assert value("f1", SCORES[:, :1], targets.reshape(shape)) == pytest.approx(expected)


def test_f1_of_numbers_that_are_no_labels_is_refused():
    """Those above a half were taken for one class, and the rest for the other."""
    with pytest.raises(BadData, match="metric needs classes, or labels of 0 and 1"):
        value("f1", SCORES[:, :1], torch.linspace(-1, 3, 200))


def test_what_goes_by_classes_needs_two_of_them():
    for name in ("top-5", "perplexity"):
        with pytest.raises(BadData, match="needs scores of two classes or more"):
            value(name, SCORES[:, :1], torch.zeros(200, dtype=torch.int64))
