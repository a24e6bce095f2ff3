"""The rounds of a part of the study as one small file: a result per method and seed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.stragglers.settings import METHODS, PARTS, experiment_of
from fedcore.cli.grid import runs_of
from fedcore.config import Experiment
from fedcore.records import RoundRecord
from fedcore.report.records import Runs, read_runs
from fedcore.report.summary import chosen_runs, summary, targets_of
from fedcore.report.verify import verify

POINTS = 50  # of a curve
FIXED = (0.5, 0.6, 0.7, 0.8, 0.9)  # further targets, for methods far from the best
KEPT = (
    *("seed", "final_test_accuracy", "best_test_accuracy", "mean_round_time"),
    *("max_round_time", "rejected", "deadline_seconds", "slow_clients", "clients"),
    *("slow_accuracy", "worst_accuracy", "time_to_accuracy", "virtual_seconds"),
    *("client_seconds", "wasted_client_seconds", "bytes_down", "bytes_up"),
    *("participation_fairness", "mean_staleness", "largest_staleness", "wall_seconds"),
)


def condense(benchmark: str, fleet: str, out: Path, results: Path) -> Path | None:
    """Write what is done of a fleet's methods, if any; targets are shares of the best of those.

    Methods that the file has and ``out`` does not stay, unless one of ``out`` is ahead of them all:
    when they came to its shares is known of their folders alone.
    """
    part = PARTS[benchmark]
    done: dict[str, tuple[Experiment, Runs]] = {}
    for name in part.methods:
        folder = out / benchmark / fleet / name
        if (folder / "summary.json").exists():
            experiment = experiment_of(benchmark, fleet, name)
            expected = list(runs_of(experiment))
            runs = read_runs(folder / "rounds.jsonl", expected, experiment.most_rounds)
            done[name] = experiment, runs
            environment = json.loads((folder / "summary.json").read_text("utf-8"))["environment"]
    if not done:
        return None
    targets = targets_of([list(chosen_runs(runs).values()) for _, runs in done.values()])
    path = results / f"stragglers-{benchmark}-{fleet}.json"
    events, wrong = looked_at(out / benchmark / fleet, list(done))
    kept: dict[str, Any] = {}
    if path.exists():  # of logs that stayed where their runs were made, what was read there counts
        before = json.loads(path.read_text("utf-8"))
        events = max(events, before["events_verified"])
        wrong = max(wrong, before["events_wrong"])
        kept = {name: one for name, one in before["methods"].items() if name not in done}
        if kept and before["targets"] < list(targets):
            raise ValueError(f"{path.name} has methods, {', '.join(kept)}, without their folders")
        targets = before["targets"] if kept else targets
    content = {
        "benchmark": benchmark,
        "fleet": fleet,
        "deadlines": part.deadlines,
        "learning_rates": part.grid(fleet),
        "seeds": part.seeds,
        "targets": targets,
        "events_verified": events,
        "events_wrong": wrong,
        "environment": environment,
        "missing": [name for name in part.methods if name not in {**done, **kept}],
        "methods": {
            name: method_of(name, *done[name], (*targets, *FIXED)) if name in done else kept[name]
            for name in part.methods
            if name in {**done, **kept}
        },
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text(to_text(content), encoding="utf-8")
    partial.replace(path)
    return path


def method_of(
    name: str, experiment: Experiment, runs: Runs, targets: Sequence[float]
) -> dict[str, Any]:
    """Results at the best step size, and how that was chosen."""
    settings = {**asdict(experiment), "targets": targets}
    found = summary(runs, settings)
    (choice,) = found["step_sizes"]
    shown = chosen_runs(runs)
    return {
        "title": METHODS[name].title,
        "learning_rate": choice["learning_rate"],
        "edge": choice["edge"],
        "tried": choice["tried"],
        "results": [
            {
                **{key: result[key] for key in KEPT},
                "merges": sum(not record.cut for record in rounds),
                "curve": curve_of(rounds, experiment),
            }
            for result, rounds in zip(found["results"], shown.values(), strict=True)
        ],
    }


def curve_of(rounds: Sequence[RoundRecord], experiment: Experiment) -> list[float | None]:
    """Test accuracy of the model that is there after each fiftieth of the time, if any is."""
    passed, index, accuracy = 0.0, 0, None
    points: list[float | None] = []
    for point in range(1, POINTS + 1):
        until = point / POINTS * experiment.time_budget * (1 + 1e-9)
        while index < len(rounds) and passed + rounds[index].time <= until:
            passed += rounds[index].time
            accuracy = rounds[index].test_accuracy
            index += 1
        points.append(None if accuracy is None else round(accuracy, 4))
    return points


def looked_at(folder: Path, names: Sequence[str]) -> tuple[int, int]:
    """Events that ``fedcore verify`` read, and its complaints; folders without events are left."""
    events, wrong = 0, 0
    for name in names:
        if (folder / name / "events.jsonl").exists():
            sentences, count = verify(folder / name)
            events, wrong = events + count, wrong + len(sentences)
    return events, wrong


def to_text(content: dict[str, Any]) -> str:
    """JSON with a line per seed of a method, so that changes can be read."""
    head = {key: value for key, value in content.items() if key != "methods"}
    lines = [json.dumps(head, indent=1)[:-2] + ',\n "methods": {']
    for number, (name, method) in enumerate(content["methods"].items()):
        rest = {key: value for key, value in method.items() if key != "results"}
        results = ",\n    ".join(json.dumps(shortened(one)) for one in method["results"])
        start = f"  {json.dumps(name)}: {json.dumps(shortened(rest))[:-1]}"
        end = "," if number + 1 < len(content["methods"]) else ""
        lines.append(f'{start},\n   "results": [\n    {results}]}}{end}')
    return "\n".join([*lines, " }\n}"]) + "\n"


def shortened(value: Any) -> Any:
    """Numbers to six figures, in whatever holds them."""
    if isinstance(value, dict):
        return {key: shortened(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [shortened(one) for one in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value
