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
    rows = re.findall(r"^\| [\d.]+ % \|.*$", PAGE, re.MULTILINE)
    assert len(rows) == 10
    assert all(row in results.split("## l2 = 1\n")[1] for row in rows)


def test_the_best_deadline_lies_inside_what_was_measured():
    text = (ROOT / "benchmarks" / "results" / "theory-tighter.md").read_text("utf-8")
    parts = [
        re.findall(r"^\| (0\.\d+) \|.* (\S+) \|$", part, re.M) for part in text.split("## l2")[1:]
    ]
    small, large = ({time: float(loss) for time, loss in part} for part in parts)
    for losses in (small, large):
        assert min(losses, key=losses.get) == "0.0125"
    rows = re.findall(r"^  \| (0\.\d+) \|.*\| (\S+) \| (\S+) \|$", PAGE, re.M)
    assert len(rows) == 5
    assert all((float(a), float(b)) == (small[time], large[time]) for time, a, b in rows)
