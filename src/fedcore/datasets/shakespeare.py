"""Shakespeare's roles as clients: guess the next character from the 80 before it.

McMahan et al. 2017; LEAF and FedProx; section 6.1 of the paper, whose Table 1 has 143 clients,
517,106 samples, mean 3,616, standard deviation 6,808. Sample i of a role is ``text[i:i+80]`` with
label ``text[i+80]``.

FedProx draws a fifth of all samples by taking whole roles, without a seed, so the paper's 143
roles are not known. Seed 89970 was **searched for** among 400,000 and gives the four numbers of
Table 1 (mean 3,616.13, standard deviation 6,807.69) with other roles.

The Complete Works are cut into what each role says by the rules of LEAF (Caldas et al. 2018). They
are kept as they are, odd ones too, because the published numbers depend on them:

1. The text starts 5 lines above the second line with the author's name and stops at line 124,195.
2. A line with the author's name opens a play; its title is the nearest non-empty line 2 to 7
   above. Few plays of this edition carry that line, so several run together under one title, and
   same-named roles of different plays merge: Othello is ``MUCH_ADO_ABOUT_NOTHING_OTHELLO``.
3. Two blanks, a name, a full stop, a blank: a speech begins. Four blanks: it goes on. All else
   is dropped.
4. Plays with fewer than 2 names go, then names with 2 lines or fewer.
5. A role's lines are each followed by a blank, runs of blanks become one, and roles of 80
   characters or fewer go: they have no window with a next character.

Characters become the 90 symbols of McMahan's public implementation: padding is 0, 86 characters
follow in the order of their code points, then begin and end, which no window holds, and one symbol
for every other, which in the 563 roles is a ``}`` that occurs twice.
"""

import re
import string
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from fedcore.errors import BadOption
from fedcore.sources.files import DataDir, DataFile, Source, read
from fedcore.types import ClientData, FederatedDataset
from fedcore.values import whole_number

PAPER = {"shakespeare": (143, 517_106, 3_616, 6_808)}
NOTE = "Seed 89970 was searched for; the numbers are the paper's, the roles are others."
SEED = 89_970
SAMPLES = 517_106
TRAIN_SHARE = 0.8

TEXT = "gutenberg-100-2018-06-14.txt"
_URL = "www.gutenberg.org/files/100/100-0.txt"
# Project Gutenberg replaces its files in place: an archive has that update.
_URLS = (f"https://web.archive.org/web/20180701000000id_/http://{_URL}", f"https://{_URL}")
_FILE = DataFile(TEXT, 5_852_404, "7e4a158c5e4db4dfdc86c920ef0318a5", _URLS)
SOURCE = Source("shakespeare", (_FILE,))

CHARACTERS = "".join(sorted(f"\n\r !\"#$%&'()*,-./:;?@[]_{string.digits}{string.ascii_letters}"))
OTHER, SYMBOLS = 89, 90
_TABLE = np.full(128, OTHER, dtype=np.uint8)
_TABLE[[ord(character) for character in CHARACTERS]] = np.arange(1, len(CHARACTERS) + 1)

WINDOW = 80
_AUTHOR = "by William Shakespeare"
_LAST_LINE = 124_195
_FLAT = "THE COMEDY OF ERRORS"  # printed without indentation where it has this title

_COMMON = {"model": "char-lstm", "batch_size": 8, "learning_rate": 0.03, "clients_per_round": 10}
_COMMON |= {"fedprox_mu": 0.001, "data_seed": SEED}
_COMMON["evaluate_samples"] = 20_000  # of 413,627 in training: all take minutes on a CPU
_HYPERPARAMETERS: dict[str, dict[str, Any]] = {
    "paper": {"rounds": 30, "epochs": 10},  # appendix B.1
    # Their repository has other numbers, and FedCore with a proximal term as well.
    "authors-code": {"rounds": 40, "epochs": 5, "prox_mu": 0.001},
}


def hyperparameters(preset: str) -> dict[str, Any]:
    """What a preset sets for Shakespeare."""
    return {**_COMMON, **_HYPERPARAMETERS[preset]}


