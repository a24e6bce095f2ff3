"""A table written for a page, and as a file: CSV, Markdown, LaTeX."""

import csv
import io
from html import escape
from itertools import takewhile

from fedcore.report.grids import Grid

HTML = str.maketrans({sign: escape(sign) for sign in "&<>\"'"})
MARKDOWN = str.maketrans({"|": "\\|", "\n": " "})
LATEX = str.maketrans({sign: "\\" + sign for sign in "%&_#${}"} | {"\\": r"\textbackslash{}"})
LATEX |= str.maketrans({"^": r"\^{}", "~": r"\~{}", "≥": r"$\ge$", "μ": r"$\mu$", "\n": " "})


def to_html(grid: Grid, name: str) -> str:
    """A table in a frame that scrolls by itself, caption and notes below; it goes by ``name``."""
    texts, notes = _written(grid, HTML, f'<sup><a href="#{name}-{{0}}">{{0}}</a></sup>')
    title, body = escape(grid.title), ""
    for row, written in zip((grid.head, *grid.rows), texts, strict=True):
        body += "<tr>"
        for place, (cell, (text, marks)) in enumerate(zip(row, written, strict=True)):
            kind = 'th scope="row"' if text and place < grid.names else "td"
            kind = 'th scope="col"' if row is grid.head else kind
            style = "number" if row is grid.head and place >= grid.names else cell.style
            link = f'<a href="{escape(cell.link)}">{text}</a>' if cell.link else text
            body += f'<{kind} id="{cell.anchor}" class="{style}">{link}{marks}</{kind[:2]}>'
    frame = f'<div class="scroll" role="region" tabindex="0" aria-label="{title}"><table>'
    items = (f'<li id="{name}-{n}">{escape(note)}</li>' for note, n in notes.items())
    below = f"<p>{escape(grid.caption)}</p><ol>{''.join(items)}</ol>"
    table = f"{frame}<caption>{title}</caption>{body}</table></div>{below}"
    return table.replace(' id=""', "").replace(' class=""', "")


def to_csv(grid: Grid) -> str:
    """Every text, and nothing else."""
    file, rows = io.StringIO(), (grid.head, *grid.rows)
    csv.writer(file).writerows([cell.text.replace("\n", " ") for cell in row] for row in rows)
    return file.getvalue()


def to_markdown(grid: Grid) -> str:
    """Pipes, with caption and notes below."""
    texts, notes = _written(grid, MARKDOWN, "<sup>{}</sup>", "<sup>, </sup>")
    head, *rows = (" | ".join(map("".join, row)) for row in texts)
    lines = [head, " | ".join(["---"] * len(grid.head)), *rows]
    below = (f"{n}. {note}" for note, n in notes.items())
    return "\n".join([*(f"| {x} |" for x in lines), "", *grid.caption.splitlines(), *below, ""])


def to_latex(grid: Grid) -> str:
    """A ``tabular`` that needs no package, with caption and notes below."""
    texts, notes = _written(grid, LATEX, "$^{{{}}}$", "$^{,}$")
    head, *rows = (" & ".join(map("".join, row)) + r" \\" for row in texts)
    columns = "l" * grid.names + "r" * (len(grid.head) - grid.names)
    below = (rf"$^{{{n}}}$ {note.translate(LATEX)}\\" for note, n in notes.items())
    table = [rf"\begin{{tabular}}{{{columns}}}", r"\hline", head, r"\hline", *rows, r"\hline"]
    return "\n".join([*table, r"\end{tabular}", "", grid.caption.translate(LATEX), *below, ""])


WRITERS = {"csv": to_csv, "md": to_markdown, "tex": to_latex}  # by the ending of a file
Written = tuple[list[list[tuple[str, str]]], dict[str, int]]  # texts and marks by row; notes


def _written(grid: Grid, signs: dict[int, str], mark: str, gap: str = "") -> Written:
    """Head and rows, a name but the last empty where it stands above; and notes, numbered."""
    rows = [grid.head, *grid.rows]
    found = dict.fromkeys(note for row in rows for cell in row for note in cell.notes)
    notes = {note: number for number, note in enumerate(found, 1)}
    marks = [[gap.join(mark.format(notes[n]) for n in cell.notes) for cell in row] for row in rows]
    texts = [[cell.text.translate(signs) for cell in row] for row in rows]
    for above, row, own in zip(grid.rows, grid.rows[1:], texts[2:], strict=False):
        same = (one.text == other.text for one, other in zip(above, row, strict=True))
        for place in range(sum(takewhile(bool, [*same][: grid.names - 1]))):
            own[place] = ""
    return [[*zip(*pair, strict=True)] for pair in zip(texts, marks, strict=True)], notes
