"""The pointwise part of an LSTM step and its derivative, by hand.

With gates i, f, g, o (PyTorch's order) after their sigmoid or tanh, and cell state c:

    c' = f c + i g             h' = o tanh(c')
    dc' += dh' o (1 - tanh(c')²)
    di = dc' g i (1 - i)       df = dc' c f (1 - f)       dg = dc' i (1 - g²)
    do = dh' tanh(c') o (1 - o)                           dc = dc' f

On a GPU each direction is one launch of a kernel that PyTorch has for its own cells; the plain
form below is what it is tested against.
"""

from __future__ import annotations

import torch
from torch import Tensor


def cell_forward(input_gates: Tensor, hidden_gates: Tensor, c: Tensor) -> tuple[Tensor, ...]:
    """h', c' [n, H] and the gates after their functions [n, 4H], from gates [n, 4H] before."""
    if input_gates.is_cuda:
        fused = torch.ops.aten._thnn_fused_lstm_cell
        h, after, activated = fused(input_gates, hidden_gates, c, None, None)
        return h, after, activated
    activated = input_gates + hidden_gates
    i, f, g, o = activated.chunk(4, dim=1)
    i.sigmoid_(), f.sigmoid_(), g.tanh_(), o.sigmoid_()
    after = torch.addcmul(f * c, i, g)
    return o * after.tanh(), after, activated


def cell_backward(
    dh: Tensor, dc: Tensor, before: Tensor, after: Tensor, activated: Tensor
) -> tuple[Tensor, Tensor]:
    """d gates [n, 4H] and dc [n, H] of the state before, from those of the step's results."""
    if dh.is_cuda:
        fused = torch.ops.aten._thnn_fused_lstm_cell_backward_impl
        gates, earlier, _ = fused(dh, dc, before, after, activated, False)
        return gates, earlier
    i, f, g, o = activated.chunk(4, dim=1)
    squashed = after.tanh()
    dc = torch.addcmul(dc, dh * o, 1 - squashed * squashed)
    parts = (
        dc * g * i * (1 - i),
        dc * before * f * (1 - f),
        dc * i * (1 - g * g),
        dh * squashed * o * (1 - o),
    )
    return torch.cat(parts, dim=1), dc * f
