import gzip
import json

from fedcore.datasets import shakespeare
from fedcore.datasets.shakespeare import roles_of
from fedcore.sources import files as _files

LONG = "To be, or not to be, that is the question, whether it is nobler in the mind"


def book(*plays: str) -> str:
    """A title page that names the author once, then plays that name him each."""
    page = ["dropped", "The Complete Works", "", "by William Shakespeare", "", "", "", "", ""]
    return "\r\n".join([*page, *"\n".join(plays).split("\n")])


def play(title: str, body: str) -> str:
    return f"{title}\n\nby William Shakespeare\n\n{body}\n"


SPEECHES = f"""\
  HAMLET. {LONG}
    to   suffer.
  Ghost. Mark me, {LONG}
    and again
    and again.
    [A stage direction goes on like speech does]
  HAMLET. I will.
Not indented: dropped.
   Three blanks: dropped.
  NOT A NAME: dropped
  A1. dropped
"""


def test_speeches_are_collected_by_upper_cased_name():
    roles = roles_of(book(play("HAMLET", SPEECHES)))
    assert list(roles) == ["HAMLET_GHOST", "HAMLET_HAMLET"]
    assert roles["HAMLET_HAMLET"] == f"{LONG} to suffer. I will. "
    assert roles["HAMLET_GHOST"].endswith("again. [A stage direction goes on like speech does] ")


def test_a_title_is_the_nearest_line_above_and_punctuation_becomes_lines():
    far = "IGNORED\nTHE TEMPEST, A PLAY\n\n\n\n\n\n\nby William Shakespeare\n" + SPEECHES
    roles = list(roles_of(book(play("HAMLET", ""), far)))
    assert roles == ["THE_TEMPEST__A_PLAY_GHOST", "THE_TEMPEST__A_PLAY_HAMLET"]


def test_a_play_without_a_title_nearby_still_counts():
    text = book("FAR ABOVE" + "\n" * 9 + "by William Shakespeare\n" + SPEECHES)
    assert list(roles_of(text)) == ["UNTITLED_GHOST", "UNTITLED_HAMLET"]


def test_a_new_play_ends_the_speech_and_the_names():
    again = play("OTHELLO", "    Nobody speaks this.\n" + SPEECHES)
    roles = roles_of(book(play("HAMLET", SPEECHES), again))
    assert len(roles) == 4
    assert not any("Nobody" in text for text in roles.values())


def test_plays_of_one_name_and_names_of_two_lines_and_short_roles_go():
    alone = f"  HAMLET. {LONG}\n    a\n    b\n"
    assert roles_of(book(play("ALONE", alone))) == {}
    two_lines = f"  IAGO. {LONG}{LONG}\n    a\n"
    short = "  BIANCA. a\n    b\n    c\n"
    roles = roles_of(book(play("HAMLET", SPEECHES + two_lines + short)))
    assert list(roles) == ["HAMLET_GHOST", "HAMLET_HAMLET"]


def test_a_role_needs_81_characters():
    for length, kept in ((80, False), (81, True)):
        body = f"  IAGO. {'a' * (length - 5)}\n    b\n    c\n"  # each line and a blank after it
        assert ("HAMLET_IAGO" in roles_of(book(play("HAMLET", SPEECHES + body)))) is kept


def test_the_comedy_of_errors_is_read_without_indentation():
    body = f"""\
ACT I. SCENE 1
nobody speaks
DROMIO. {LONG}
and on
and on
<a note ends the speech>
nobody speaks
AEGEON. {LONG}
a
bc def
"""
    roles = roles_of(book(play("THE COMEDY OF ERRORS", body)))
    assert roles["THE_COMEDY_OF_ERRORS_DROMIO"] == f"{LONG} and on and on "
    assert sorted(roles) == ["THE_COMEDY_OF_ERRORS_AEGEON", "THE_COMEDY_OF_ERRORS_DROMIO"]


def test_the_real_text_gives_the_563_roles_of_leaf(real_data):
    directory = real_data("shakespeare")
    text = _files.read(shakespeare.SOURCE, shakespeare.TEXT, directory).decode()
    roles = roles_of(text)
    with gzip.open(directory / "shakespeare" / "roles-563.json.gz") as file:
        expected = json.load(file)["roles"]
    assert roles == expected
    assert len(roles) == 563
    assert sum(len(text) - 80 for text in roles.values()) == 2_140_051
