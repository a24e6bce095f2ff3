"""The table of docs/advise.md is that of the committed results."""

import json
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks.advise.page import BEGIN, END, table  # noqa: E402


def test_the_page_has_the_table_of_the_results():
    content = json.loads((ROOT / "benchmarks" / "results" / "advise.json").read_text())
    page = (ROOT / "docs" / "advise.md").read_text()
    shown = page.partition(BEGIN)[2].partition(END)[0]
    assert shown.strip() == table(content).strip()


def test_a_run_that_never_gets_there_is_no_hit():
    case = {"benchmark": "b", "fleet": "normal", "sending": 0.1, "seed": 0}
    row = {"of_tau": 0.5, "tried": 9}
    one = {"case": case, "target": 0.5, "of_tau": 0.5, "deadlines": [row], "predicted": 100.0}
    one |= {"within": 1.2, "cpu seconds": 3.0}
    runs = [[{"seconds": seconds}] * 3 for seconds in (None, 140.0, 160.0)]
    content = {"cases": [{**one, "needed": needed} for needed in runs]}
    content["size"] = {"cpu seconds": 20.0, "clients": 1000}
    text = table(content)
    assert "Within a factor of 1.5: 1 of 3 cases." in text
    assert "Of 9 runs 0 lie in the interval" in text
