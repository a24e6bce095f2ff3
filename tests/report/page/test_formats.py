"""One small table, every format by hand."""

import csv
import io

import pytest

from fedcore.report.grids import Cell, Grid
from fedcore.report.page.formats import WRITERS, to_csv, to_html, to_latex, to_markdown

NOTE = "30 & not 100 rounds."
GRID = Grid(
    "A <table>",
    [Cell("Who"), Cell("What"), Cell("100 %", notes=("B|C",))],
    [
        [Cell("one"), Cell("first"), Cell("1.0\n0.5-2", "late", "#run-0", "here", (NOTE,))],
        [Cell("one"), Cell("first"), Cell("a|b_c")],
        [Cell("two"), Cell("first"), Cell("-", notes=("B|C", NOTE))],
    ],
    2,
    "What it says.",
)


def test_every_text_is_in_a_csv_file_and_nothing_else():
    rows = list(csv.reader(io.StringIO(to_csv(GRID))))
    assert rows == [
        ["Who", "What", "100 %"],
        ["one", "first", "1.0 0.5-2"],
        ["one", "first", "a|b_c"],
        ["two", "first", "-"],
    ]


def test_markdown_leaves_out_names_that_stand_above_but_the_last():
    assert to_markdown(GRID).splitlines() == [
        "| Who | What | 100 %<sup>1</sup> |",
        "| --- | --- | --- |",
        "| one | first | 1.0 0.5-2<sup>2</sup> |",
        "|  | first | a\\|b_c |",
        "| two | first | -<sup>1</sup><sup>, </sup><sup>2</sup> |",
        "",
        "What it says.",
        "1. B|C",
        "2. 30 & not 100 rounds.",
    ]


def test_latex_needs_no_package_and_escapes_what_it_must():
    assert to_latex(GRID).splitlines() == [
        r"\begin{tabular}{llr}",
        r"\hline",
        r"Who & What & 100 \%$^{1}$ \\",
        r"\hline",
        r"one & first & 1.0 0.5-2$^{2}$ \\",
        r" & first & a|b\_c \\",
        r"two & first & -$^{1}$$^{,}$$^{2}$ \\",
        r"\hline",
        r"\end{tabular}",
        "",
        "What it says.",
        r"$^{1}$ B|C\\",
        r"$^{2}$ 30 \& not 100 rounds.\\",
    ]


def test_a_page_has_links_anchors_styles_and_notes():
    html = to_html(GRID, "t")
    assert 'aria-label="A &lt;table&gt;"' in html
    assert '<td id="here" class="late"><a href="#run-0">1.0\n0.5-2</a>' in html
    assert '</a><sup><a href="#t-2">2</a></sup></td>' in html
    assert f'<li id="t-2">{NOTE.replace("&", "&amp;")}</li>' in html
    assert html.count('<th scope="row">one</th>') == 1
    assert html.count('<th scope="row">first</th>') == 3
    assert html.count("<tr>") == 4
    assert 'id=""' not in html


@pytest.mark.parametrize("ending", WRITERS)
def test_a_table_of_no_rows_is_written_too(ending):
    assert "Who" in WRITERS[ending](GRID._replace(rows=[]))
