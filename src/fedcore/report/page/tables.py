"""The tables of a page: Tables 1 and 2 beside the paper's, all results, and every run."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from fedcore.report import paper
from fedcore.report.grids import Cell, Grid, cell_of, cost_grids, level_grids, strategy_title
from fedcore.report.page.jobs import Level
from fedcore.report.summary import SIZES
from fedcore.sources.benchmark import find

# Statistics of Table 2: title, and place in the paper's; 2: it has none.
STATISTICS = {"mean_{}_accuracy_from_round_10": ("Accuracy, mean over rounds ≥ 10", 0)}
STATISTICS |= {"final_test_accuracy": ("Accuracy, final, on held-out data", 2)}
STATISTICS |= {"mean_round_time": ("Mean round, in deadlines", 1)}
OF_A_RUN = {"final_test_accuracy": "Final accuracy", "final_train_loss": "Training loss"}
OF_A_RUN |= {"mean_round_time": "Mean round", "max_round_time": "Longest round"}
Sizes = Sequence[tuple[str, Any]]  # benchmarks, and the data of jobs; data may differ on one


def tables(levels: Sequence[Level], sizes: Sizes, place: Path) -> dict[str, Grid]:
    """All tables that there is something for, by name, for a page in the folder ``place``."""
    found = {}
    rows: list[list[Cell]] = []
    ours: dict[Any, list[tuple[str, Any]]] = {}  # links and runs, by level and strategy
    for level in levels:
        for kind, grids in (("results", level_grids), ("costs", cost_grids)):
            for n, grid in enumerate(grids(level.runs), 1):
                title = f"{grid.title}; {level.variant}"
                found[f"{kind}-{level.name}-{n}"] = grid._replace(title=title)
        for run in level.runs:
            anchor = f"run-{len(rows)}"
            ours.setdefault((*level[:3], run["strategy"]), []).append((f"#{anchor}", run))
            of = level.variant, level.title, strategy_title(run["strategy"]), str(run["seed"])
            home, folder = (os.path.relpath(run["job"].path, at) for at in (place.parent, place))
            link = Cell(home, link=quote(f"{folder}/rounds.jsonl"), anchor=anchor)
            rows.append([*map(Cell, of), link, *(cell_of(name, [run]) for name in OF_A_RUN)])
    titles = ("Options", "Level", "Strategy", "Seed", "Folder", *OF_A_RUN.values())
    found["runs"] = Grid("Every run", [*map(Cell, titles)], rows, 4)
    return {**table_one(sizes), **_table_two(ours), **found}


def table_one(sizes: Sizes) -> dict[str, Grid]:
    """Clients and samples in the paper's Table 1 and here, where jobs have written it."""
    rows = []
    for place, (name, found) in enumerate(sizes):
        if name in paper.benchmarks() and name not in dict(sizes[:place]):
            printed = (f"{value:,}" for value in find(name).module.PAPER[name])
            rows.append([paper.title_of(name), "paper", *printed, "", "", ""])
        counts = (f"{found[size]:,.0f}" for size in SIZES)
        rows.append([paper.title_of(name), f"ours: {found['counted']}", *counts])
    head = [Cell(text.capitalize()) for text in ("benchmark", "source", *SIZES)]
    cells = [[*map(Cell, row)] for row in rows]
    return {"table-1": Grid("Table 1: samples of clients", head, cells, 2)} if rows else {}


def _table_two(every: Mapping[Any, list[tuple[str, Any]]]) -> dict[str, Grid]:
    """Accuracy and time beside the paper's Table 2, for the benchmarks that it has."""
    known, rows = paper.benchmarks(), []
    columns = [(b, s) for b in known for s in (10, 30) if any(at[1:3] == (b, s) for at in every)]
    ours = {at: runs for at, runs in every.items() if at[1:3] in columns}
    for key, (title, printed) in STATISTICS.items():
        for strategy in dict.fromkeys([*known["mnist"]["table_2"], *(at[3] for at in ours)]):
            start = [Cell(title), Cell(strategy_title(strategy))]
            theirs = [known[b]["table_2"].get(strategy, {}).get(str(s)) for b, s in columns]
            if printed < 2 and all(theirs):
                texts = (f"{pair[1]:.2f}" if printed else f"{pair[0]:.1f} %" for pair in theirs)
                rows.append([*start, *(Cell(text, "paper") for text in ("paper", *texts))])
            for variant in dict.fromkeys(at[0] for at in ours if at[3] == strategy):
                cells = []
                for b, s in columns:
                    linked = ours.get((variant, b, s, strategy), [])
                    runs = [run for _, run in linked]
                    notes = tuple(dict.fromkeys(note for run in runs for note in run["notes"]))
                    cell = cell_of(key.format(known[b]["split"]), runs)
                    cells.append(cell._replace(link=linked[0][0] if linked else "", notes=notes))
                rows.append([*start, Cell(f"ours: {variant}"), *cells])
    head = [Cell("Statistic"), Cell("Strategy"), Cell("Source")]
    named = ((f"{known[b]['title']}, {s} %", tuple(known[b]["notes"])) for b, s in columns)
    head += [Cell(title, notes=notes) for title, notes in named]
    title = "Table 2: accuracy and time, the paper's and ours"
    return {"table-2": Grid(title, head, rows, 3)} if columns else {}
