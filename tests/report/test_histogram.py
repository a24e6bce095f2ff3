import pytest

pytest.importorskip("rich")
from rich.console import Console

from fedcore.errors import BadOption
from fedcore.report.grids import doubling_bins
from fedcore.report.plots import draw_histogram
from fedcore.report.tables import histogram


def test_bins_double_and_cover_everybody():
    bins = doubling_bins([3, 4, 7, 8, 40])
    assert bins == [(2, 3, 1), (4, 7, 2), (8, 15, 1), (16, 31, 0), (32, 63, 1)]


def test_a_client_without_samples_has_a_bin():
    assert doubling_bins([0, 1]) == [(0, 0, 1), (1, 1, 1)]


def test_bars_are_as_long_as_clients_are_many():
    console = Console(width=80)
    with console.capture() as captured:
        console.print(histogram([1] * 100 + [2] * 50 + [5], "sizes"))
    lines = captured.get().splitlines()
    assert [line.count("█") for line in lines] == [0, 0, 40, 20, 1]
    assert lines[3].split()[:2] == ["2-3", "50"]


def test_a_picture_is_written(tmp_path):
    pytest.importorskip("matplotlib")
    draw_histogram([1, 2, 3, 500], "sizes", tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("name", ["nowhere/a.png", "a.unknown"])
def test_a_picture_that_cannot_be_written_is_refused(tmp_path, name):
    pytest.importorskip("matplotlib")
    with pytest.raises(BadOption, match=r"plot .* cannot be written"):
        draw_histogram([1, 2], "sizes", tmp_path / name)
