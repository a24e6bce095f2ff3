"""What a measurement was made on; needs nothing that a machine with PyTorch does not have."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import numpy as np
import torch


def describe(device: torch.device) -> dict[str, object]:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return {
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
        "cpu": models[0] if models else platform.processor(),
        "cores": os.cpu_count(),
        "load before": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
    }
