from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import torch

from fedcore import values
from fedcore.errors import BadOption
from fedcore.values import (
    LARGEST_LEGACY_SEED,
    LARGEST_SEED,
    at_least,
    convert,
    distinct,
    one_of,
    read_pairs,
    seeds,
    time_limit,
    whole_number,
)


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        (3, int, 3),
        (3, float, 3.0),
        ("a", str, "a"),
        (True, bool, True),
        ("a, b", tuple[str, ...], ("a", "b")),
        ("10,30", tuple[float, ...], (10.0, 30.0)),
        (30, tuple[float, ...], (30.0,)),
        ([1, 2], tuple[int, ...], (1, 2)),
    ],
)
def test_values_become_their_type(value, kind, expected):
    assert convert("option", value, kind) == expected


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("3", int),
        (True, int),
        (True, float),
        (1, bool),
        (3, str),
        ("x", tuple[int, ...]),
        ([1], tuple[str, ...]),
        ("１０", tuple[int, ...]),
        ("10,٣", tuple[float, ...]),
        (["a", ""], tuple[str, ...]),
    ],
)
def test_what_is_of_another_kind_is_refused(value, kind):
    with pytest.raises(BadOption, match="option must be"):
        convert("option", value, kind)


def test_checks_name_the_option_and_the_value():
    for check, value in ((at_least(2), 1), (one_of("a", "b"), "c"), (distinct, ("a", "a"))):
        with pytest.raises(BadOption, match=r"^name must"):
            check("name", value)


def test_a_bad_part_of_a_list_is_named_and_not_the_list():
    with pytest.raises(BadOption, match=r"^option must be numbers such as 10,30, got 'abc'$"):
        convert("option", "10,abc", tuple[float, ...])


@pytest.mark.parametrize("kind", [tuple[str, ...], tuple[float, ...], tuple[int, ...]])
@pytest.mark.parametrize("text", ["1,,2", "1,2,", ",1", ","])
def test_an_empty_part_of_a_list_is_a_slip(kind, text):
    with pytest.raises(BadOption, match=f"option must be .*, got an empty part in '{text}'"):
        convert("option", text, kind)


@pytest.mark.parametrize("value", [-0.0, np.float32(-0.0)])
def test_minus_nothing_is_nothing(value):
    assert str(convert("option", value, float)) == "0.0"
    assert str(convert("option", value, tuple[float, ...])) == "(0.0,)"
    assert str(convert("option", {"a": -0.0}, Mapping[str, Any])) == "{'a': 0.0}"


def test_numbers_of_numpy_are_numbers():
    assert convert("option", np.int64(3), int) == 3
    assert whole_number("option", np.uint8(3), 1) == 3
    assert convert("option", [np.float32(0.5)], tuple[float, ...]) == (0.5,)
    with pytest.raises(BadOption, match="a whole number"):
        convert("option", np.bool_(True), int)


def test_no_end_is_no_limit():
    assert time_limit("seconds", float("inf")) is None
    assert time_limit("seconds", np.float32(2)) == 2.0


def test_pairs_are_numbers_where_they_look_like_numbers():
    texts = ["a=1", "b=0.5", "c=x", "d=-0.0", "e=１", "f=1=2"]
    expected = {"a": 1, "b": 0.5, "c": "x", "d": 0.0, "e": "１", "f": "1=2"}
    assert str(read_pairs("data", texts)) == str(expected)


@pytest.mark.parametrize("text", ["a", "a=", "=1", " =1", "a= ", ""])
def test_a_pair_has_a_key_and_a_value(text):
    with pytest.raises(BadOption, match="data must look like KEY=VALUE"):
        read_pairs("data", [text])


def test_the_last_of_a_key_wins_as_on_every_command_line():
    assert read_pairs("data", ["a=1", "a=2"]) == {"a": 2}


def test_a_number_may_have_a_largest():
    at_least(0, 5)("name", 5)
    with pytest.raises(BadOption, match="name must be at most 5, got 6"):
        at_least(0, 5)("name", 6)


def test_a_seed_is_one_that_generators_take():
    seeds("seed", (0, LARGEST_SEED))
    torch.Generator().manual_seed(LARGEST_SEED)
    np.random.RandomState(LARGEST_LEGACY_SEED)
    with pytest.raises(BadOption, match="seed must be at most"):
        seeds("seed", (LARGEST_SEED + 1,))


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (
            lambda: values.whole_number("budget", -(10**5000), 1),
            "at least 1, got one of 16610 bits",
        ),
        (lambda: values.whole_number("rounds", 10**5000, 1, 9), "at most 9, got one of 16610 bits"),
        (lambda: values.convert("rate", 10**5000, float), "a number, got one of 16610 bits"),
        (lambda: values.read_option("rounds", "9" * 5000, int), "a whole number, got '9{60}'..."),
    ],
)
def test_numbers_that_are_too_long_to_be_spelled(ask, words):
    with pytest.raises(BadOption, match=words):
        ask()
