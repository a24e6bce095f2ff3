"""The Complete Works of Shakespeare, cut into what each role says.

The rules are those of LEAF (Caldas et al. 2018), which FedProx and the paper use. They are kept
as they are, odd ones too, because the published numbers depend on them:

1. The text starts 5 lines above the second line with the author's name and stops at line 124,195.
2. A line with the author's name opens a play; its title is the nearest non-empty line 2 to 7
   above. Few plays of this edition carry that line, so several run together under one title, and
   same-named roles of different plays merge: Othello is ``MUCH_ADO_ABOUT_NOTHING_OTHELLO``.
3. Two blanks, a name, a full stop, a blank: a speech begins. Four blanks: it goes on. All else
   is dropped.
4. Plays with fewer than 2 names go, then names with 2 lines or fewer.
5. A role's lines are each followed by a blank, runs of blanks become one, and roles of 80
   characters or fewer go: they have no window with a next character.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from fedcore.errors import BadData

WINDOW = 80
_AUTHOR = "by William Shakespeare"
_LAST_LINE = 124_195
_ERRORS = "THE COMEDY OF ERRORS"  # printed without indentation where it has this title

_SPEECH = re.compile(r"  ([a-zA-Z][a-zA-Z ]*)\. (.*)")
_MORE = re.compile(r"    (.*)")
_FLAT_SPEECH = re.compile(r"([a-zA-Z][a-zA-Z ]*)\. (.*)")
_FLAT_MORE = re.compile(r"(.*)")

Play = dict[str, list[str]]  # lines by name


def roles_of(text: str) -> dict[str, str]:
    """What each role of the eBook says, by role name, in the order of plays and names."""
    roles: dict[str, str] = {}
    for title, play in _plays(_body(text.splitlines()[1:])):
        if len(play) < 2:
            continue
        for name, lines in sorted(play.items()):
            # Every line is followed by a blank, the last one too: so it is in LEAF's files.
            speech = re.sub(" +", " ", "".join(f"{line} " for line in lines))
            if len(lines) > 2 and len(speech) > WINDOW:
                roles[_role_name(title, name)] = speech
    return roles


def _body(lines: Sequence[str]) -> Sequence[str]:
    """Rule 1; the first line with the author's name belongs to the title page."""
    named = [number for number, line in enumerate(lines) if _AUTHOR in line]
    if len(named) < 2:
        raise BadData(
            f"the Shakespeare text names its author in {len(named)} lines, fewer than 2; "
            "it is another edition: fetch it with 'fedcore data fetch shakespeare'"
        )
    return lines[max(named[1] - 5, 0) : _LAST_LINE]


def _plays(lines: Sequence[str]) -> Iterable[tuple[str, Play]]:
    """Rules 2 and 3."""
    plays: list[tuple[str, Play]] = []
    speaker = ""
    for number, line in enumerate(lines):
        if _AUTHOR in line:
            plays.append((_title(lines, number), {}))
            speaker = ""
        elif plays:
            title, play = plays[-1]
            speaker = _read_line(line, play, speaker, flat=title == _ERRORS)
    return plays


def _title(lines: Sequence[str], number: int) -> str:
    above = (lines[number - offset].strip() for offset in range(2, 8) if number >= offset)
    return next((line for line in above if line), "UNTITLED")


def _read_line(line: str, play: Play, speaker: str, *, flat: bool) -> str:
    """Add a line to whoever speaks it; returns who speaks after it."""
    speech, more = (_FLAT_SPEECH, _FLAT_MORE) if flat else (_SPEECH, _MORE)
    if opening := speech.match(line):
        name = opening[1].upper()
        if flat and name.startswith("ACT "):
            return ""
        play.setdefault(name, []).append(opening[2])
        return name
    if flat and line.startswith("<"):
        return ""
    if speaker and (continued := more.match(line)):
        play[speaker].append(continued[1])
    return speaker


def _role_name(title: str, name: str) -> str:
    return re.sub(r"\W", "_", f"{title}_{name}")
