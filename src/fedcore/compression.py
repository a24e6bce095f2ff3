"""Moves of clients in fewer bytes, on request: the largest coordinates alone, 8 bits each, or both.

A client keeps what it has not sent, e, so that nothing is lost for good. Of its move w_i - w:

    u = w_i - w + e        it sends C(u)        e ← u - C(u), so that Σ C(u) + e = Σ (w_i - w)

Top-k sends the ⌈f d⌉ of d coordinates that are largest in |u_j|; 8 bits are round(u_j / s) with
s = max |u_j| / 127 over each ``BLOCK`` of what is sent. Models travel to clients whole.

Source: Stich et al., Sparsified SGD with Memory, NeurIPS 2018.
"""

import functools
import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from fedcore.errors import BadOption
from fedcore.types import Params
from fedcore.values import read_option

BLOCK = 1024  # values that share a scale


class Packed(NamedTuple):
    """C(u) as it travels."""

    indices: Tensor  # int32 [k], ascending; [0] where all are sent
    values: Tensor  # [k], float32 or int8
    scales: Tensor  # float32, of each block of values; [0] where they are sent as they are


@dataclass(frozen=True, slots=True)
class Compression:
    """C: a share f of the coordinates, in 32 bits each or in 8."""

    share: float = 1.0
    eight_bits: bool = False

    def pack(self, moves: Tensor) -> Packed:
        """C(u) of moves [d]."""
        values, chosen = moves.float(), torch.empty(0)
        if self.share < 1:
            chosen = values.abs().topk(math.ceil(self.share * len(values))).indices.sort().values
            values = values[chosen]
        if not self.eight_bits:
            return Packed(chosen.int(), values, values[:0])
        blocks = torch.nn.functional.pad(values, (0, -len(values) % BLOCK)).reshape(-1, BLOCK)
        scales = blocks.abs().amax(1) / 127
        whole = (blocks / scales.where(scales != 0, 1.0)[:, None]).round().to(torch.int8)
        return Packed(chosen.int(), whole.reshape(-1)[: len(values)], scales)

    def unpack(self, packed: Packed, size: int) -> Tensor:
        """C(u) as moves [d] again."""
        values = packed.values.float()
        if self.eight_bits:
            values = values * packed.scales.repeat_interleave(BLOCK)[: len(values)]
        if self.share == 1:
            return values
        return values.new_zeros(size).index_copy(0, packed.indices.long(), values)

    def send(self, params: Params, base: Params, kept: Tensor | None) -> tuple[Packed, Tensor]:
        """C(u) for w_i in ``params``, and the new e; where u is not finite, e stays."""
        moves = torch.cat([(params[name] - base[name]).reshape(-1).float() for name in base])
        kept = torch.zeros_like(moves) if kept is None else kept.to(moves.device)
        packed = self.pack(moves + kept)
        rest = moves + kept - self.unpack(packed, len(moves))
        return packed, (rest if bool(torch.isfinite(rest).all()) else kept).cpu()

    def receive(self, packed: Packed, base: Params) -> Params:
        """The model w + C(u) that a server makes of an answer."""
        sizes = [value.numel() for value in base.values()]
        named = zip(base.items(), torch.split(self.unpack(packed, sum(sizes)), sizes), strict=True)
        return {name: value + own.reshape(value.shape).to(value) for (name, value), own in named}


def read(name: str, text: str) -> Compression | None:
    """What ``topk:0.01``, ``8bit`` or ``topk:0.01+8bit`` asks for; None for ``none``."""
    parts = text.split("+")
    shares = [part.removeprefix("topk:") for part in parts if part.startswith("topk:")]
    share = read_option(name, shares[0], float) if shares else 1.0
    known = len(shares) < 2 and len(shares) + ("8bit" in parts) == len(parts)
    if text != "none" and not (known and 0 < share <= 1):
        forms = "none, 8bit, topk:SHARE or topk:SHARE+8bit, with 0 < SHARE <= 1"
        raise BadOption(f"{name} must be {forms}, got {text!r}")
    return None if text == "none" else Compression(share, "8bit" in parts)


@functools.cache
def upward_share(text: str, model_bytes: int) -> float:
    """Bytes of an answer, in those of its float32 model."""
    how, size = read("compress", text), model_bytes // 4
    sent = () if how is None else how.pack(torch.zeros(size))
    return sum(part.nbytes for part in sent) / (4 * size) if sent and size else 1.0
