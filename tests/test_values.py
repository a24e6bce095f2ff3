import pytest

from fedcore.errors import BadOption
from fedcore.values import at_least, convert, distinct, one_of


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
    [("3", int), (True, int), (True, float), (1, bool), (3, str), ("x", tuple[int, ...])],
)
def test_what_is_of_another_kind_is_refused(value, kind):
    with pytest.raises(BadOption, match="option must be"):
        convert("option", value, kind)


def test_checks_name_the_option_and_the_value():
    for check, value in ((at_least(2), 1), (one_of("a", "b"), "c"), (distinct, ("a", "a"))):
        with pytest.raises(BadOption, match=r"^name must"):
            check("name", value)
