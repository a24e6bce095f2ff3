"""Values of options: what they may be, and how text or TOML becomes one."""

import math
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import field
from typing import Any, get_origin

import numpy as np

from fedcore.errors import BadOption

Check = Callable[[str, Any], object]

MANY = 1_000_000  # rounds, epochs, ... beyond which a number is taken for a slip of the hand
LARGEST_SEED = 2**63 - 1  # that torch's and NumPy's generators both take
LARGEST_LEGACY_SEED = 2**32 - 1  # that NumPy's legacy generator takes, which makes the datasets


def option(panel: str, default: Any, text: str, check: Check | None = None) -> Any:
    """A field of a dataclass of options: its help, under which title, and what it may be."""
    return field(default=default, metadata={"help": text, "panel": panel, "check": check})


def must_be(what: str, holds: Callable[[Any], bool], hint: str = "") -> Check:
    """A check that says what a value must be where it does not hold, and a hint what to do."""

    def check(name: str, value: Any) -> None:
        if not holds(value):
            got = f"{value:g}{hint}" if hint else _shown(value)
            raise BadOption(f"{name} must be {what}, got {got}")

    return check


def at_least(least: float, most: float = math.inf) -> Check:
    """A check for numbers of at least ``least``, and of at most ``most``."""
    low = must_be(f"at least {least:g}", lambda number: least <= number < math.inf)
    high = must_be(f"at most {most:,}", lambda number: number <= most)

    def check(name: str, value: Any) -> None:
        low(name, value)
        high(name, value)

    return check


def one_of(*choices: str) -> Check:
    """A check for names out of a list."""
    what = f"one of {', '.join(choices)}"
    check = must_be(what, lambda name: isinstance(name, str) and name in choices)
    check.choices = choices  # type: ignore[attr-defined]
    return check


def each(check: Check, *, empty: bool = False) -> Check:
    """A check for every part of a list that names nothing twice, and is ``empty`` if it may be."""

    def check_all(name: str, value: Any) -> None:
        for part in value:
            check(name, part)
        if not (value or empty):
            raise BadOption(f"{name} must name at least one, got none")
        if len(set(value)) != len(value):
            raise BadOption(f"{name} must not name anything twice, got {','.join(map(str, value))}")

    return check_all


above_zero = must_be("above 0", lambda value: math.isfinite(value) and value > 0)
below_one = must_be("at least 0 and below 1", lambda value: 0 <= value < 1)
distinct = each(lambda name, part: None)
seeds = each(at_least(0, LARGEST_SEED))
_share, _percentage = "accuracies above 0 and at most 1", "percentages above 0 and below 100"
accuracies = each(must_be(_share, lambda x: 0 < x <= 1, "; 80 % is written 0.8"), empty=True)
percentages = each(must_be(_percentage, lambda x: 0 < x < 100, "; 10 and 30 are the paper's"))


def whole_number(name: str, value: Any, least: int, most: float = math.inf) -> int:
    """``value``, if it is a whole number of at least ``least``; a truth value is none."""
    number: int = convert(name, value, int)
    at_least(least, most)(name, number)
    return number


def number_of(name: str, value: Any, count: int) -> int:
    """How many of ``count`` a whole number asks for, or a share strictly between 0 and 1."""
    if isinstance(value, float | np.floating) and 0 < value < 1:
        return max(1, round(value * count))
    return whole_number(name, value, 1)


def time_limit(name: str, value: Any) -> float | None:
    """``value``, if it is a number of at least 0; without end is no limit, and so is None."""
    if value is None or value == math.inf:
        return None
    seconds: float = convert(name, value, float)
    at_least(0)(name, seconds)
    return seconds


def read_number(text: str, kind: type[int] | type[float]) -> Any:
    """The number that ``text`` spells, in the digits 0 to 9; -0 is 0, and none a ValueError."""
    if not text.isascii():  # int() and float() also read the digits of other scripts
        raise ValueError(text)
    return kind(text) + 0


def read_option(name: str, text: str, kind: type[int] | type[float]) -> Any:
    """The same for an option called ``name``, whose refusal is a sentence."""
    try:
        return read_number(text, kind)
    except ValueError:
        return convert(name, text, kind)  # which refuses text


def read_pairs(name: str, texts: Iterable[str]) -> dict[str, int | float | str]:
    """Options from texts like ``clients=100``, numbers where they look so; the last one wins."""
    options: dict[str, int | float | str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not (key.strip() and equals and value.strip()):
            raise BadOption(f"{name} must look like KEY=VALUE, got {text!r}")
        options[key] = value
        for kind in (float, int):
            with suppress(ValueError):
                options[key] = read_number(value, kind)
    return options


def convert(name: str, value: Any, kind: Any) -> Any:
    """Bring ``value`` to the type ``kind``; numbers are read out of the text of lists alone."""
    if kind == float | str:
        with suppress(ValueError, AttributeError):
            value = read_number(value, float)
        kind = str if isinstance(value, str) else float
    expected, single = _KINDS[str(kind)]
    listed = get_origin(kind) is tuple
    part, found = value, []
    try:
        if not listed:
            return _only(single, value)
        parts = value if isinstance(value, list | tuple) else [value]
        if isinstance(value, str):
            parts = [text.strip() for text in value.split(",")] if value.strip() else []
        for part in parts:
            if isinstance(part, str) and not part:
                raise ValueError
            spelled = isinstance(part, str) and single is not str
            found.append(read_number(part, single) if spelled else _only(single, part))
        return tuple(found)
    except (TypeError, ValueError, OverflowError):
        empty = listed and isinstance(part, str) and not part
        shown = f"an empty part in {value!r}" if empty else _shown(part)
        raise BadOption(f"{name} must be {expected}, got {shown}") from None


def _shown(value: Any) -> str:
    """A value in a sentence; what is too long for one, or for Python to spell, in short."""
    if isinstance(value, int) and abs(value) > 1e99:
        return f"one of {value.bit_length()} bits"
    return f"{value[:60]!r}..." if isinstance(value, str) and len(value) > 99 else repr(value)


def _only(kind: Any, value: Any) -> Any:
    """``value``, if it is of a kind already, in Python or NumPy; a truth value is no number."""
    value = value.item() if isinstance(value, np.generic) else value
    fits: Any = (int, float) if kind is float else kind
    if not isinstance(value, fits) or (isinstance(value, bool) and kind is not bool):
        raise TypeError
    if kind is Mapping:
        entries = (v + 0.0 if isinstance(v, float) else v for v in value.values())
        return {_only(str, key): entry for key, entry in zip(value, entries, strict=True)}
    return float(value) + 0.0 if kind is float else value  # -0.0 becomes 0.0


_KINDS: dict[str, tuple[str, Any]] = {
    str(int): ("a whole number", int),
    str(float): ("a number", float),
    str(str): ("text", str),
    str(str | None): ("text", str),
    str(bool): ("true or false", bool),
    str(tuple[str, ...]): ("names separated by commas", str),
    str(tuple[float, ...]): ("numbers such as 10,30", float),
    str(tuple[int, ...]): ("whole numbers such as 0,1,2", int),
    str(Mapping[str, Any]): ("a table", Mapping),
}
