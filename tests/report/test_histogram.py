import pytest

pytest.importorskip("rich")
from rich.console import Console

from fedcore.report.grids import doubling_bins
from fedcore.report.tables import histogram


def test_bins_double_and_cover_everybody():
    bins = doubling_bins([3, 4, 7, 8, 40])
    assert bins == [(2, 3, 1), (4, 7, 2), (8, 15, 1), (16, 31, 0), (32, 63, 1)]


def test_a_client_without_samples_has_a_bin():
    assert doubling_bins([0, 1]) == [(0, 0, 1), (1, 1, 1)]


def test_bars_are_as_long_as_clients_are_many():
    console = Console(width=80)
    with console.capture() as captured:
        console.print(histogram(doubling_bins([1] * 100 + [2] * 50 + [5]), "sizes"))
    lines = captured.get().splitlines()
    assert [line.count("█") for line in lines] == [0, 0, 40, 20, 1]
    assert lines[3].split()[:2] == ["2-3", "50"]
