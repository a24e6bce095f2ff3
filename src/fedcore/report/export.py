"""Rounds for other people's tools, through their own writers: CSV, TensorBoard, MLflow."""

import csv
import json
from collections.abc import Sequence
from dataclasses import asdict
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from shutil import rmtree

from fedcore.errors import BadOption, blaming
from fedcore.records import RunKey
from fedcore.report.output import EXPERIMENT, ROUNDS
from fedcore.report.records import MEASURED, Row, run_of

Rows = dict[RunKey, list[Row]]
NUMBERS = ("round_time", *MEASURED)


def check_tools(tools: Sequence[str], out: Path | None) -> None:
    """Refuse what is asked for and cannot be done, before anything is trained."""
    for tool in tools:
        if out is None:
            raise BadOption(f"{tool} needs the folder of a job; name it with --out")
        if find_spec(tool) is None:
            raise BadOption(f"{tool} is missing; install FedCore with its extra {tool!r}")


def export(folder: Path, tools: Sequence[str]) -> None:
    """Hand every round of a job to these tools; done again, nothing is there twice."""
    runs, numbers = dict[RunKey, list[Row]](), dict.fromkeys(NUMBERS)
    for row in map(json.loads, (folder / ROUNDS).read_text("utf-8").splitlines()):
        own = {f"test_{name}": value for name, value in row.get("metrics", {}).items()}
        runs.setdefault(run_of(row), []).append(row | own)
        numbers |= dict.fromkeys(own)
    hint = f"; all results are in {str(folder)!r}, and --resume hands them over again"
    for tool in tools:
        with blaming(f"handing rounds to {tool}", hint):
            TOOLS[tool](folder, runs, [*numbers])


def _csv(folder: Path, runs: Rows, numbers: Sequence[str]) -> None:
    with (folder / "rounds.csv").open("w", encoding="utf-8", newline="") as file:
        columns = [*asdict(next(iter(runs))), "round", *numbers]
        writer = csv.DictWriter(file, columns, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(row | asdict(run) for run, rows in runs.items() for row in rows)


def _tensorboard(folder: Path, runs: Rows, numbers: Sequence[str]) -> None:
    from torch.utils.tensorboard import SummaryWriter

    rmtree(folder / "tensorboard", ignore_errors=True)
    for run, rows in runs.items():
        with SummaryWriter(folder / "tensorboard" / run.name) as writer:
            for row in rows:
                for name in (name for name in numbers if row.get(name) is not None):
                    writer.add_scalar(name, row[name], row["round"])


def _mlflow(folder: Path, runs: Rows, numbers: Sequence[str]) -> None:
    import mlflow

    options = json.loads((folder / EXPERIMENT).read_text("utf-8"))
    for run, rows in runs.items():
        mlflow.set_experiment(f"fedcore {run.benchmark}")
        # Seconds of the wall clock are in rows: no two jobs have the same.
        digest = sha256(json.dumps(rows).encode()).hexdigest()
        whole = f"tags.fedcore_rounds = '{digest}' and attributes.status = 'FINISHED'"
        if mlflow.search_runs(filter_string=whole, output_format="list"):
            continue
        own = {name: value for name, value in asdict(run).items() if value is not None}
        with mlflow.start_run(run_name=run.name, tags={"fedcore_rounds": digest}):
            mlflow.log_params(options | own)
            for row in rows:
                known = {name: row[name] for name in numbers if row.get(name) is not None}
                mlflow.log_metrics(known, step=row["round"])


TOOLS = {"csv": _csv, "tensorboard": _tensorboard, "mlflow": _mlflow}
