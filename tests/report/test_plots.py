import math
from itertools import pairwise

import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("rich")
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from fedcore.records import ClientRecord, RoundRecord, RunKey, Waste
from fedcore.report import plots
from fedcore.report.output import PICTURES
from fedcore.report.plots import draw_all
from fedcore.types import Way

SIGNATURE = b"\x89PNG"


def row(strategy, number, time=0.9, accuracy=0.5, loss=1.0, stragglers=30.0, seed=0):
    clients = tuple(
        ClientRecord(n, Way.FULL, 1, 1, 2 * seconds, None)
        for n, seconds in enumerate((time, time / 3, 0.0))
    )
    record = RoundRecord(number, 2 * time, 2.0, clients, 0, loss, None, None, accuracy, 0.0)
    return RunKey("b", strategy, stragglers, seed), record


def runs_of(rows):
    runs = {}
    for key, record in rows:
        runs.setdefault(key, []).append(record)
    return runs


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
    draw_all(runs_of(rows), tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == set(PICTURES)  # so --overwrite knows them
    assert list(PICTURES) == [
        "loss.png",
        "accuracy_by_round.png",
        "accuracy_by_time.png",
        "round_lengths.png",
        "client_times.png",
        "timeline.png",
    ]
    assert all(path.read_bytes().startswith(SIGNATURE) for path in tmp_path.iterdir())


@pytest.fixture
def figures(monkeypatch, tmp_path):
    """Draw rows, and give back the figures by the names of their files."""

    def draw(rows, strategies=()):
        drawn = {}
        monkeypatch.setattr(
            Figure, "savefig", lambda figure, path: drawn.update({path.stem: figure})
        )
        draw_all(runs_of(rows), tmp_path, names=strategies)
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


def test_several_seeds_are_a_thin_line_each_and_their_median(figures):
    accuracies = {0: 0.2, 1: 0.9, 2: 0.5}
    rows = [row("fedcore", n, seed=s, accuracy=a) for s, a in accuracies.items() for n in (1, 2, 3)]
    for name in ("accuracy_by_round", "accuracy_by_time"):
        (axes,) = figures(rows)[name].axes
        *thin, median = axes.lines
        assert median is line_of(axes, "FedCore")
        assert median.get_ydata() == pytest.approx(0.5)
        assert [line.get_ydata()[0] for line in thin] == [0.2, 0.9, 0.5]
        assert all(line.get_linewidth() < median.get_linewidth() for line in thin)


def test_a_strategy_keeps_its_colour_in_pictures_of_fewer(figures):
    """Beside a page that has three, pictures of two have the colours of the page."""
    rows = [row(name, n) for name in ("fedavg", "fedcore") for n in (1, 2)]
    drawn = figures(rows, ["tempo", "fedavg", "fedcore"])
    for name, place in (("FedAvg", 1), ("FedCore", 2)):
        (axes,) = drawn["loss"].axes
        assert line_of(axes, name).get_color() == plots.COLOURS[place]
        (axes,) = drawn["client_times"].axes
        (body,) = axes.collections[5 * (place - 1)].get_facecolor()
        assert to_hex(body).upper() == plots.COLOURS[place]
    assert line_of(figures(rows)["loss"].axes[0], "FedAvg").get_color() == plots.COLOURS[0]


def test_over_time_every_seed_is_drawn_to_its_own_end(figures):
    """Rounds of 1, 2 and 4 deadlines, and accuracies that rise to the end of each seed."""
    last = {1.0: 0.6, 2.0: 0.8, 4.0: 0.7}
    rows = [
        row("fedcore", n, time, end * n / 8, seed=int(time))
        for time, end in last.items()
        for n in range(1, 9)
    ]
    (axes,) = figures(rows)["accuracy_by_time"].axes
    *thin, median = axes.lines
    ends = [(line.get_xdata()[-1], line.get_ydata()[-1]) for line in thin]
    assert ends == [pytest.approx((8 * time, end)) for time, end in last.items()]
    # The strong line ends at what tables say: the median of the last accuracies.
    assert (median.get_xdata()[-1], median.get_ydata()[-1]) == pytest.approx((16.0, 0.7))
    assert axes.get_xlim()[1] > 32.0


def test_a_seed_without_a_value_leaves_a_gap_in_the_median(figures):
    rows = [
        row("fedcore", n, seed=s, loss=None if (s, n) == (1, 2) else 1.0 * n)
        for s in (0, 1)
        for n in (1, 2, 3)
    ]
    (axes,) = figures(rows)["loss"].axes
    assert line_of(axes, "FedCore").get_ydata() == pytest.approx([1, math.nan, 3], nan_ok=True)


@pytest.mark.parametrize("seeds", [(0,), (0, 1)])
def test_rounds_that_nobody_measured_leave_no_gap(figures, seeds):
    """Of three rounds the second was not measured: a line from the first to the third."""
    known = {1: 0.2, 2: None, 3: 0.6}
    rows = [row("fedcore", n, accuracy=a, loss=a, seed=s) for s in seeds for n, a in known.items()]
    for name, places in (("accuracy_by_round", [1, 3]), ("accuracy_by_time", None)):
        (axes,) = figures(rows)[name].axes
        for line in axes.lines:
            assert line.get_ydata() == pytest.approx([0.2, 0.6])
            assert places is None or [*line.get_xdata()] == places


def test_seeds_of_which_one_was_never_measured_can_be_drawn(figures):
    """As in a job that was interrupted before the first measurement of its second seed."""
    rows = [row("fedcore", n, seed=0) for n in (1, 2)]
    rows += [row("fedcore", 1, seed=1, accuracy=None, loss=None)]
    (axes,) = figures(rows)["accuracy_by_round"].axes
    assert [len(line.get_xdata()) for line in axes.lines] == [2, 0]


def test_a_median_is_over_rounds_that_all_seeds_measured(figures):
    """One seed ends in round 3, which is measured as it is the last; the other measured 2 and 4."""
    known = {0: [None, 0.2, 0.9], 1: [None, 0.4, None, 0.8]}
    rows = [
        row("fedcore", n, accuracy=a, loss=a, seed=s)
        for s, values in known.items()
        for n, a in enumerate(values, 1)
    ]
    (axes,) = figures(rows)["accuracy_by_round"].axes
    lines = [[*zip(x.get_xdata(), x.get_ydata(), strict=True)] for x in axes.lines]
    assert lines[:2] == [[(2, 0.2), (3, 0.9)], [(2, 0.4), (4, 0.8)]]
    assert lines[2] == [(2, pytest.approx(0.3))]


def test_the_last_strategy_named_lies_on_top_and_colours_go_by_order(figures):
    rows = [row(s, n) for s in ("mine", "fedavg", "fedcore") for n in (1, 2)]
    (axes,) = figures(rows)["loss"].axes
    lines = [line_of(axes, title) for title in ("mine", "FedAvg", "FedCore")]
    assert [line.get_color() for line in lines] == list(plots.COLOURS[:3])
    assert [line.get_zorder() for line in lines] == [3, 4, 5]


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
        (0.42, 50, ["0.5", "1", "2", "5", "10", "20", "50"]),
        (0.95, 1.05, ["0.95", "1", "1.05", "1.1"]),
        (0.005, 2000, ["0.01", "0.1", "1", "10", "100", "1000"]),
    ],
)
def test_numbers_on_a_logarithmic_axis_are_round(low, high, expected):
    axes = Figure().subplots()
    plots._log_axis(axes.xaxis, [low, high])
    assert shown_labels(axes.xaxis) == expected


