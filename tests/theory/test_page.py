"""docs/theory.md: its example runs, and what it says is what the results say."""

import re
from pathlib import Path

PAGE = (Path(__file__).parents[2] / "docs" / "theory.md").read_text("utf-8")


def test_the_example_runs(capsys):
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(compile(code, "docs/theory.md", "exec"), {})
    lines = capsys.readouterr().out.splitlines()
    assert len([line for line in lines if line.startswith("Constants(")]) == 3
    assert "'schedule': 'inverse-time'" in lines[-1]
