"""Text as numbers: the 90 symbols of McMahan et al. 2017 in their public implementation.

They are 86 characters and four marks: padding is 0, the characters follow in the order of their
code points, then come begin, end, and one symbol for every other character. Windows of plain
text never hold begin or end, but they count: the model has 90 outputs. All characters of the 563
roles of Shakespeare have a symbol of their own but one, a ``}`` that occurs twice.
"""

from __future__ import annotations

import string

import numpy as np
import torch
from torch import Tensor

CHARACTERS = "".join(sorted(f"\n\r !\"#$%&'()*,-./:;?@[]_{string.digits}{string.ascii_letters}"))
UNKNOWN, SIZE = 89, 90
_TABLE = np.full(128, UNKNOWN, dtype=np.uint8)
_TABLE[[ord(character) for character in CHARACTERS]] = np.arange(1, len(CHARACTERS) + 1)


def encode(text: str) -> Tensor:
    """The symbols of a text, a byte each."""
    # Whatever is not ASCII becomes code point 127, which has no symbol of its own.
    points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")
    return torch.from_numpy(_TABLE[np.minimum(points, 127)])


def windows(symbols: Tensor, length: int) -> tuple[Tensor, Tensor]:
    """All windows [n - length, length] of a text and the symbol after each; x is only a view."""
    return symbols[:-1].unfold(0, length, 1), symbols[length:].long()
