"""The page in a real browser: it draws, answers, prints, can be read aloud, and asks nobody."""

import os
from pathlib import Path

import pytest

from fedcore.records import ClientRecord, RoundRecord, RunKey
from fedcore.report.page import write_page
from fedcore.report.page.jobs import Job, read_jobs
from fedcore.report.page.tables import SIZES
from fedcore.report.summary import summary
from fedcore.types import Way

ROOT = Path(__file__).parents[3]
AXE = Path(os.environ.get("FEDCORE_AXE", ROOT / ".axe/node_modules/axe-core/axe.min.js"))
# How many pixels of a chart's canvas something is drawn on.
INKED = """(canvas) => {
  const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  return pixels.filter((value, place) => place % 4 === 3 && value > 0).length;
}"""
DRAW_ALL = "charts.forEach(draw)"


@pytest.fixture(scope="module")
def page(a_job, tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    write_page(read_jobs([a_job]), folder)
    return folder / "report.html"


def test_every_chart_is_drawn_and_nothing_complains(browser, page):
    browser.open(page)
    browser.run(DRAW_ALL)
    figures = browser.run(
        "[...document.querySelectorAll('section[data-figure]')].map((s) => "
        "[s.dataset.figure, s.querySelectorAll('canvas').length])"
    )
    # Two levels each; of the timeline, one of each strategy
    expected = {"timeline": 8, "sizes": 1}
    assert dict(figures) == {name: expected.get(name, 2) for name, _ in figures}
    assert len(figures) == 10
    inked = browser.run(f"charts.map((one) => ({INKED})(one.canvas))")
    assert min(inked) > 500
    assert browser.complaints() == []


def test_no_request_leaves_the_machine(browser, page):
    browser.open(page)
    browser.run(DRAW_ALL)
    assert browser.requests() == [page.resolve().as_uri()]
    refused = browser.run("fetch('https://example.org/').then(() => 'sent', () => 'refused')")
    assert refused == "refused"
    assert any("Content Security Policy" in one for one in browser.complaints())


def test_charts_are_drawn_as_they_come_into_view(browser, page):
    browser.open(page)
    for place in (0, -1):
        browser.run(f"charts.at({place}).figure.scrollIntoView()")
        browser.run(
            f"""new Promise((done) => {{
              const look = () => (charts.at({place}).chart ? done() : setTimeout(look, 20));
              look();
            }})"""
        )
        if place == 0:
            assert not browser.run("Boolean(charts.at(-1).chart)")


def test_a_strategy_can_be_switched_off_and_on(browser, page):
    browser.open(page)
    browser.run(DRAW_ALL)
    shown = """charts[0].chart.data.datasets.filter((set, n) => charts[0].chart.isDatasetVisible(n))
               .map((set) => set.strategy)"""
    before = browser.run(shown)
    ink = browser.run(f"({INKED})(charts[0].canvas)")
    button = "[...document.querySelectorAll('button')].find((b) => b.textContent === 'FedCore')"
    browser.run(f"{button}.click()")
    assert browser.run(shown) == [name for name in before if name != "fedcore"]
    assert "fedcore" in before
    assert browser.run(f"{button}.getAttribute('aria-pressed')") == "false"
    assert browser.run(f"({INKED})(charts[0].canvas)") < ink
    browser.run(f"{button}.click()")
    assert browser.run(shown) == before


def test_a_pointer_is_told_what_is_under_it(browser, page):
    browser.open(page)
    browser.run(DRAW_ALL)
    browser.run("charts[0].figure.scrollIntoView({block: 'center'})")
    box = browser.run(
        "(({x, y, width, height}) => [x + width / 2, y + height / 2])"
        "(charts[0].canvas.getBoundingClientRect())"
    )
    browser.ask("Input.dispatchMouseEvent", type="mouseMoved", x=box[0], y=box[1])
    browser.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert browser.run("charts[0].chart.tooltip.opacity") == 1
    assert browser.run("charts[0].chart.tooltip.body.length") >= 1


@pytest.mark.parametrize("dark", [False, True])
def test_ground_and_ink_follow_the_reader(browser, page, dark):
    browser.open(page, dark=dark)
    browser.run(DRAW_ALL)
    ground = browser.run("paint(getComputedStyle(document.body).backgroundColor).rgb.r")
    ink = browser.run("paint(charts[0].chart.options.scales.x.ticks.color).rgb.r")
    assert (ground < 64 and ink > 192) if dark else (ground > 192 and ink < 64)


@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_is_wider_than_the_screen(browser, page, width):
    browser.open(page, width=width)
    browser.run(DRAW_ALL)
    assert browser.run("document.documentElement.scrollWidth") <= width
    assert browser.run("Math.max(...charts.map((one) => one.canvas.offsetWidth))") <= width


def test_numbers_are_seen_beside_long_names_of_options(browser, a_job, tmp_path):
    (job,) = read_jobs([a_job])
    own = {"clients_per_round": 4, "epochs": 3, "learning_rate": 0.05, "metrics": ["f1", "top-3"]}
    own |= {"evaluate_every": 4, "deadline": "kth-arrival", "method": {"share": 0.9}}
    content = job.content | {"experiment": job.content["experiment"] | own}
    write_page([job._replace(content=content)], tmp_path)
    browser.open(tmp_path / "report.html", width=1280)
    fits = (
        "[...document.querySelectorAll('.scroll')].map((one) => one.scrollWidth <= one.clientWidth)"
    )
    assert all(browser.run(fits))


def test_it_is_there_within_a_second(browser, page):
    browser.open(page)
    timing = "performance.getEntriesByType('navigation')[0].loadEventEnd"
    assert min(browser.run(timing) for _ in range(3) if not browser.open(page)) < 1000


def test_it_prints_with_every_chart_drawn(browser, page):
    browser.open(page)
    printed = browser.ask("Page.printToPDF", printBackground=True)
    assert len(printed["data"]) > 20_000
    assert all(browser.run("charts.map((one) => Boolean(one.chart))"))


def test_on_paper_charts_are_dark_on_white_and_in_their_columns(browser, page):
    """Whatever the screen is like: a dark and wide one, and one where charts were drawn before."""
    browser.open(page, width=1400, dark=True)
    browser.run(DRAW_ALL)
    width = browser.run("charts[0].canvas.offsetWidth")
    ask = """[dark, ...document.querySelectorAll("figure")].map((one) =>
      one === dark ? dark : one.querySelector("canvas").offsetWidth <= one.offsetWidth)"""
    browser.run(f"window.seen = []; addEventListener('beforeprint', () => seen.push(...{ask}))")
    wide = "seen.push(Math.max(...charts.map((one) => one.canvas.offsetWidth)))"
    browser.run(f"addEventListener('beforeprint', () => {wide})")
    browser.ask("Page.printToPDF")
    dark, *fits, widest = browser.run("seen")
    assert not dark
    assert all(fits)
    assert widest <= (210 - 20) / 25.4 * 96 / 2  # two columns of A4, margins of 10 mm
    assert browser.run("dark")
    assert browser.run("charts[0].canvas.offsetWidth") == width


def test_paper_says_whose_colour_is_whose(browser, page):
    browser.open(page)
    browser.ask("Emulation.setEmulatedMedia", media="print")
    key = "[...document.querySelectorAll('nav button')].map((one) => one.checkVisibility())"
    assert browser.run(key) == [True] * 4
    assert browser.run("getComputedStyle(document.querySelector('i')).printColorAdjust") == "exact"
    browser.ask("Emulation.setEmulatedMedia", media="")


def test_rounds_in_which_no_time_has_passed_are_not_on_a_logarithm_of_time(browser, page):
    browser.open(page)
    own = "data.panels[0].curves.fedavg"
    browser.run(f"{own}.forEach((run) => (run.time[0] = 0))")
    for by, first in (("time", 2), ("round", 1)):
        sets = f"lines(data.panels[0], 'test_accuracy', '{by}').sets"
        found = browser.run(f"{sets}.filter((one) => one.label === 'FedAvg')[0].data")
        assert len(found) == 13 - first
        assert all(point["x"] > 0 for point in found)
    browser.run(f"{own}.forEach((run) => run.time.fill(0))")
    alt = browser.run("lines(data.panels[0], 'test_accuracy', 'time').alt")
    assert "FedAvg NaN" in alt  # and the others are drawn


def test_rounds_that_nobody_measured_leave_no_gap_and_seeds_meet_by_their_rounds(browser, page):
    """One seed of 4 rounds of which 2 and 4 were measured, one of 3, of which 2 and the last."""
    browser.open(page)
    one = "{round: [1, 2, 3, 4], time: [1, 2, 3, 4], train_loss: [null, 4, null, 2]"
    one += ", test_accuracy: [null, 0.4, null, 0.6], epsilon: [0.1, null, 0.3, null]}"
    other = "{round: [1, 2, 3], time: [2, 4, 6], train_loss: [null, null, 1]"
    other += ", test_accuracy: [null, 0.2, 0.9], epsilon: [0.5, 0.4, 0.7]}"
    browser.run(f"data.panels[0].curves.fedavg = [{one}, {other}]")

    def drawn(y, by):
        sets = f"lines(data.panels[0], '{y}', '{by}').sets.filter((s) => s.strategy === 'fedavg')"
        points = "(set) => set.data.map(({x, y}) => [x, y])"
        return browser.run(f"{sets}.filter((set) => !/paper/.test(set.label)).map({points})")

    first, second, middle = drawn("test_accuracy", "time")
    assert (first, second) == ([[2, 0.4], [4, 0.6]], [[4, 0.2], [6, 0.9]])
    assert middle == [[3, pytest.approx(0.3)]]
    # Of round 2 the second seed has an accuracy, but its loss diverged: a gap.
    assert drawn("train_loss", "round") == [[[2, 4], [4, 2]], [[2, None], [3, 1]], [[2, None]]]
    assert drawn("epsilon", "round")[0] == [[1, 0.1], [3, 0.3]]


@pytest.mark.parametrize("dark", [False, True])
def test_axe_finds_nothing_serious(browser, page, dark):
    if not AXE.exists():
        pytest.skip(f"axe is not here: no {AXE}; 'make browser' brings it")
    browser.open(page, dark=dark)
    browser.run(DRAW_ALL)
    browser.run("document.querySelectorAll('details').forEach((one) => (one.open = true))")
    browser.run(AXE.read_text("utf-8") + "; 0")
    found = browser.run(
        "axe.run(document).then((found) => found.violations.map((one) => "
        "[one.impact, one.id, one.nodes.slice(0, 3).map((n) => n.html)]))"
    )
    assert [one for one in found if one[0] in ("serious", "critical")] == []


EVIL = "</script><script>window.broken = 1</script><img src=x onerror='window.broken = 2'>\u2028&"


def test_a_name_cannot_break_out_of_the_page(browser, tmp_path):
    """Names of strategies, benchmarks, options and folders may hold any sign, and stay text."""
    client = ClientRecord(0, Way.FULL, 1, 1, 0.5, None, gradient_error=0.1)
    record = RoundRecord(1, 0.5, 1.0, (client,), 0, 1.0, 0.5, 1.0, 0.5, 0.0)
    runs = {RunKey(EVIL, EVIL, 30.0, 0): [record]}
    content = summary(runs, {"benchmark": EVIL, "model": EVIL, "epochs": 1, "batch_size": 1})
    content["data"] = {"counted": EVIL, "bins": [[1, 1, 1]]} | dict.fromkeys(SIZES, 1)
    write_page([Job(tmp_path / "a<b>" / EVIL.replace("/", ""), content, runs)], tmp_path)
    browser.open(tmp_path / "report.html")
    browser.run(DRAW_ALL)
    assert browser.run("window.broken") is None
    assert browser.run("document.querySelectorAll('img').length") == 0
    assert browser.run("Object.keys(data.strategies)") == [EVIL]
    assert EVIL in browser.run("document.querySelector('button').textContent")
    assert browser.complaints() == []
