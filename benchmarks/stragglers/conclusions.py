"""What the study says, in sentences whose numbers are read from its results."""

from __future__ import annotations

from benchmarks.stragglers.figures import Study


def text(studies: list[Study]) -> str:
    return ""
