"""What a measurement was made on."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version
from pathlib import Path


def describe() -> dict[str, object]:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    packages = ("numpy", "torch", "numba", "kmedoids", "scikit-learn")
    return {
        "cpu": models[0] if models else platform.processor(),
        "cores": os.cpu_count(),
        "threads": 1,
        "system": platform.system(),
        "python": platform.python_version(),
        **{name: version(name) for name in packages},
    }
