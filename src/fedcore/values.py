"""Values of options: what they may be, and how text or TOML becomes one."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from fedcore.errors import BadOption

Check = Callable[[str, Any], None]


LARGEST_SEED = 2**63 - 1  # that torch's and NumPy's generators both take
LARGEST_LEGACY_SEED = 2**32 - 1  # that NumPy's legacy generator takes, which makes the datasets


def at_least(least: float, most: int | None = None) -> Check:
    """A check for numbers of at least ``least``, and of at most ``most`` where there is a limit."""

    def check(name: str, value: Any) -> None:
        # A whole number may be too large for a float, so it is not made one.
        finite = isinstance(value, int) or math.isfinite(value)
        if not (finite and value >= least):
            raise BadOption(f"{name} must be at least {least:g}, got {value}")
        if most is not None and value > most:
            raise BadOption(f"{name} must be at most {most:,}, got {value}")

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


def seeds(name: str, value: Any) -> None:
    """A check for lists of seeds."""
    distinct(name, value)
    for number in value:
        at_least(0, LARGEST_SEED)(name, number)


def convert(name: str, value: Any, kind: Any) -> Any:
    """Bring ``value`` to the type ``kind``; numbers are not read out of text."""
    expected, converter = _KINDS[str(kind)]
    try:
        return converter(value)
    except _BadPart as bad:
        raise BadOption(f"{name} must be {expected}, got {bad.args[0]!r}") from None
    except (TypeError, ValueError, OverflowError):
        raise BadOption(f"{name} must be {expected}, got {value!r}") from None


def _parts(value: Any) -> list[Any]:
    if isinstance(value, str):
        return [part.strip() for part in value.split(",") if part.strip()]
    return list(value) if isinstance(value, list | tuple) else [value]


class _BadPart(Exception):
    """A part of a list is of the wrong kind; the argument is that part."""


def _each(converter: Callable[[Any], Any]) -> Callable[[Any], tuple[Any, ...]]:
    """Convert every part of a list, and say which one cannot be."""

    def part(value: Any) -> Any:
        try:
            return converter(value)
        except (TypeError, ValueError, OverflowError):
            raise _BadPart(value) from None

    return lambda value: tuple(part(item) for item in _parts(value))


def _number(value: Any) -> float:
    """A number of a list, which the command line gives as text."""
    return float(value if isinstance(value, str) else _only(int | float)(value))


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
    str(tuple[str, ...]): ("names separated by commas", _each(_only(str))),
    str(tuple[float, ...]): ("numbers such as 10,30", _each(_number)),
    str(tuple[int, ...]): ("whole numbers such as 0,1,2", _each(lambda part: int(str(part)))),
    str(Mapping[str, Any]): ("a table", lambda value: dict(_only(Mapping)(value))),
}
