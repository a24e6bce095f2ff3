"""One page for all that jobs found: tables and charts in a file that needs nothing else."""

import json
from collections.abc import Iterable, Sequence
from html import escape
from importlib import resources
from itertools import product
from pathlib import Path
from string import Template

from fedcore.report.grids import Grid, counted, remarks, step_size_remarks, strategy_title
from fedcore.report.output import PAGE
from fedcore.report.page.data import charts
from fedcore.report.page.formats import WRITERS, to_html
from fedcore.report.page.jobs import Job, Level, levels_of, read_jobs
from fedcore.report.page.tables import tables
from fedcore.report.paper import title_of
from fedcore.report.plots import COLOURS, DOING, SHOWN, draw_all
from fedcore.report.records import run_of
from fedcore.types import Way

# A way has the colour of the strategy that it is known by.
WAYS = {str(way): COLOURS[n] for way, n in zip(Way, (0, 2, 3, 5, 4, 6, 1), strict=True)}
LOOK = {"colours": COLOURS, "doing": DOING, "ways": WAYS | {"not drawn": "#CCCCCC"}, "shown": SHOWN}
SAFE = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&\u2028\u2029"}  # so that it ends no script
FILES = {"css": "page.css", "chart": "chart.umd.min.js", "js": "page.js", "page": "page.html"}


def write_page(jobs: Sequence[Job], folder: Path) -> tuple[list[Level], dict[str, Grid]]:
    """Write the page of ``jobs`` into a folder; gives their levels, and its tables by name."""
    levels = levels_of(jobs)
    runs = [run for level in levels for run in level.runs]
    every = ((run["benchmark"], run["job"].content.get("data")) for run in runs)
    sizes = [*{str(one): one for one in every if one[1]}.values()]
    grids = tables(levels, sizes, folder)
    html = {name: to_html(grid, name) for name, grid in grids.items()}
    told = [f"{title_of(a.benchmark)}, {a.variant}: {x}" for a in levels for x in remarks(a.runs)]
    told += [text for job in jobs for text in step_size_remarks(job.content["step_sizes"])]
    names = {run["strategy"]: strategy_title(run["strategy"]) for run in runs}
    named = ((f"{title_of(name)}, {own['clients']:,} clients", own) for name, own in sizes)
    bins = {f"{label}, {own['samples']:,} samples": own["bins"] for label, own in named}
    data = {"strategies": names, "panels": [*map(charts, levels)], "sizes": bins}
    kept = [job.content["environment"].items() for job in jobs]
    versions = ", ".join(dict.fromkeys(f"{name} {value}" for own in kept for name, value in own))
    seeds = ", ".join(map(str, sorted({run["seed"] for run in runs})))
    about = f"{counted(len(runs), 'run')} of {', '.join(names.values())}; seeds {seeds}. {versions}"
    content = {
        "title": escape(", ".join(dict.fromkeys(title_of(level.benchmark) for level in levels))),
        "about": escape(about),
        "findings": "".join(f"<li>{escape(text)}</li>" for text in told),
        "table_2": html.pop("table-2", ""),
        "table_1": html.pop("table-1", ""),
        "tables": "".join(html.values()),
        "jobs": "".join(map(_details, jobs)),
        "data": json.dumps(data | LOOK).translate(SAFE),
    }
    own = resources.files(__package__)
    content |= {name: (own / file).read_text("utf-8") for name, file in FILES.items()}
    (folder / PAGE).write_text(Template(content["page"]).substitute(content), "utf-8")
    return levels, grids


def write_report(folders: Iterable[Path], out: Path, *, plots: bool) -> None:
    """Write the page of all jobs in ``folders``, and beside it its tables and pictures as files."""
    jobs = read_jobs(folders)
    (out / "tables").mkdir(parents=True, exist_ok=True)
    levels, grids = write_page(jobs, out)
    for (name, grid), (ending, write) in product(grids.items(), WRITERS.items()):
        (out / "tables" / f"{name}.{ending}").write_text(write(grid), "utf-8")
    names = [run["strategy"] for level in levels for run in level.runs]
    for level in levels if plots else ():
        if runs := {run_of(run): run["records"] for run in level.runs if run["records"]}:
            (out / "figures" / level.name).mkdir(parents=True, exist_ok=True)
            draw_all(runs, out / "figures" / level.name, (".pdf", ".png"), names)


def _details(job: Job) -> str:
    """How a job was run, to be opened."""
    known = {name: value for name, value in job.content.items() if name not in ("results", "data")}
    title, text = escape(str(job.path)), escape(json.dumps(known, indent=1))
    return f"<details><summary>{title}</summary><pre>{text}</pre></details>"
