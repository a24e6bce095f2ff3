"""Hugging Face data, hf:NAME or hf:FOLDER, dealt out as ``fedcore.partition`` does.

``inputs``, ``labels`` and, for ``how=by``, ``owners`` are columns. Pictures become numbers from 0
to 1, channels first; texts ``length`` symbols of ``shakespeare``; classes by name numbers.
"""

from typing import Any

import numpy as np

from fedcore.datasets.shakespeare import padded
from fedcore.errors import blaming
from fedcore.sources.files import DataDir
from fedcore.sources.partitions import partitioned
from fedcore.values import one_of

BENCHMARKS = ("hf:NAME",)
HYPERPARAMETERS = {"model": "logistic", "learning_rate": 0.03}  # a start for data nobody knows


def parse(suffix: str) -> dict[str, Any]:
    """The name behind ``hf:``."""
    return {"name": suffix}


def samples(
    name: str = "", inputs: str = "", labels: str = "", owners: str = "", train: str = "train",
    test: str = "test", length: int = 140, data_dir: DataDir = None,
) -> Any:  # fmt: skip
    """Both splits in memory; without one called ``test``, a share of the other is held out."""
    hint = "; check the name, and install FedCore with its extra 'data'"
    with blaming(f"loading hf:{name}", hint):
        import datasets

        splits = datasets.load_dataset(name, cache_dir=data_dir and str(data_dir))
    one_of(*splits)("train", train)
    one_of(*dict.fromkeys((*splits, "test")))("test", test)
    columns = {"inputs": inputs, "labels": labels, **({"owners": owners} if owners else {})}
    parts = []
    for split in (splits[one] for one in (train, test) if one in [*splits]):
        for option, column in columns.items():
            one_of(*split.column_names)(f"{option} (a column)", column)
        table = split.select_columns(list({*columns.values()})).with_format("numpy")[:]
        x, y, *owner = (table[column] for column in columns.values())
        if x.dtype.kind == "U":
            x = padded(x, length)
        elif x.dtype == np.uint8:
            x = (x[:, None] if x.ndim == 3 else np.moveaxis(x, -1, 1)).astype(np.float32) / 255
        parts.append((x, y, *owner))
    if parts[0][1].dtype.kind == "U":
        known = np.unique(np.concatenate([part[1] for part in parts]))
        parts = [(x, np.searchsorted(known, y), *owner) for x, y, *owner in parts]
    return parts[0], parts[1][:2] if len(parts) > 1 else None


load = partitioned(samples)
