"""Rules of Tempo's merge by hand, and that what the page says of them holds."""

import json
import sys
from pathlib import Path

import pytest
import torch

pytest.importorskip("rich")

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks.choosing import rules, rules_table, steps  # noqa: E402
from benchmarks.choosing.catch_up import Answer  # noqa: E402

from fedcore.server.state import ServerState  # noqa: E402
from fedcore.strategies import tempo  # noqa: E402
from fedcore.types import LocalUpdate  # noqa: E402

KNOWN = [Answer(2.0, 10, 10), Answer(1.0, 40, 90)]  # mean ā 50


def test_factors_by_hand():
    assert rules.AS_THEY_ARE(KNOWN, {}) == [1, 1]
    assert rules.to_the(0.5)(KNOWN, {}) == pytest.approx([5**0.5, 1.25**0.5])
    assert rules.to_the(1.0)(KNOWN, {}) == [5, 1.25]
    assert rules.own_to_the(0.5)(KNOWN, {}) == [1, 1.5]


def test_an_exponent_by_lengths():
    """Lengths as a^-1/2 at first, then as a: s = 1/2 before anything is known, 0, and 1."""
    assert rules.as_measured(KNOWN, {}) == rules.to_the(0.5)(KNOWN, {})
    memory = rules.fitted(KNOWN, {})  # 4 times the steps, half of the length
    assert memory["fit"][0] / memory["fit"][1] == pytest.approx(-0.5)
    assert rules.as_measured(KNOWN, memory) == [1, 1]
    straight = [Answer(1.0, 10, 10), Answer(4.0, 40, 90)]
    assert rules.as_measured(KNOWN, rules.fitted(straight, {})) == pytest.approx([5, 1.25])


def merges(merge, *several):
    """Models after merges of (Δ, steps) on 80 samples, of which E = 10 epochs are 100 steps."""
    state = ServerState({"w": torch.zeros(2, dtype=torch.float64)})
    for answers in several:
        merging = merge(state)
        for number, (move, taken) in enumerate(answers):
            params = {"w": state.params["w"] + torch.tensor(move, dtype=torch.float64)}
            update = LocalUpdate(number, params, steps=taken, num_samples=80)
            merging.add(update, state.params)
        state = merging.finish()
        yield state.params["w"].tolist()


def test_rules_of_merges_by_hand():
    """Four and one of 100 steps: V is 2/3 of the way by 1 / √a, half by answers as they are."""
    told = [([3.0, 0.0], 4), ([9.0, 0.0], 1)]
    ends = {"plain": 6.0, "root": 9.0, "turning": 9.0, "turning-from-one": 7.0}
    ends |= {"turning-plain": 6.0, "turning-nova": 7.8}
    for name, end in ends.items():
        ((found, _),) = merges(rules.merge_of(rules.RULES[name], 10, 8), told)
        assert found == pytest.approx(end), name  # roots would stretch it: the longest is 9


def test_a_first_stretch_as_far_as_answers_agree():
    """Of 100 steps 25 each: φ is 2; one way |V| is the mean |Δ|, at right angles 6.5 of 8.5."""
    merge = rules.merge_of(rules.RULES["turning-agreed"], 10, 8)
    ((found, _),) = merges(merge, [([1.0, 0.0], 25), ([5.0, 0.0], 25)])
    assert found == pytest.approx(5.0)  # 3 times 2 is further than the longest answer
    ((found, _),) = merges(merge, [([12.0, 0.0], 25), ([0.0, 5.0], 25)])
    assert found == pytest.approx(6 * 2 ** (6.5 / 8.5))


def test_below_one_where_that_is_allowed():
    """There and back: a stretch of 1, or of 1 / 2."""
    told = [([4.0, 0.0], 25)], [([-4.0, 0.0], 25)]
    for name, end in {"turning-from-one": 0.0, "turning-free": 2.0}.items():
        *_, (found, _) = merges(rules.merge_of(rules.RULES[name], 10, 8), *told)
        assert found == pytest.approx(end), name


def test_turning_is_tempos_own():
    made = torch.Generator().manual_seed(0)
    several = [
        [(torch.randn(2, generator=made).tolist(), 1 + 7 * n) for n in range(4)] for _ in range(6)
    ]
    ours = list(merges(tempo.build().merge, *several))
    ends = list(merges(rules.merge_of(rules.RULES["turning"], 10, 8), *several))
    assert [v for one in ends for v in one] == pytest.approx([v for one in ours for v in one])


def test_turning_is_tempo_on_synthetic():
    """Twelve rounds by the rule and by the strategy."""
    part = steps.Part("synthetic-1-1", ("tempo",), (90.0,), (0.001,), (0,), rounds=12)
    ours = steps.run(part, ("tempo", 90.0, 0.001, 0), device="cpu")
    options = {"stragglers": (90.0,), "rounds": 12, "learning_rate": 0.001, "device": "cpu"}
    found = rules.run("turning", part.benchmark, 0, **options)
    for figure in rules_table.FIGURES:
        assert found[figure] == pytest.approx(ours[figure], abs=1e-4)
    other = rules.run("turning-from-one", part.benchmark, 0, **options)
    assert other["stretch"][0] == 1 < found["stretch"][0]


