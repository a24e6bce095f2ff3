"""The study of choosing: arms at equal time, conditions and intervals by hand, a page not stale."""

import json
import math
import sys
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import torch

pytest.importorskip("rich")

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks.choosing import __main__ as study  # noqa: E402
from benchmarks.choosing import (  # noqa: E402
    catch_up,
    condense,
    figures,
    page,
    picture,
    pieces,
    settings,
)
from benchmarks.choosing.arms import ARMS, LEAST, Prices, charges, fits, own, strategy_of  # noqa: E402
from benchmarks.choosing.conditions import CONDITIONS, under  # noqa: E402

from fedcore import plugins  # noqa: E402
from fedcore.coreset.candidates import Candidates  # noqa: E402
from fedcore.coreset.metric import Euclidean  # noqa: E402
from fedcore.coreset.proxies import LAST_LAYER_INPUT, NONE, STATIC  # noqa: E402
from fedcore.sim.fleet import fleet_of  # noqa: E402
from fedcore.types import ClientData, ClientProfile, FederatedDataset  # noqa: E402

LINEAR, NETWORK = Prices(STATIC, 0.3), Prices(LAST_LAYER_INPUT, 0.01)
EVERY = [part for part in settings.PARTS if figures.read(part) is not None]


@pytest.mark.parametrize("prices", [LINEAR, NETWORK], ids=["linear", "network"])
@pytest.mark.parametrize("name", ARMS)
def test_every_arm_spends_the_same_time(name, prices):
    """1000 samples: all but less than one sample an epoch of share x E x m is charged."""
    client, arm = ClientProfile(1000, 1000.0), ARMS[name]
    for share in (0.05, 0.1, 0.3, 0.5):
        for epochs in (1, 5, 10):
            if fits(arm, prices, share, epochs):
                plan = strategy_of(arm, prices).plan(client, share * epochs, epochs)
                work = plan.work(1000)
                assert work <= share * epochs * 1000 + 1e-9
                assert work > share * epochs * 1000 - epochs - 3


@pytest.mark.parametrize("prices", [LINEAR, NETWORK], ids=["linear", "network"])
@pytest.mark.parametrize("name", [name for name, arm in ARMS.items() if arm.proxy == NONE])
def test_what_is_drawn_is_drawn_anew_every_round(name, prices):
    """A coreset that goes by inputs is kept for all rounds, and so would a draw be."""
    plan = strategy_of(ARMS[name], prices).plan(ClientProfile(1000, 1000.0), 2.5, 5)
    assert {phase.coreset.proxy for phase in plan.phases if phase.coreset} == {NONE}


def test_what_is_charged_by_hand():
    assert charges(ARMS["random"], NETWORK) == ()
    assert charges(ARMS["importance"], LINEAR) == (1 / 3,)
    assert charges(ARMS["medoids"], LINEAR) == (0.3,)  # inputs need no look
    assert charges(ARMS["medoids"], NETWORK) == (1 / 3, 0.01)
    assert charges(ARMS["medoids-kept"], LINEAR) == ()
    assert charges(ARMS["fedcore"], NETWORK) == (1.0, 0.01)  # the first epoch is the look
    assert charges(ARMS["fedcore-drawn"], NETWORK) == (1.0,)


def test_what_does_not_fit():
    assert not fits(ARMS["importance"], LINEAR, 0.05, 5)  # 0.25 of an epoch for a third of one
    assert fits(ARMS["importance"], LINEAR, 0.05, 10)
    assert not fits(ARMS["medoids"], LINEAR, 0.3, 1)
    assert fits(ARMS["medoids"], LINEAR, 0.3 + LEAST, 1)
    assert not fits(ARMS["fedcore"], NETWORK, 0.5, 1)  # nothing follows the first epoch
    assert not fits(ARMS["fedcore"], NETWORK, 0.1, 10)


