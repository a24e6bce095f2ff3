"""Values of options: what they may be, and how text or TOML becomes one."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from fedcore.errors import BadOption

Check = Callable[[str, Any], None]


def at_least(least: float) -> Check:
    """A check for numbers of at least ``least``."""

    def check(name: str, value: Any) -> None:
        if not (math.isfinite(value) and value >= least):
            raise BadOption(f"{name} must be at least {least:g}, got {value}")

    return check


def above_zero(name: str, value: Any) -> None:
    """A check for positive numbers."""
    if not (math.isfinite(value) and value > 0):
        raise BadOption(f"{name} must be above 0, got {value}")


def one_of(*choices: str) -> Check:
    """A check for names out of a list."""

    def check(name: str, value: Any) -> None:
        if value not in choices:
            raise BadOption(f"{name} must be one of {', '.join(choices)}, got {value!r}")

    check.choices = choices  # type: ignore[attr-defined]
    return check


def percentages(name: str, value: Any) -> None:
    """A check for lists of percentages between 0 and 100, both excluded."""
    for level in value:
        if not 0 < level < 100:
            raise BadOption(
                f"{name} must be percentages above 0 and below 100, got {level:g}; "
                "10 and 30 are the paper's"
            )
    distinct(name, value)


def distinct(name: str, value: Any) -> None:
    """A check for lists that are neither empty nor name anything twice."""
    if not value:
        raise BadOption(f"{name} must name at least one, got none")
    if len(set(value)) != len(value):
        raise BadOption(f"{name} must not name anything twice, got {','.join(map(str, value))}")


def whole_numbers(name: str, value: Any) -> None:
    """A check for lists of whole numbers of at least 0."""
    distinct(name, value)
    for number in value:
        at_least(0)(name, number)


def convert(name: str, value: Any, kind: Any) -> Any:
    """Bring ``value`` to the type ``kind``; numbers are not read out of text."""
    expected, converter = _KINDS[str(kind)]
    try:
        return converter(value)
    except (TypeError, ValueError):
        raise BadOption(f"{name} must be {expected}, got {value!r}") from None


def _parts(value: Any) -> list[Any]:
    if isinstance(value, str):
        return [part.strip() for part in value.split(",") if part.strip()]
    return list(value) if isinstance(value, list | tuple) else [value]


def _only(kind: Any) -> Callable[[Any], Any]:
    """Accept a value that is of a kind already; a truth value is no number."""

    def convert(value: Any) -> Any:
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise TypeError
        return value

    return convert


_KINDS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    str(int): ("a whole number", _only(int)),
    str(float): ("a number", lambda value: float(_only(int | float)(value))),
    str(str): ("text", _only(str)),
    str(str | None): ("text", _only(str)),
    str(bool): ("true or false", _only(bool)),
    str(tuple[str, ...]): ("a list", lambda value: tuple(_parts(value))),
    str(tuple[float, ...]): ("a list", lambda value: tuple(float(p) for p in _parts(value))),
    str(tuple[int, ...]): ("a list", lambda value: tuple(int(str(p)) for p in _parts(value))),
    str(Mapping[str, Any]): ("a table", lambda value: dict(_only(Mapping)(value))),
}
