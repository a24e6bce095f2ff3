"""The tables of a page: Tables 1 and 2 beside the paper's, all results, and every run."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedcore.report import paper
from fedcore.report.grids import Cell, Grid, cell_of, cost_grids, level_grids, strategy_title
from fedcore.report.page.jobs import Level
from fedcore.sources.benchmark import find

# Statistics of Table 2: title, and place in the paper's; 2: it has none.
STATISTICS = {"mean_{}_accuracy_from_round_10": ("Accuracy, mean over rounds ≥ 10", 0)}
STATISTICS |= {"final_test_accuracy": ("Accuracy, final, on held-out data", 2)}
STATISTICS |= {"mean_round_time": ("Mean round, in deadlines", 1)}
OF_A_RUN = {"final_test_accuracy": "Final accuracy", "final_train_loss": "Training loss"}
OF_A_RUN |= {"mean_round_time": "Mean round", "max_round_time": "Longest round"}
SIZES = ("clients", "samples", "mean", "std", "least", "median", "most")


def tables(levels: Sequence[Level], sizes: Mapping[str, Any], place: Path) -> dict[str, Grid]:
    """All tables that there is something for, by name, for a page in the folder ``place``."""
    found: dict[str, Grid] = {}
    rows: list[list[Cell]] = []
    anchors = {}
    for level in levels:
        for kind, grids in (("results", level_grids), ("costs", cost_grids)):
            for n, grid in enumerate(grids(level.runs)):
                name = f"{kind}-{level.name}" + f"-{n + 1}" * (n > 0)
                found[name] = grid._replace(title=f"{grid.title}; {level.variant}")
        for strategy, runs in level.results.items():
            anchors[level[:3], strategy] = f"#run-{len(rows)}"
            for run in runs:
                of = level.variant, level.title, strategy_title(strategy), str(run["seed"])
                home, folder = (
                    os.path.relpath(run["job"].path, at) for at in (place.parent, place)
                )
                link = Cell(home, link=f"{folder}/rounds.jsonl", anchor=f"run-{len(rows)}")
                rows.append([*map(Cell, of), link, *(cell_of(name, [run]) for name in OF_A_RUN)])
    titles = ("Options", "Level", "Strategy", "Seed", "Folder", *OF_A_RUN.values())
    runs_grid = Grid("Every run", [*map(Cell, titles)], rows, 4)
    return {**_table_one(sizes), **_table_two(levels, anchors), **found, "runs": runs_grid}


def _table_one(sizes: Mapping[str, Any]) -> dict[str, Grid]:
    """Clients and samples in the paper's Table 1 and here, where jobs have written it."""
    rows = []
    for name, found in sizes.items():
        if name in paper.benchmarks():
            printed = (f"{value:,}" for value in find(name).module.PAPER[name])
            rows.append([paper.title_of(name), "paper", *printed, "", "", ""])
        counts = (f"{found[size]:,.0f}" for size in SIZES)
        rows.append([paper.title_of(name), f"ours: {found['counted']}", *counts])
    head = [Cell(text.capitalize()) for text in ("benchmark", "source", *SIZES)]
    cells = [[*map(Cell, row)] for row in rows]
    return {"table-1": Grid("Table 1: samples of clients", head, cells, 2)} if rows else {}


def _table_two(levels: Sequence[Level], anchors: Mapping[Any, str]) -> dict[str, Grid]:
    """Accuracy and time beside the paper's Table 2, for the benchmarks that it has."""
    known, there = paper.benchmarks(), {level[:3]: level.results for level in levels}
    columns = [(b, s) for b in known for s in (10.0, 30.0) if any(at[1:] == (b, s) for at in there)]
    shown = {at: results for at, results in there.items() if at[1:] in columns}
    theirs, rows = known["mnist"]["table_2"], []
    for key, (title, printed) in STATISTICS.items():
        for strategy in dict.fromkeys(
            [*theirs, *(s for results in shown.values() for s in results)]
        ):
            start = [Cell(title), Cell(strategy_title(strategy))]
            if printed < 2 and strategy in theirs:
                values = (known[b]["table_2"][strategy][f"{s:g}"][printed] for b, s in columns)
                texts = (f"{value:.2f}" if printed else f"{value:.1f} %" for value in values)
                rows.append([*start, *(Cell(text, "paper") for text in ("paper", *texts))])
            for variant in dict.fromkeys(at[0] for at in shown):
                cells = []
                for b, s in columns:
                    runs = shown.get((variant, b, s), {}).get(strategy, [])
                    notes = dict.fromkeys(note for run in runs for note in run["notes"])
                    cell = cell_of(key.format(known[b]["split"]), runs)
                    link = anchors.get(((variant, b, s), strategy), "")
                    cells.append(cell._replace(link=link, notes=tuple(notes)))
                if any(cell.link for cell in cells):
                    rows.append([*start, Cell(f"ours: {variant}"), *cells])
    head = [Cell("Statistic"), Cell("Strategy"), Cell("Source")]
    head += [
        Cell(f"{paper.title_of(b)}, {s:g} %", notes=tuple(known[b]["notes"])) for b, s in columns
    ]
    title = "Table 2: accuracy and time, the paper's and ours"
    return {"table-2": Grid(title, head, rows, 3)} if columns else {}