def test_partial_epochs_go_on_where_a_whole_one_ends():
    plan = strategy_of(ARMS["partial"], LINEAR).plan(ClientProfile(100, 1.0), 250.0, 10)
    assert [phase.epochs for phase in plan.phases] == [2, 1]
    assert plan.phases[0].coreset is None
    assert plan.phases[1].coreset.budget == 50


def dataset():
    inputs = torch.arange(40.0).reshape(20, 2)
    labels = torch.arange(20) % 4
    return FederatedDataset({0: ClientData(inputs, labels)}, ClientData(inputs, labels), 4)


def test_noise_changes_so_many_labels_and_nothing_else():
    size = 20_000
    clients = {0: ClientData(torch.zeros(size, 1), torch.arange(size) % 4)}
    found = under("noise-40", FederatedDataset(clients, None, 4), seed=0).clients[0].y
    wrong = found != clients[0].y
    assert wrong.float().mean().item() == pytest.approx(0.4, abs=0.02)
    away = (found - clients[0].y)[wrong] % 4
    assert torch.bincount(away, minlength=4)[1:].tolist() == pytest.approx(
        [int(wrong.sum()) / 3] * 3, rel=0.1
    )


def test_fivefold_has_as_many_samples_each_of_them_five_times():
    found = under("fivefold", dataset(), seed=0)
    rows, counts = torch.unique(found.clients[0].x, dim=0, return_counts=True)
    assert rows.tolist() == dataset().clients[0].x[:4].tolist()
    assert counts.tolist() == [5, 5, 5, 5]
    assert torch.equal(found.test.x, dataset().test.x)


def test_imbalance_by_hand():
    """Five of each of four classes: all, ceil(5 / 4.64), ceil(5 / 21.5), ceil(5 / 100)."""
    found = under("imbalance", dataset(), seed=0).clients[0]
    assert torch.bincount(found.y).tolist() == [5, 2, 1, 1]
    assert all(float(row[0]) / 2 % 4 == label for row, label in zip(found.x, found.y, strict=True))


def test_everybody_has_the_same_share_of_a_whole_round():
    part = settings.PARTS["synthetic"]
    counts = np.array([45, 50, 4645, 321, 7])
    cell = settings.Cell("random", 0.3, 5, "constant", "clean", 0)
    experiment = settings.experiment_of(part, cell, counts)
    fleet = fleet_of(dict(enumerate(counts.tolist())), experiment, 100.0, 0)
    for client, size in enumerate(counts.tolist()):
        time = fleet.profiles[client].capability * fleet.deadline
        assert time == pytest.approx(0.3 * 5 * size, rel=1e-8)
        assert time >= 0.3 * 5 * size


def test_cells_are_those_of_the_issue_and_pieces_are_all_of_them():
    part = settings.PARTS["synthetic"]
    assert len(settings.MAIN) == 9
    assert set(part.arms) >= set(settings.MAIN)
    cells = part.cells()
    assert len(set(cells)) == len(cells)
    assert {cell.condition for cell in cells} == set(CONDITIONS)
    assert not any(c.epochs == 1 and c.arm in figures.SAME_AT_ONE for c in cells)
    joined = [cell for piece in range(7) for cell in cells[piece::7]]
    assert set(joined) == set(cells)


def test_an_interval_by_hand():
    """1, 2, 3: mean 2, s = 1, t of two degrees of freedom 4.3027 over √3."""
    mean, half = figures.interval([1.0, 2.0, 3.0])
    assert mean == 2.0
    assert half == pytest.approx(4.3027 / math.sqrt(3), rel=1e-4)


def row(arm, values, condition="clean", **more):
    own = {"condition": condition, "schedule": "constant", "epochs": 5, "share": 0.1, "arm": arm}
    return {**own, "seeds": [0, 1, 2], "final": values, "steady": values, **more}


