import pytest

from fedcore.seeding import stream


def draw(*path: str | int, seed: int = 0) -> list[int]:
    return stream(seed, *path).integers(1 << 62, size=4).tolist()


def test_the_same_name_gives_the_same_stream():
    assert draw("shuffle", 3, 7) == draw("shuffle", 3, 7)


@pytest.mark.parametrize("other", [("shuffle", 3, 8), ("shuffle", 37), ("cohort", 3, 7)])
def test_another_name_gives_another_stream(other):
    assert draw("shuffle", 3, 7) != draw(*other)


def test_a_number_and_its_text_are_different_names():
    assert draw("shuffle", 3) != draw("shuffle", "3")


def test_another_seed_gives_another_stream():
    assert draw("shuffle", 3, seed=0) != draw("shuffle", 3, seed=1)
