"""``fedcore.load``: what jobs left in a folder, as histories, models and a table."""

from pathlib import Path
from typing import Any

from fedcore.errors import BadOption
from fedcore.history import History
from fedcore.records import RunKey
from fedcore.report.output import load_model, model_name
from fedcore.report.page.jobs import read_jobs
from fedcore.report.records import to_row


class Results(dict[RunKey, History]):
    """The runs of a folder, by benchmark, strategy, share of stragglers, seed and step size."""

    def frame(self) -> Any:
        """A pandas table with a row for every round, named as in ``rounds.jsonl``."""
        import pandas  # type: ignore[import-untyped]

        rows = (to_row(run, one) for run, history in self.items() for one in history.rounds)
        return pandas.DataFrame([{k: v for k, v in row.items() if k != "clients"} for row in rows])


def load(folder: str | Path) -> Results:
    """All runs of the jobs in ``folder`` and below it; ``params`` of each are its last model."""
    if not isinstance(folder, str | Path):
        raise BadOption(f"folder must be the path of a job's folder, got {folder!r}")
    found, homes = Results(), dict[RunKey, Path]()
    for job in read_jobs([Path(folder)]):
        for run, rounds in job.runs.items():
            if run in found:
                both = f"{str(homes[run])!r} and {str(job.path)!r}"
                raise BadOption(f"{run} is in {both}; load one of them at a time")
            model = job.path / model_name(run)
            params = load_model(model) if model.exists() else {}
            found[run], homes[run] = History(tuple(rounds), params), job.path
    return found
