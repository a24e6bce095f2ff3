"""One wave at a time: what ``fused_lstm`` puts together."""

import pytest
import torch

pytest.importorskip("triton", reason="Triton is not installed (no wheel for this system)")
kernel = pytest.importorskip("fedcore.models.char_lstm.kernel")

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
CLIENTS, LENGTH, BATCH, UNITS = 1, 2, 3, 16


def a_wave(number, *, scale):
    draw = torch.Generator().manual_seed(0)
    gates = torch.randn(1, CLIENTS, LENGTH, BATCH, 4 * UNITS, generator=draw).mul(scale).to(DEVICE)
    states = torch.randn(1, CLIENTS, LENGTH + 1, BATCH, UNITS, generator=draw).to(DEVICE)
    cells = torch.randn(1, CLIENTS, LENGTH + 1, BATCH, UNITS, generator=draw).to(DEVICE)
    weight = torch.randn(1, CLIENTS, 4 * UNITS, UNITS, generator=draw).to(DEVICE)
    before = [gates.clone(), states.clone(), cells.clone()]
    kernel.forward_wave[(CLIENTS, UNITS // 8, 1)](
        gates, states, cells, weight, weight, number, LENGTH, BATCH,
        H=UNITS, ROWS=16, UNITS=8, DEPTH=16, HOW="tf32x3",
    )  # fmt: skip
    return before, [gates, states, cells], weight


@pytest.mark.parametrize("scale", [0.1, 1.0, 100.0])  # up to where functions saturate
def test_a_wave_is_one_cell_step(scale):
    before, after, weight = a_wave(1, scale=scale)
    recurrent = before[1][0, 0, 1] @ weight[0, 0].T
    i, f, g, o = (before[0][0, 0, 1] + recurrent).chunk(4, dim=1)
    activated = [i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()]
    c = activated[1] * before[2][0, 0, 1] + activated[0] * activated[2]
    h = activated[3] * c.tanh()
    assert torch.allclose(after[0][0, 0, 1], torch.cat(activated, dim=1), atol=2e-6)
    assert torch.allclose(after[1][0, 0, 2], h, atol=2e-6)
    assert torch.allclose(after[2][0, 0, 2], c, atol=2e-6)


@pytest.mark.parametrize("number", [-1, LENGTH])
def test_a_wave_before_the_start_or_after_the_end_changes_nothing(number):
    before, after, _ = a_wave(number, scale=1.0)
    assert all(torch.equal(one, other) for one, other in zip(before, after, strict=True))