def test_differences_are_paired_by_seed_and_averaged_over_settings_first():
    rows = [
        row("random", [0.5, 0.6, 0.7]),
        row("medoids", [0.51, 0.62, 0.73]),
        row("random", [0.1, 0.1, 0.1], "fivefold"),
        row("medoids", [0.11, 0.1, 0.09], "fivefold"),
    ]
    one = figures.difference({"rows": rows}, "medoids")
    assert one.mean == pytest.approx(1.0)  # seeds: (1 + 1) / 2, (2 + 0) / 2, (3 - 1) / 2
    assert one.half == pytest.approx(0.0, abs=1e-9)
    assert one.settings == 2
    clean = figures.difference({"rows": rows}, "medoids", where=lambda key: key[0] == "clean")
    assert (clean.mean, clean.sure) == (pytest.approx(2.0), False)
    assert figures.difference({"rows": rows}, "infobatch") is None


def test_a_run_goes_into_a_line_and_is_not_run_again(tmp_path):
    cell = settings.Cell("medoids", 0.3, 5, "constant", "fivefold", 0)
    found = study.run(settings.PARTS["synthetic"], cell, rounds=2, device="cpu")
    assert len(found["accuracies"]) == 2
    assert found["work"] > 0
    asked = pieces.options("", ["synthetic"], "x").parse_args(["--out", str(tmp_path)])
    ran = []

    def noted(one):
        ran.append(one)
        return found

    for _ in range(2):
        pieces.work_off(asked, [cell], lambda one: "same", lambda line: "same", noted)
    assert ran == [cell]
    assert condense.condense("synthetic", tmp_path / "synthetic", tmp_path) is None  # too short


@pytest.mark.parametrize("name", ["remembered", "anew", "stopped", "mixture", "importance"])
def test_arms_of_all_forms_run(name):
    """One round from one model, on other samples than a draw has: near it."""
    part = settings.PARTS["better"]
    cells = [settings.Cell(arm, 0.1, 5, "constant", "clean", 100) for arm in (name, "random")]
    one, drawn = (study.run(part, cell, rounds=1, device="cpu") for cell in cells)
    assert one["rejected"] == 0
    assert one["accuracies"] == pytest.approx(drawn["accuracies"], abs=0.05)


@pytest.mark.parametrize(
    ("name", "weights"),
    [
        ("kmedoids_unweighted", [3.75] * 4),
        ("kmedoids_clipped", [7.5 * 15 / 10.5, *[15 / 10.5] * 3]),  # at most 2 x 15 / 4
        # (x + 3)² / (x² + 3) = 2 effective samples of four at x = 3 + √12
        ("kmedoids_tempered", [15 * x / (6 + 12**0.5) for x in (3 + 12**0.5, 1, 1, 1)]),
    ],
)
def test_weights_of_own_selectors(name, weights):
    """Clusters of 12, 1, 1 and 1."""
    points = torch.tensor([[0.0]] * 12 + [[10.0], [20.0], [30.0]])
    select = plugins.load("selector", own(name)).select
    found = select(Candidates(Euclidean(points)), 4, np.random.default_rng(0))
    assert found.weights.tolist() == pytest.approx(weights, rel=1e-4)


def test_rules_of_catching_up_by_hand():
    """Lengths 2 and 4 did all 10 steps, 1 one of them, 2 ten of twenty: R = 3, mean a 31 / 4."""
    known = [catch_up.Answer(*one) for one in ((2, 10, 10), (4, 10, 10), (1, 1, 10), (2, 10, 20))]
    assert catch_up.unbounded(known) == [1, 1, 10, 2]
    assert catch_up.to_the_median(known) == [1, 1, 3, 1.5]
    assert catch_up.to_the_longest(known) == [1, 1, 4, 2]
    assert catch_up.nova(known) == [0.775, 0.775, 7.75, 0.775]
    assert catch_up.nova_whole(known) == [1.25, 1.25, 12.5, 1.25]
    assert catch_up.nova_root(known) == pytest.approx([1.25**0.5, 1.25**0.5, 12.5**0.5, 1.25**0.5])
    assert catch_up.nova_longest(known) == [1.25, 1, 4, 1.25]
    assert catch_up.nova_median(known) == [1.25, 0.75, 3, 1.25]