def load(*, seed: int = SEED, data_dir: DataDir = None, samples: int = SAMPLES) -> FederatedDataset:
    """Windows of the roles drawn by ``seed``; a random int(0.8 n), at least one, of each train.

    Windows overlap: n characters make n - 80 samples, views on the text, of which ``rows`` train.
    ``samples`` is how many the drawn roles have together; 0 takes every role.
    """
    drawn = drawn_roles(seed, data_dir, samples).values()
    texts = [text for text in drawn if len(text) > WINDOW + 1]  # one to train on, one held out
    # One array for all roles, so that the pooled test set can be a view too.
    x, y = windows(torch.cat([encode(text) for text in texts]), WINDOW)
    clients: dict[int, ClientData] = {}
    held_out: list[Tensor] = []
    start = 0
    for text in texts:
        count = len(text) - WINDOW
        order = np.random.RandomState([seed, len(clients)]).permutation(count)
        cut = max(int(TRAIN_SHARE * count), 1)
        own = slice(start, start + count)
        clients[len(clients)] = ClientData(x[own], y[own], torch.from_numpy(order[:cut]))
        held_out.append(torch.from_numpy(order[cut:]) + start)
        start += len(text)
    sizes = [len(text) - WINDOW for text in texts]
    return FederatedDataset(clients, ClientData(x, y, torch.cat(held_out)), SYMBOLS, sizes)


def encode(text: str) -> Tensor:
    """The symbols of a text, a byte each."""
    # Whatever is not ASCII becomes code point 127, which has no symbol of its own.
    points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")
    return torch.from_numpy(_TABLE[np.minimum(points, 127)])


def padded(texts: Sequence[str], length: int) -> Tensor:
    """Symbols [n, length] of the beginnings of texts; padding stands in front of short ones."""
    whole_number("length", length, 1, 1_000_000)
    rows = [encode(str(text)[:length]) for text in texts]
    return torch.stack([functional.pad(row, (length - len(row), 0)) for row in rows])


def windows(symbols: Tensor, length: int) -> tuple[Tensor, Tensor]:
    """All windows [n - length, length] of a text and the symbol after each; x is only a view."""
    return symbols[:-1].unfold(0, length, 1), symbols[length:].long()


def drawn_roles(seed: int, data_dir: DataDir, samples: int) -> dict[str, str]:
    """Whole roles in random order until they have ``samples`` samples; the last is cut short."""
    if whole_number("samples", samples, 0) == 1:
        raise BadOption(f"samples must be at least 2, or 0 for all, got 1; the paper has {SAMPLES}")
    roles = roles_of(read(SOURCE, TEXT, data_dir).decode("utf-8"))
    names = sorted(roles)
    chosen: dict[str, str] = {}
    left = samples or sum(map(len, roles.values()))
    # The legacy generator, because the seed was searched for with it.
    for place in np.random.RandomState(seed).permutation(len(names)):
        if left <= 0:
            break
        text = roles[names[place]][: left + WINDOW]
        chosen[names[place]] = text
        left -= len(text) - WINDOW
    return chosen


def roles_of(text: str) -> dict[str, str]:
    """What each role of the eBook says, by role name, in the order of plays and names."""
    lines = text.splitlines()[1:]
    named = [number for number, line in enumerate(lines) if _AUTHOR in line]
    roles: dict[str, str] = {}
    for title, play in _plays(lines[max(named[1] - 5, 0) : _LAST_LINE]):
        for name, spoken in sorted(play.items()) if len(play) > 1 else ():
            # Every line is followed by a blank, the last one too: so it is in LEAF's files.
            speech = re.sub(" +", " ", "".join(f"{line} " for line in spoken))
            if len(spoken) > 2 and len(speech) > WINDOW:
                roles[re.sub(r"\W", "_", f"{title}_{name}")] = speech
    return roles


def _plays(lines: Sequence[str]) -> list[tuple[str, dict[str, list[str]]]]:
    """Titles, and lines by who speaks them (rules 2 and 3)."""
    plays: list[tuple[str, dict[str, list[str]]]] = []
    speaker = ""
    for number, line in enumerate(lines):
        if _AUTHOR in line:
            above = (lines[number - offset].strip() for offset in range(2, 8) if number >= offset)
            plays.append((next(filter(None, above), "UNTITLED"), {}))
            speaker = ""
        elif plays:
            title, play = plays[-1]
            flat = title == _FLAT
            opening = re.match(rf"{'' if flat else '  '}([a-zA-Z][a-zA-Z ]*)\. (.*)", line)
            if flat and (line.startswith("<") or (opening and line.upper().startswith("ACT "))):
                speaker = ""
            elif opening:
                speaker = opening[1].upper()
                play.setdefault(speaker, []).append(opening[2])
            elif speaker and (flat or line.startswith("    ")):
                play[speaker].append(line if flat else line[4:])
    return plays