def job(client, seconds, *, work=1, **values):
    return ClientRecord(client, Way.FULL, 1, work, seconds, None, **values)


def test_a_timeline_by_hand():
    """Deadlines of 2 seconds: a round of 3 seconds, and then a merge after 1 second."""
    first = (job(0, 3.0), job(1, 1.0), job(2, 0.0, work=0), job(3, 3.0, wasted=Waste.CANCELLED))
    # Client 1 was asked again 2 seconds into the first round, and answers half a second after it.
    second = (job(1, 1.5, ended=0.5, staleness=1), job(4, 1.0))
    second += (job(5, 2.0, wasted=Waste.CANCELLED),)  # begun a second before the first merge
    rounds = [
        RoundRecord(1, 3.0, 2.0, first, 0, None, None, None, None, 0.0),
        RoundRecord(2, 1.0, 2.0, second, 0, None, None, None, None, 0.0),
    ]
    rounds.append(
        RoundRecord(3, 1.0, 2.0, (job(6, 0.5, wasted=Waste.CANCELLED),), *[None] * 6, cut=True)
    )
    waits, works, wasted = plots.DOING
    assert plots.spans(rounds) == [
        (0, works, 0.0, 1.5),
        (0, waits, 1.5, 1.5),
        (1, works, 0.0, 0.5),
        (1, waits, 0.5, 1.5),
        (3, wasted, 0.0, 1.5),
        (1, works, 1.0, 1.75),
        (1, waits, 1.75, 2.0),
        (4, works, 1.5, 2.0),
        (4, waits, 2.0, 2.0),
        (5, wasted, 1.0, 2.0),
        (6, works, 2.25, 2.5),  # what the end of the run stopped
    ]


def test_the_timeline_has_a_panel_for_each_strategy_with_who_was_asked_and_the_merges(figures):
    rows = [row(s, n, t, seed=seed) for s, t in (("fedavg", 7.0), ("fedcore", 1.0))
            for seed in (0, 1) for n in (1, 2, 3)]  # fmt: skip
    late, on_time = figures(rows)["timeline"].axes
    assert [axes.get_title() for axes in (late, on_time)] == ["FedAvg", "FedCore"]
    assert len(late.lines) == 0  # its first merge is after what is shown
    assert [line.get_xdata()[0] for line in on_time.lines] == pytest.approx([1, 2, 3])
    widths = sorted({round(bar.get_width(), 6) for bar in on_time.patches})
    assert widths == pytest.approx([0, 1 / 3, 2 / 3, 1])
    assert late.get_xlim() == (0, plots.SHOWN)