@pytest.mark.skipif("synthetic" not in EVERY, reason="there are no results yet")
def test_the_page_is_not_stale():
    assert page.PAGE.read_text(encoding="utf-8") == page.page().rstrip() + "\n"


@pytest.mark.parametrize("name", EVERY)
def test_results_are_of_this_study_and_say_what_is_missing(name):
    found, part = figures.read(name), settings.PARTS[name]
    assert found["runs"] + found["missing"] == len(part.cells())
    assert (found["rounds"], found["learning_rate"]) == (part.rounds, part.learning_rate)
    assert json.dumps(found["seeds"]) == json.dumps(part.seeds)
    assert all(set(row["seeds"]) <= set(part.seeds) for row in found["rows"])
    cells = {(*figures.setting_of(asdict(cell)), cell.arm) for cell in part.cells()}
    assert {(*figures.setting_of(row), row["arm"]) for row in found["rows"]} <= cells


def test_runs_that_another_machine_made_stay(tmp_path):
    """Two folders, a seed each, one of them twice: three runs, the later of the same one."""
    made = {0: (0.5, 3), 1: (0.6, 0)}
    for folder, (seed, changed) in enumerate([(0, 0.0), (1, 0.0), (1, 0.1)]):
        cell = settings.Cell("random", 0.1, 10, "constant", "clean", seed)
        accuracy, rejected = made[seed]
        told = {"accuracies": [accuracy + changed] * 30, "rejected": rejected}
        lines = tmp_path / str(folder) / "1-of-1.jsonl"
        lines.parent.mkdir()
        lines.write_text(json.dumps({**asdict(cell), **told}))
        maker = {"commit": f"of {folder}"}
        (lines.parent / pieces.ENVIRONMENT).write_text(json.dumps(maker))
        path = condense.condense("mnist-gentle", lines.parent, tmp_path)
    found = json.loads(path.read_text())
    assert (found["runs"], found["missing"]) == (2, 13)
    (row,) = found["rows"]
    assert (row["seeds"], row["final"], row["rejected"]) == ([0, 1], [0.5, 0.7], 3)
    assert found["environment"] == {"commit": "of 2"}
    assert found["before"] == [{"commit": "of 0"}, {"commit": "of 1"}]


def test_a_page_says_what_results_say(tmp_path, monkeypatch):
    """Made up: InfoBatch two points ahead of everybody in every seed, k-medoids one behind."""
    ahead = {"infobatch": 0.02, "medoids": -0.01, "medoids-unweighted": -0.01}
    for name in ("synthetic", "mnist"):
        lines = tmp_path / name / "1-of-1.jsonl"
        lines.parent.mkdir()
        with lines.open("w") as out:
            for cell in settings.PARTS[name].cells():
                value = 0.5 + 0.1 * (cell.seed % 5) + ahead.get(cell.arm, 0.0)
                accuracies = [value] * settings.PARTS[name].rounds
                told = {"accuracies": accuracies, "rejected": 0, "work": 1, "seconds": 1.0}
                out.write(json.dumps({**asdict(cell), **told}) + "\n")
        assert condense.condense(name, lines.parent, tmp_path) is not None
    monkeypatch.setattr(figures, "RESULTS", tmp_path)
    text = " ".join(page.page().split())
    assert "InfoBatch is ahead (+2.0 ± 0.0 points)" in text
    assert "k-medoids, weighted is behind (-1.0 ± 0.0 points)" in text
    assert "| InfoBatch | **+2.0 ± 0.0** |" in text
    assert "does not fit" in text
    assert f"5000 runs of {settings.PARTS['synthetic'].rounds} rounds" in text
    drawn = picture.draw(figures.read("mnist"), ["random", "medoids"], tmp_path / "picture.png")
    assert drawn.stat().st_size > 5_000