def test_what_the_page_says_of_the_rules_holds():
    """The words of rules_table.told; that the page has its numbers, test_choosing.py says."""
    rows = rules_table.read()

    def middle(rule, benchmark, figure="final", level=30.0):
        found = sorted(rules_table.values(rows, rule, (benchmark, level), figure))
        return found[len(found) // 2]

    for figure in rules_table.FIGURES:
        assert middle("root", "mnist", figure) < middle("fedcore", "mnist", figure)
        assert middle("turning", "mnist", figure) > middle("fedcore", "mnist", figure)
        assert middle("turning-local", "mnist", figure) > middle("fedavg", "mnist", figure)
        assert middle("turning", "synthetic-1-1", figure, 10.0) < middle(
            "root", "synthetic-1-1", figure, 10.0
        )
        late, root, now = (
            middle(rule, "synthetic-1-1", figure, 90.0)
            for rule in ("turning-from-one", "root", "turning")
        )
        assert late < root < now < root + 0.2
        for level in (30.0, 97.0):
            began = [middle(r, "mnist", figure, level) for r in ("turning", "turning-from-one")]
            assert began[0] < began[1]
        for rule in ("own-root", "measured"):
            found = middle(rule, "synthetic-1-1", figure, 90.0)
            assert found < middle("turning", "synthetic-1-1", figure, 90.0)
    for figure, gain in {"final": 0.0, "steady": 0.5}.items():
        two = [middle(r, "synthetic-1-1", figure) for r in ("turning-from-one", "turning")]
        assert two[1] >= two[0] + gain
    plain, ours = (middle(r, "mnist", "steady") for r in ("turning-plain", "turning-from-one"))
    assert plain > ours
    ends, means = (
        [
            middle(f"turning-{rule}", "synthetic-1-1", figure, 10.0)
            for rule in ("plain", "from-one", "nova")
        ]
        for figure in rules_table.FIGURES
    )
    assert ends[0] + 2 < ends[1] < ends[2]
    assert means[1] > means[2] + 2
    for name in rules_table.SYNTHETIC:
        ours = middle("turning-from-one", name)
        assert middle("turning-plain", name) < ours < middle("turning-nova", name)
        plain = middle("plain", name)
        assert all(abs(middle(r, name) - plain) < 1.1 for r in ("own-root", "measured"))
        assert min(middle(r, name) for r in ("turning", "root", "turning-nova")) > plain + 4
        assert abs(middle("turning-free", name) - ours) < 0.3
        assert (
            middle("turning-plain-agreed", name)
            < middle("turning-quarter-agreed", name)
            < middle("turning-agreed", name)
        )
        assert middle("turning-local", name) < ours


def test_where_it_begins_too_far_merges_turn_back():
    found = [row for row in rules_table.read() if row["stragglers"] == 97.0]
    assert len(found) >= 3
    for figure in rules_table.FIGURES:
        best = sorted(found, key=lambda row: row[figure])[-2:]
        assert {row["rule"] for row in best} == {"turning-plain", "turning-plain-agreed"}
    for row in found:
        assert row["rounds"] == len(row["test_accuracy"]) == 60
        began = row["test_accuracy"][:4]
        assert (min(began) < 0.15) == (row["rule"] == "turning")  # of ten digits: a merge undone


def test_condensing_keeps_what_others_ran(tmp_path):
    mine = {"benchmark": "synthetic-1-1", "rule": "plain", "stragglers": 30.0, "seed": 7}
    mine |= {"rounds": 2, "final": 0.5, "steady": 0.4, "stretch": None, "made": {"device": "cpu"}}
    path = tmp_path / "rules.json"
    rules.condense([mine], path)
    rules.condense([{**mine, "seed": 6, "stretch": [1.0, 3.0], "made": {"device": "gpu"}}], path)
    rules.condense([{**mine, "final": 0.6}], path)
    kept = json.loads(path.read_text("utf-8"))
    assert kept["made"] == [{"device": "cpu"}, {"device": "gpu"}]
    assert [(row["seed"], row["final"], row["longest stretch"]) for row in kept["rows"]] == [
        (6, 0.5, 3.0),
        (7, 0.6, None),
    ]


def test_what_the_page_calls_not_run_was_not_run():
    """Rows of Table 2 are put in after these words were written."""
    rows = rules_table.read()
    told = " ".join(rules_table.told(rows).values())
    assert ("1 / a was not run there" in told) == (
        not rules_table.values(rows, "turning-nova", ("mnist", 30.0), "final")
    )
    assert told.count("not run") == 1
    assert rules_table.both(rows, "turning", ("shakespeare", 30.0)) in told
