"""``make study-moving``: what it costs that first-epoch gradients are taken at moving parameters.

A client's coreset is chosen from residuals collected while its first epoch trains (free), or from
an exact pass at the end of that epoch (a third of an epoch more). Both are judged by the gradient
error of the whole model at the end of the epoch, where the coreset is used.
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.coreset.machine import describe
from benchmarks.selectors.settings import BATCH, Setting, settings
from fedcore.client.job import full_gradient_error
from fedcore.client.schedule import Samples, schedule
from fedcore.client.step import Batch, StepRule, step
from fedcore.coreset.build import build_coreset
from fedcore.coreset.candidates import Candidates
from fedcore.coreset.proxies import HeadGradients, head_gradients, space_of
from fedcore.seeding import stream
from fedcore.types import Params

RESULT = Path(__file__).parents[1] / "results" / "moving.json"
SEEDS = (0, 1, 2)


def first_epoch(setting: Setting, seed: int) -> tuple[Params, HeadGradients]:
    """Train one epoch on everything and keep what its own passes show."""
    size = len(setting.data)
    tape = schedule(Samples.everything(size), 1, BATCH, stream(seed, "first"))
    rule = StepRule(setting.learning_rate, 0.0, setting.params)
    params, parts, order = setting.params, [], []
    for index, coefficient in zip(tape.index, tape.coefficient, strict=True):
        chosen = torch.from_numpy(index[coefficient > 0])
        scale = torch.from_numpy(coefficient[coefficient > 0])
        batch = Batch(*setting.data.take(chosen), scale)
        params, _, seen = step(setting.task, params, batch, rule, watch=True)
        assert seen is not None
        parts.append(seen)
        order.append(chosen)
    return params, HeadGradients.gather(parts, torch.cat(order))


def compare(setting: Setting, share: float, seed: int) -> dict[str, Any]:
    params, moving = first_epoch(setting, seed)
    data = setting.data
    starts = range(0, len(data), 100)
    batches = (data.take(slice(start, start + 100)) for start in starts)
    exact = head_gradients(setting.task, params, batches)
    weight = setting.task.head_weight(params)
    errors = {}
    for name, seen in (("moving", moving), ("exact", exact)):
        space = space_of("last-layer-input", seen, weight, bias=True)
        known = Candidates(space, data.labels)
        budget = int(share * len(data))
        coreset = build_coreset(known, budget, "kmedoids", np.random.default_rng(seed))
        samples = Samples(coreset.indices.numpy(), coreset.weights.numpy())
        errors[name] = full_gradient_error(setting.task, params, data, samples)
    return {"setting": setting.name, "share": share, "seed": seed, **errors}


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    torch.set_num_threads(1)
    rows = [
        compare(setting, share, seed)
        for setting in settings(quick=False)
        if setting.name.startswith("CNN")
        for share in (0.1, 0.3)
        for seed in SEEDS
    ]
    for name in ("moving", "exact"):
        print(name, round(statistics.mean(row[name] for row in rows), 4))
    content = {"command": "make study-moving", "machine": describe(), "rows": rows}
    RESULT.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
