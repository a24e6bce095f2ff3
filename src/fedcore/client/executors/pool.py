"""The samples of a block of clients in one piece, on the device that trains them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from fedcore.arrays import check_alike
from fedcore.types import ClientData, ClientId


class Pool:
    """Rows of all clients one after another; they stay where they are when clients change.

    A captured step reads fixed addresses, so the buffers are kept from round to round and only
    grow; ``generation`` counts how often they had to.
    """

    def __init__(self, device: torch.device) -> None:
        """Begin without samples."""
        self.device = device
        self.generation = 0
        self.x = torch.empty(0)
        self.y = torch.empty(0, dtype=torch.int64)

    def fill(
        self, clients: Sequence[ClientData], ids: Sequence[ClientId] = ()
    ) -> list[tuple[int, ClientData]]:
        """Replace the content; gives each client's first row, and its samples as views.

        ``ids`` are for the sentence that refuses a client; left out, they are places.
        """
        parts = [client.take(slice(None)) for client in clients]
        names = [f"client {client}" for client in ids or range(len(parts))]
        # Copying would convert types without a word, and one column into many.
        for name, (x, _) in zip(names, parts, strict=True):
            check_alike(name, x, names[0], parts[0][0])
        total = sum(len(y) for _, y in parts)
        self._reserve(total, parts[0][0])
        placed, first = [], 0
        for x, y in parts:
            rows = slice(first, first + len(y))
            self.x[rows].copy_(x)
            self.y[rows].copy_(y)
            placed.append((first, ClientData(self.x[rows], self.y[rows])))
            first += len(y)
        return placed

    def _reserve(self, rows: int, example: Tensor) -> None:
        same = self.x.shape[1:] == example.shape[1:] and self.x.dtype == example.dtype
        if same and len(self.x) >= rows:
            return
        room = max(rows, 2 * len(self.x)) if same else rows
        shape = (room, *example.shape[1:])
        self.x = torch.zeros(shape, dtype=example.dtype, device=self.device)
        self.y = torch.zeros(room, dtype=torch.int64, device=self.device)
        self.generation += 1
