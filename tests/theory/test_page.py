"""docs/theory.md: its example runs, and what it says is what the results say."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "theory.md").read_text("utf-8")


def test_the_example_runs(capsys):
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(compile(code, "docs/theory.md", "exec"), {})
    lines = capsys.readouterr().out.splitlines()
    assert len([line for line in lines if line.startswith("Constants(")]) == 3
    assert "'schedule': 'inverse-time'" in lines[-1]


def test_the_trade_is_that_of_the_results():
    results = (ROOT / "benchmarks" / "results" / "theory.md").read_text("utf-8")
    rows = re.findall(r"^\| \d+ % \|.*$", PAGE, re.MULTILINE)
    assert len(rows) == 7
    assert all(row in results.split("## l2 = 1\n")[1] for row in rows)
