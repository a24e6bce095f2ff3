import numpy as np
import pytest
import torch

from fedcore.errors import BadOption
from fedcore.values import (
    LARGEST_LEGACY_SEED,
    LARGEST_SEED,
    at_least,
    convert,
    distinct,
    one_of,
    seeds,
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
