from pathlib import Path

import pytest

from fedcore.report.page.jobs import Job, Level
from fedcore.report.page.tables import tables

JOB = Job(Path("runs/a"), {}, {})


def result(strategy, seed=0, accuracy=0.5, train=0.6, time=1.0, notes=(), **more):
    return {
        "benchmark": "synthetic-0-0",
        "strategy": strategy,
        "stragglers": 30.0,
        "seed": seed,
        "rounds": 100,
        "final_test_accuracy": accuracy,
        "best_test_accuracy": accuracy,
        "mean_test_accuracy_from_round_10": 0.1,
        "mean_train_accuracy_from_round_10": train,
        "final_train_loss": 1.25,
        "mean_round_time": time,
        "max_round_time": time,
        "deadline_miss_share": float(time > 1),
        "job": JOB,
        "notes": notes,
        **more,
    }


def level(*results, variant="paper", benchmark="synthetic-0-0", stragglers=30.0):
    own = [{**one, "benchmark": benchmark, "stragglers": stragglers} for one in results]
    return Level(variant, benchmark, stragglers, own)


def row_of(grid, *names):
    (row,) = [row for row in grid.rows if tuple(c.text for c in row[: grid.names]) == names]
    return row[grid.names :]


def test_table_two_has_the_papers_numbers_beside_ours_by_its_statistic(tmp_path):
    """Generator (0, 0) is what the paper prints as (1, 1), and its accuracy is of training data."""
    ours = [result("fedcore", 0, 0.70, 0.71), result("fedcore", 1, 0.74, 0.73)]
    grid = tables([level(*ours)], [], tmp_path)["table-2"]
    mean, final, time = (
        "Accuracy, mean over rounds ≥ 10",
        "Accuracy, final, on held-out data",
        "Mean round, in deadlines",
    )
    assert [cell.text for cell in grid.head[3:]] == ["Synthetic (0, 0), 30 %"]
    assert any("exchanged" in note for note in grid.head[3].notes)
    assert [c.text for c in row_of(grid, mean, "FedCore", "paper")] == ["72.8 %"]
    assert [c.text for c in row_of(grid, mean, "FedCore", "ours: paper")] == ["72.0 %\n71.0-73.0"]
    assert [c.text for c in row_of(grid, final, "FedCore", "ours: paper")] == ["72.0 %\n70.0-74.0"]
    assert [c.text for c in row_of(grid, time, "FedAvg", "paper")] == ["4.80"]
    assert not any(row[0].text == final and row[2].text == "paper" for row in grid.rows)


def test_every_number_of_ours_leads_to_its_runs_and_says_what_is_other_about_it(tmp_path):
    note = "Rounds: 30, where the preset has 100."
    levels = [
        level(result("fedavg", time=4.8)),
        level(result("fedavg", notes=(note,)), variant="authors-code"),
    ]
    found = tables(levels, [], tmp_path)
    anchors = {cell.anchor: row for row in found["runs"].rows for cell in row if cell.anchor}
    for row in found["table-2"].rows:
        for cell in row[3:]:
            if row[2].text.startswith("ours"):
                assert row[2].text == f"ours: {anchors[cell.link[1:]][0].text}"
                assert cell.notes == ((note,) if "authors" in row[2].text else ())
    (late,) = row_of(found["table-2"], "Mean round, in deadlines", "FedAvg", "ours: paper")
    assert (late.text, late.style) == ("4.80", "late")


def test_a_cell_that_nobody_ran_is_empty_and_a_row_of_them_is_left_out(tmp_path):
    levels = [
        level(result("fedcore")),
        level(result("fedavg"), benchmark="mnist", stragglers=10.0),
        level(result("mine"), benchmark="own"),
    ]
    grid = tables(levels, [], tmp_path)["table-2"]
    assert [cell.text for cell in grid.head[3:]] == ["MNIST, 10 %", "Synthetic (0, 0), 30 %"]
    title = "Accuracy, final, on held-out data"
    assert [c.text for c in row_of(grid, title, "FedCore", "ours: paper")] == ["-", "50.0 %"]
    assert not any(row[1].text == "mine" for row in grid.rows)
    assert not any(row[1].text == "FedProx" and "ours" in row[2].text for row in grid.rows)


def test_what_the_paper_does_not_have_has_no_table_two(tmp_path):
    found = tables([level(result("fedcore"), benchmark="own")], [], tmp_path)
    assert list(found) == ["results-own-30-paper-1", "runs"]
    assert "table-2" not in tables([level(result("fedcore"), stragglers=20.0)], [], tmp_path)


def test_table_one_has_the_papers_row_where_there_is_one(tmp_path):
    sizes = {"counted": "training samples", "clients": 30, "samples": 20101, "mean": 670.03}
    sizes |= {"std": 1148.4, "least": 56, "median": 150, "most": 5000}
    fewer = sizes | {"clients": 12}
    pairs = [("synthetic-1-1", sizes), ("synthetic-1-1", fewer), ("own", sizes)]
    grid = tables([], pairs, tmp_path)["table-1"]
    texts = [[cell.text for cell in row] for row in grid.rows]
    ours = ["ours: training samples", "30", "20,101", "670", "1,148", "56", "150", "5,000"]
    assert texts == [
        ["Synthetic (1, 1)", "paper", "30", "20,101", "670", "1,148", "", "", ""],
        ["Synthetic (1, 1)", *ours],
        ["Synthetic (1, 1)", ours[0], "12", *ours[2:]],
        ["own", *ours],
    ]


def test_every_run_has_its_folder_as_seen_from_the_page(tmp_path):
    one = result("fedcore", job=Job(tmp_path / "runs" / "a", {}, {}))
    grid = tables([level(one)], [], tmp_path / "page")["runs"]
    (row,) = grid.rows
    assert [cell.text for cell in row[:5]] == [
        "paper",
        "Synthetic (0, 0), 30 % stragglers",
        "FedCore",
        "0",
        "runs/a",
    ]
    assert row[4].link == "../runs/a/rounds.jsonl"


@pytest.mark.parametrize("targets", [1, 12])
def test_tables_of_many_columns_have_names_of_their_own(tmp_path, targets):
    reached = [{"target": n / 20, "seconds": 3.0} for n in range(targets)]
    cost = {"deadline_seconds": 4.0, "slow_clients": 1, "clients": 5, "time_to_accuracy": reached}
    found = tables([level(result("fedcore", **cost))], [], tmp_path)
    titles = [cell.text for name in found if "costs" in name for cell in found[name].head]
    assert sum("Seconds" in title for title in titles) == targets
