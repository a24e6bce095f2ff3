import pytest

from fedcore.config import resolve
from fedcore.errors import BadOption
from fedcore.sim.fleet import fleet_of, read_speeds
from fedcore.sources.clients import ClientSizes
from fedcore.types import ClientProfile

SIZES = ClientSizes.of({3: 10, 7: 20})


def file_of(tmp_path, text):
    path = tmp_path / "own.csv"
    path.write_text(text)
    return str(path)


def test_lines_may_stand_in_any_order_and_links_be_empty(tmp_path):
    path = file_of(
        tmp_path, "client,samples_per_second,download,upload\n7, 2.5 ,1e6,\n3,40,,2000\n"
    )
    speeds, links = read_speeds(path, SIZES)
    assert speeds.tolist() == [40.0, 2.5]
    assert [link.tolist() for link in links] == [[float("inf"), 1e6], [2000.0, float("inf")]]


def test_a_fleet_of_ones_own_with_a_deadline_in_seconds(tmp_path):
    """10 samples at 40 a second, 20 at 2.5, 2 epochs: 0.5 and 16 seconds; one of two is late."""
    path = file_of(tmp_path, "client,samples_per_second\n3,40\n7,2.5\n")
    options = resolve({"speeds": path, "deadline": 10, "epochs": 2}, lambda name, preset: {})
    fleet = fleet_of(SIZES, options, 0.0, 0)
    assert dict(fleet.profiles) == {3: ClientProfile(10, 40.0), 7: ClientProfile(20, 2.5)}
    assert (fleet.deadline, fleet.stragglers) == (10.0, 50.0)


HEADER = "client,samples_per_second\n"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "must begin with client,samples_per_second,download,upload, got nothing"),
        ("client,speed\n3,1\n", "must begin with .*, got client,speed"),
        (HEADER + "3,1\n7,1,5\n", "line 3 of speeds .* must have 2 fields, got 3"),
        (HEADER + "3,1\n\n7,1\n", "line 3 of speeds .* must have 2 fields, got 0"),
        (HEADER + "3,fast\n", "line 2 of speeds .* must hold numbers: .*'fast'"),
        (HEADER + "x,1\n", "line 2 of speeds .* must hold numbers: .*'x'"),
        (HEADER + "3,0\n", "line 2 of speeds .* must hold numbers above 0, got 3,0"),
        (HEADER + "3,\n", "line 2 of speeds .* must hold numbers above 0, got 3,"),
        (HEADER + "3,nan\n", "line 2 of speeds .* must hold numbers above 0, got 3,nan"),
        (
            "client,samples_per_second,download,upload\n3,1,nan,1\n",
            "line 2 of speeds .* must hold numbers above 0",
        ),
        (
            "client,samples_per_second,download,upload\n3,1,5,-1\n",
            "line 2 of speeds .* must hold numbers above 0",
        ),
        (HEADER + "3,1\n3,2\n", "line 3 of speeds .* names client 3, who stands there twice"),
        (HEADER + "3,1\n8,2\n", "line 3 of speeds .* names client 8, who is not in the data"),
        (HEADER + "3,1\n", "has no line for client 7; add one"),
    ],
)
def test_each_thing_wrong_is_one_sentence_with_its_line(tmp_path, text, sentence):
    with pytest.raises(BadOption, match=sentence):
        read_speeds(file_of(tmp_path, text), SIZES)


def test_a_file_that_is_not_there_is_one_sentence(tmp_path):
    with pytest.raises(BadOption, match="cannot be read"):
        read_speeds(str(tmp_path / "none.csv"), SIZES)
    (tmp_path / "binary.csv").write_bytes(b"\xff\xfe")
    with pytest.raises(BadOption, match="cannot be read"):
        read_speeds(str(tmp_path / "binary.csv"), SIZES)
