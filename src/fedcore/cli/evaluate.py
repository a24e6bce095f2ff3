"""The models that a job left, loaded again and measured on held-out data."""

import json
from collections.abc import Iterator
from pathlib import Path

from fedcore.cli.folders import jobs_of
from fedcore.cli.grid import prepare, runs_of
from fedcore.client.executors.by_name import choose_device
from fedcore.config import resolve
from fedcore.records import RunKey
from fedcore.report.output import EXPERIMENT, load_model, model_name
from fedcore.sim.measure import Measure, Score
from fedcore.sim.world import levels_of


def evaluate(folder: Path, data_dir: str | None) -> Iterator[tuple[RunKey, Score | None]]:
    """Loss and accuracy of every model in and below a folder; None without held-out data."""
    for job in jobs_of(folder).values():
        known = json.loads((job / EXPERIMENT).read_text("utf-8")) | {"data_dir": data_dir}
        given = {name: value for name, value in known.items() if value is not None}
        one = resolve(given, lambda benchmark, preset: {})
        device, several = choose_device("auto", "auto"), len(one.learning_rates) > 1
        federations = prepare(one)
        for run in runs_of(one, levels_of(one, federations)):
            measure = Measure(federations[run.seed], one.evaluate_samples, device, 1, split=several)
            params = load_model(job / model_name(run))
            yield run, measure.test({name: value.to(device) for name, value in params.items()})
