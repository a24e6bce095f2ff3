"""The tuning of the LSTM's kernels: every setting can be asked for, and computes."""

import pytest
import torch
from benchmarks.simulator import waves

pytest.importorskip("triton", reason="Triton is not installed (no wheel for this system)")


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_a_setting_is_a_run_of_all_waves(direction, monkeypatch):
    monkeypatch.setattr(waves, "LENGTH", 1)
    monkeypatch.setattr(waves, "UNITS", 128)
    waves.waves(direction, 1, next(waves.settings(direction)))()


def test_without_a_gpu_it_says_so(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SystemExit, match="needs a GPU"):
        waves.main()
