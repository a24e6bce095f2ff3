"""Run the cells of a notebook and write down what they print: python docs/site/notebook.py FILE.

Plain Python in place of a Jupyter kernel, which would bring thirty packages along: cells may print
and draw, and must not end with a value, for that only Jupyter would show.
"""

import ast
import base64
import io
import json
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

Cell = dict[str, Any]


def load(path: Path) -> Cell:
    """The notebook as JSON holds it."""
    book: Cell = json.loads(path.read_text("utf-8"))
    return book


def run(book: Cell) -> list[list[Cell]]:
    """The outputs of every code cell, in order, from an empty namespace."""
    import matplotlib

    matplotlib.use("Agg")
    names: dict[str, Any] = {"__name__": "__main__"}
    cells = [cell for cell in book["cells"] if cell["cell_type"] == "code"]
    return [
        _outputs("".join(cell["source"]), number, names) for number, cell in enumerate(cells, 1)
    ]


def _outputs(source: str, number: int, names: dict[str, Any]) -> list[Cell]:
    from matplotlib import pyplot

    tree = ast.parse(source)
    last = tree.body[-1]
    shown = ast.Expression(tree.body.pop().value) if isinstance(last, ast.Expr) else None
    told = io.StringIO()
    with redirect_stdout(told):
        exec(compile(tree, f"cell {number}", "exec"), names)
        value = shown and eval(compile(shown, f"cell {number}", "eval"), names)
    if value is not None:
        raise ValueError(f"cell {number} ends with a value, {value!r}; print it or give it a name")
    outputs: list[Cell] = []
    if text := told.getvalue():
        lines = text.splitlines(keepends=True)
        outputs.append({"output_type": "stream", "name": "stdout", "text": lines})
    for figure in map(pyplot.figure, pyplot.get_fignums()):
        picture = io.BytesIO()
        figure.savefig(picture, format="png", dpi=80, bbox_inches="tight", metadata={})
        data = {"image/png": base64.b64encode(picture.getvalue()).decode()}
        outputs.append({"output_type": "display_data", "metadata": {}, "data": data})
    pyplot.close("all")
    return outputs


def write(path: Path) -> None:
    """Run a notebook and keep its outputs in it."""
    book = load(path)
    cells = [cell for cell in book["cells"] if cell["cell_type"] == "code"]
    for number, (cell, outputs) in enumerate(zip(cells, run(book), strict=True), 1):
        cell["outputs"], cell["execution_count"] = outputs, number
    path.write_text(json.dumps(book, indent=1, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
