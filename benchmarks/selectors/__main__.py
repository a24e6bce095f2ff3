"""``make study``: every selector, weighting and budget on a few clients, side by side."""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.coreset.machine import describe
from benchmarks.selectors.settings import Setting, settings, train
from fedcore import plugins
from fedcore.client.job import full_gradient_error
from fedcore.client.schedule import Samples
from fedcore.coreset.build import build_coreset
from fedcore.coreset.candidates import Candidates
from fedcore.coreset.metric import Euclidean
from fedcore.coreset.proxies import STATIC, head_gradients, space_of
from fedcore.sim.measure import Evaluator
from fedcore.types import Params, Weighting

RESULT = Path(__file__).parents[1] / "results" / "selectors.json"
SHARES = (0.1, 0.3)
SEEDS = (0, 1, 2)


def candidates(setting: Setting) -> Candidates:
    """What a client would choose from, at the parameters of the setting."""
    data = setting.data
    starts = range(0, len(data), 100)
    batches = (data.take(slice(start, start + 100)) for start in starts)
    seen = head_gradients(setting.task, setting.params, batches)
    if setting.proxy == STATIC:
        space: Any = Euclidean(data.take(slice(None))[0].flatten(1))
    else:
        weight = setting.task.head_weight(setting.params)
        space = space_of(setting.proxy, seen, weight, bias=True)
    return Candidates(space, data.labels, seen.losses)


def study(setting: Setting, selector: str, share: float, seed: int) -> list[dict[str, Any]]:
    """One coreset, trained on under every weighting."""
    known = candidates(setting)
    budget = int(share * len(setting.data))
    began = time.perf_counter()
    coreset = build_coreset(known, budget, selector, np.random.default_rng(seed))
    seconds = time.perf_counter() - began
    rows = []
    for weighting in Weighting:
        samples = Samples(coreset.indices.numpy(), coreset.weights.numpy(), weighting)
        trained = train(setting, setting.params, samples, setting.epochs, seed)
        rows.append(
            {
                "setting": setting.name,
                "selector": selector,
                "weighting": str(weighting),
                "share": share,
                "seed": seed,
                "size": len(coreset.indices),
                "objective": coreset.objective,
                "proxy_error": coreset.gradient_error,
                "error_start": full_gradient_error(
                    setting.task, setting.params, setting.data, samples
                ),
                "error_end": full_gradient_error(setting.task, trained, setting.data, samples),
                "largest_weight": float(coreset.weights.max()),
                "loss": finite(loss_of(setting, trained)),
                "seconds": seconds,
            }
        )
    return rows


def full_set(setting: Setting, seed: int) -> dict[str, Any]:
    """Training on everything for as many epochs: what a coreset stands in for."""
    everything = Samples.everything(len(setting.data))
    trained = train(setting, setting.params, everything, setting.epochs, seed)
    before = loss_of(setting, setting.params)
    after = loss_of(setting, trained)
    return {"setting": setting.name, "seed": seed, "loss_before": before, "loss": after}


def loss_of(setting: Setting, params: Params) -> float:
    found = Evaluator([setting.task.logits]).score(params, [setting.data])
    return float(found.loss or 0.0)


def finite(value: float) -> float | None:
    return value if np.isfinite(value) else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes, one seed")
    quick = parser.parse_args().quick
    torch.set_num_threads(1)
    rows: list[dict[str, Any]] = []
    full: list[dict[str, Any]] = []
    for setting in settings(quick):
        seeds = SEEDS[:1] if quick or setting.name.startswith("CNN") else SEEDS
        full += [full_set(setting, seed) for seed in seeds]
        for share in SHARES:
            for selector in plugins.names("selector"):
                for seed in seeds:
                    rows += study(setting, selector, share, seed)
                print(f"{setting.name}, {share:g}, {selector}: done", flush=True)
    content = {
        "command": "make study",
        "machine": describe(),
        "full_set": full,
        "rows": rows,
    }
    if not quick:
        RESULT.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
