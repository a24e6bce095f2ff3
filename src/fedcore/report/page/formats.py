"""A table written for a page, and as a file: CSV, Markdown, LaTeX."""

import csv
import io
from collections.abc import Callable, Iterator
from html import escape

from fedcore.report.grids import Cell, Grid

LATEX = {sign: "\\" + sign for sign in "%&_#${}"} | {"\\": r"\textbackslash{}", "^": r"\^{}"}
LATEX |= {"~": r"\~{}", "≥": r"$\ge$", "μ": r"$\mu$", "\n": " "}


def to_html(grid: Grid, name: str) -> str:
    """A table in a frame that scrolls by itself, caption and notes below; it goes by ``name``."""

    def inner(cell: Cell, notes: list[int]) -> str:
        text = f'<a href="{escape(cell.link)}">{escape(cell.text)}</a>'
        marks = ", ".join(f'<a href="#{name}-{n}">{n}</a>' for n in notes)
        return (text if cell.link else escape(cell.text)) + (marks and f"<sup>{marks}</sup>")

    head, *rows = _written(grid, inner)
    title, body = escape(grid.title), "".join(f'<th scope="col">{text}</th>' for text in head)
    for row, texts in zip(grid.rows, rows, strict=True):
        body += "<tr>"
        for place, (cell, text) in enumerate(zip(row, texts, strict=True)):
            kind = 'th scope="row"' if text and place < grid.names else "td"
            body += f'<{kind} id="{cell.anchor}" class="{cell.style}">{text}</{kind[:2]}>'
    frame = f'<div class="scroll" role="region" tabindex="0" aria-label="{title}"><table>'
    notes = (f'<li id="{name}-{n}">{escape(note)}</li>' for note, n in _notes(grid).items())
    below = f"<p>{escape(grid.caption)}</p><ol>{''.join(notes)}</ol>"
    table = f"{frame}<caption>{title}</caption><tr>{body}</table></div>{below}"
    return table.replace(' id=""', "").replace(' class=""', "")


def to_csv(grid: Grid) -> str:
    """Every text, and nothing else."""
    file, rows = io.StringIO(), (grid.head, *grid.rows)
    csv.writer(file).writerows([cell.text.replace("\n", " ") for cell in row] for row in rows)
    return file.getvalue()


def to_markdown(grid: Grid) -> str:
    """Pipes, with caption and notes below."""

    def inner(cell: Cell, notes: list[int]) -> str:
        text = cell.text.replace("|", "\\|").replace("\n", " ")
        return text + "".join(f"<sup>{n}</sup>" for n in notes)

    head, *rows = _written(grid, inner)
    lines = [f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows)]
    notes = (f"{n}. {note}" for note, n in _notes(grid).items())
    return "\n".join([*lines, "", *grid.caption.splitlines(), *notes, ""])


def to_latex(grid: Grid) -> str:
    """A ``tabular`` that needs no package, with caption and notes below."""
    signs = str.maketrans(LATEX)

    def inner(cell: Cell, notes: list[int]) -> str:
        return cell.text.translate(signs) + "".join(f"$^{{{n}}}$" for n in notes)

    head, *rows = (" & ".join(row) + r" \\" for row in _written(grid, inner))
    columns = "l" * grid.names + "r" * (len(grid.head) - grid.names)
    notes = (rf"$^{{{n}}}$ {note.translate(signs)}\\" for note, n in _notes(grid).items())
    body = [r"\hline", head, r"\hline", *rows, r"\hline", r"\end{tabular}", ""]
    return "\n".join(
        [rf"\begin{{tabular}}{{{columns}}}", *body, grid.caption.translate(signs), *notes, ""]
    )


WRITERS = {"csv": to_csv, "md": to_markdown, "tex": to_latex}  # by the ending of a file


def _notes(grid: Grid) -> dict[str, int]:
    """What is noted, and the number that cells have for it."""
    found = (note for row in (grid.head, *grid.rows) for cell in row for note in cell.notes)
    return {note: number for number, note in enumerate(dict.fromkeys(found), 1)}


def _written(grid: Grid, write: Callable[[Cell, list[int]], str]) -> Iterator[list[str]]:
    """Head and rows; a name but the last is left out where it and those before it stand above."""
    notes, above = _notes(grid), [""]
    for row in (grid.head, *grid.rows):
        texts = [cell.text for cell in row]
        same = [n < grid.names - 1 and texts[: n + 1] == above[: n + 1] for n in range(len(row))]
        cells = [write(cell, [notes[note] for note in cell.notes]) for cell in row]
        yield ["" if old else text for old, text in zip(same, cells, strict=True)]
        above = texts
