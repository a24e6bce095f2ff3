import pytest

pytest.importorskip("rich")

import math
from itertools import pairwise

from fedcore.report import plots
from fedcore.report.output import PICTURES
from fedcore.report.plots import draw_all, round_numbers

SIGNATURE = b"\x89PNG"


def row(strategy, number, time=0.9, accuracy=0.5, loss=1.0, stragglers=30.0, seed=0):
    return {
        "benchmark": "b",
        "strategy": strategy,
        "stragglers": stragglers,
        "seed": seed,
        "round": number,
        "round_time": time,
        "train_loss": loss,
        "test_accuracy": accuracy,
        "clients": [{"time": time}, {"time": time / 3}, {"time": 0.0}],
    }


@pytest.mark.parametrize(
    "rows",
    [
        [row("fedcore", n, 0.9 + 0.01 * n) for n in (1, 2, 3)],
        [row("fedcore", 1)],  # a single round has no distribution
        [row(s, n, n / 2) for s in ("fedavg", "mine", "yours") for n in (1, 2, 3)],
        [row("fedavg-ds", n, 0.0) for n in (1, 2)],  # nobody took part
        [row("fedcore", n, accuracy=None, loss=None) for n in (1, 2)],  # no test data, diverged
        [row("fedcore", n, seed=s, time=s + n) for s in (0, 1) for n in (1, 2)],
        [row("fedcore", n, n, stragglers=s) for s in (10.0, 30.0) for n in (1, 2)],
    ],
)
def test_every_kind_of_result_can_be_drawn(rows, tmp_path):
    paths = draw_all(rows, tmp_path)
    assert tuple(path.name for path in paths) == PICTURES  # so that --overwrite knows them
    assert [path.name for path in paths] == [
        "loss.png",
        "accuracy_by_round.png",
        "accuracy_by_time.png",
        "round_lengths.png",
        "client_times.png",
    ]
    assert all(path.read_bytes().startswith(SIGNATURE) for path in paths)


@pytest.fixture
def figures(monkeypatch, tmp_path):
    """Draw rows, and give back the figures by the names of their files."""

    def draw(rows):
        drawn = {}
        monkeypatch.setattr(plots, "_save", lambda figure, path: drawn.update({path.stem: figure}))
        draw_all(rows, tmp_path)
        for figure in drawn.values():
            figure.draw_without_rendering()
        return drawn

    return draw


def line_of(axes, label):
    return next(line for line in axes.lines if line.get_label() == label)


def shown_labels(axis):
    low, high = sorted(axis.get_view_interval())
    return [
        label.get_text()
        for label, place in zip(axis.get_ticklabels(), axis.get_ticklocs(), strict=True)
        if low <= place <= high
    ]


def test_several_seeds_are_their_median_and_a_band(figures):
    accuracies = {0: 0.2, 1: 0.9, 2: 0.5}
    rows = [row("fedcore", n, seed=s, accuracy=a) for s, a in accuracies.items() for n in (1, 2, 3)]
    for name in ("accuracy_by_round", "accuracy_by_time"):
        (axes,) = figures(rows)[name].axes
        (line,) = axes.lines
        assert line.get_ydata() == pytest.approx(0.5)
        (band,) = axes.collections
        height = band.get_paths()[0].vertices[:, 1]
        assert (height.min(), height.max()) == pytest.approx((0.2, 0.9))


def test_seeds_of_different_times_are_compared_at_the_same_time(figures):
    """Rounds of 1 and of 2 deadlines, accuracy equal to the time: at any time it is the same."""
    rows = [
        row("fedcore", n, time, n * time, seed=s)
        for s, time in ((0, 1.0), (1, 2.0))
        for n in range(1, 9)
    ]
    (axes,) = figures(rows)["accuracy_by_time"].axes
    (line,) = axes.lines
    assert line.get_xdata()[[0, -1]] == pytest.approx([2.0, 8.0])  # what both have
    assert line.get_ydata() == pytest.approx(line.get_xdata())


def test_fedcore_lies_on_top_of_all_others(figures):
    rows = [row(s, n) for s in ("fedcore", "fedavg", "mine") for n in (1, 2)]
    (axes,) = figures(rows)["loss"].axes
    ours = line_of(axes, "FedCore")
    assert all(ours.get_zorder() > line.get_zorder() for line in axes.lines if line is not ours)


def test_rounds_are_whole_numbers(figures):
    rows = [row("fedcore", n) for n in (1, 2)]
    for name in ("loss", "accuracy_by_round"):
        (axes,) = figures(rows)[name].axes
        assert shown_labels(axes.xaxis) == ["1", "2"]


def test_times_are_plain_numbers(figures):
    rows = [row("fedavg", n, 4.0) for n in range(1, 31)]
    (axes,) = figures(rows)["accuracy_by_time"].axes
    assert axes.get_xscale() == "log"
    assert shown_labels(axes.xaxis) == ["5", "10", "20", "50", "100"]


def test_a_logarithm_has_no_place_for_no_time(figures):
    rows = [row("fedavg-ds", n, 0.0 if n < 3 else 0.5) for n in (1, 2, 3, 4)]
    (axes,) = figures(rows)["accuracy_by_time"].axes
    assert line_of(axes, "FedAvg-DS").get_xdata() == pytest.approx([0.5, 1.0])


def test_rounds_of_about_one_length_have_marks_between_them(figures):
    rows = [row("fedcore", n, 0.9 + 0.01 * n) for n in range(1, 11)]
    (axes,) = figures(rows)["round_lengths"].axes
    labels = shown_labels(axes.yaxis)
    assert len(labels) >= 4
    assert "1" in labels


@pytest.mark.parametrize(
    "strategies",
    [
        ("fedavg", "fedavg-ds", "fedprox", "fedcore"),
        ("fedprox", "own_strategy", "fedcore"),
        (
            "fedavg",
            "fedavg-ds",
            "fedprox",
            "fedcore",
            *(f"a_method_of_many_words_{n}" for n in range(5)),
        ),
    ],
)
def test_no_name_below_a_violin_runs_into_the_next_or_over_the_edge(figures, strategies):
    rows = [
        row(s, n, n / 4, stragglers=g) for g in (10.0, 30.0) for s in strategies for n in (1, 2)
    ]
    figure = figures(rows)["client_times"]
    for axes in figure.axes:
        labels = axes.get_xticklabels()
        assert len(labels) == len(strategies)
        for label in labels:
            box = label.get_window_extent()
            assert box.x0 >= 0
            assert box.y0 >= 0
            assert box.x1 <= figure.bbox.x1
        if labels[0].get_rotation() == 0:
            edges = [label.get_window_extent() for label in labels]
            assert all(a.x1 < b.x0 for a, b in pairwise(edges))
        else:  # aslant, lines of text that are further apart than they are high
            places = [label.get_window_extent().x1 for label in labels]
            height = figure.dpi * labels[0].get_fontsize() / 72
            step = min(b - a for a, b in pairwise(places))
            assert step * math.sin(math.radians(labels[0].get_rotation())) > 1.2 * height


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.4, 60, [0.5, 1, 2, 5, 10, 20, 50]),
        (0.9, 1.1, [0.9, 0.95, 1.0, 1.05, 1.1]),
        (0.002, 3000, [0.01, 0.1, 1, 10, 100, 1000]),
    ],
)
def test_round_numbers(low, high, expected):
    assert round_numbers(low, high) == expected
