"""A table written for a page, and as a file: CSV, Markdown, LaTeX."""

import csv
import io
from collections.abc import Callable
from html import escape

from fedcore.report.grids import Cell, Grid

LATEX = {sign: "\\" + sign for sign in "%&_#${}"} | {"\\": r"\textbackslash{}", "^": r"\^{}"}
Write = Callable[[Cell, list[int]], str]  # a cell with the numbers of its notes
SIGNS = str.maketrans(LATEX | {"~": r"\~{}", "≥": r"$\ge$", "μ": r"$\mu$", "\n": " "})


def to_html(grid: Grid, name: str) -> str:
    """A table in a frame that scrolls by itself, caption and notes below; it goes by ``name``."""

    def inner(cell: Cell, notes: list[int]) -> str:
        text = f'<a href="{escape(cell.link)}">{escape(cell.text)}</a>'
        marks = ", ".join(f'<a href="#{name}-{n}">{n}</a>' for n in notes)
        return (text if cell.link else escape(cell.text)) + (marks and f"<sup>{marks}</sup>")

    (head, *rows), notes = _written(grid, inner)
    title, body = escape(grid.title), ""
    for place, text in enumerate(head):
        kind = "number" if place >= grid.names else ""
        body += f'<th scope="col" class="{kind}">{text}</th>'
    for row, texts in zip(grid.rows, rows, strict=True):
        body += "<tr>"
        for place, (cell, text) in enumerate(zip(row, texts, strict=True)):
            kind = 'th scope="row"' if text and place < grid.names else "td"
            body += f'<{kind} id="{cell.anchor}" class="{cell.style}">{text}</{kind[:2]}>'
    frame = f'<div class="scroll" role="region" tabindex="0" aria-label="{title}"><table>'
    items = (f'<li id="{name}-{n}">{escape(note)}</li>' for note, n in notes.items())
    below = f"<p>{escape(grid.caption)}</p><ol>{''.join(items)}</ol>"
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

    (head, *rows), notes = _written(grid, inner)
    lines = [f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows)]
    below = (f"{n}. {note}" for note, n in notes.items())
    return "\n".join([*lines, "", *grid.caption.splitlines(), *below, ""])


def to_latex(grid: Grid) -> str:
    """A ``tabular`` that needs no package, with caption and notes below."""

    def inner(cell: Cell, notes: list[int]) -> str:
        return cell.text.translate(SIGNS) + "".join(f"$^{{{n}}}$" for n in notes)

    found, notes = _written(grid, inner)
    head, *rows = (" & ".join(row) + r" \\" for row in found)
    columns = "l" * grid.names + "r" * (len(grid.head) - grid.names)
    start = [rf"\begin{{tabular}}{{{columns}}}", r"\hline", head, r"\hline"]
    below = (rf"$^{{{n}}}$ {note.translate(SIGNS)}\\" for note, n in notes.items())
    end = [r"\hline", r"\end{tabular}", "", grid.caption.translate(SIGNS), *below, ""]
    return "\n".join([*start, *rows, *end])


WRITERS = {"csv": to_csv, "md": to_markdown, "tex": to_latex}  # by the ending of a file


def _written(grid: Grid, write: Write) -> tuple[list[list[str]], dict[str, int]]:
    """Head and rows, a name but the last empty where it stands above; and notes, numbered."""
    rows = [grid.head, *grid.rows]
    found = dict.fromkeys(note for row in rows for cell in row for note in cell.notes)
    notes = {note: number for number, note in enumerate(found, 1)}
    texts = [[write(cell, [notes[note] for note in cell.notes]) for cell in row] for row in rows]
    for above, row, written in zip(grid.rows, grid.rows[1:], texts[2:], strict=False):
        for place in range(grid.names - 1):
            if above[place].text != row[place].text:
                break
            written[place] = ""
    return texts, notes
