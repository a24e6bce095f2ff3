"""Where the command writes: no text is taken for markup, and only a terminal has an edge."""

from __future__ import annotations

from rich.console import Console

WIDE = 1000  # characters, for files and pipes: a table there takes the room it needs


def plain_console(*, stderr: bool = False) -> Console:
    """A console that prints what it is given: a path such as ``run[red]`` stays as it is."""
    console = Console(stderr=stderr, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = WIDE
    return console
