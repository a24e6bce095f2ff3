"""Rules of Tempo's merge, at the paper's own step sizes: what makes up for steps not taken.

    python -m benchmarks.choosing.rules --benchmark mnist --rules turning,root --seeds 0 --out FILE

Answers Δ_i of clients that took a_i of their ā_i steps become V = Σ p_i φ_i Δ_i / Σ p_i φ_i, and
the model moves by γ V, no further than the longest answer. The rules differ in φ and in γ. A line
of JSON per run is added to the file, and left alone where it is there; `--condense` writes the
results, from which ``python -m benchmarks.choosing.page`` has a section (rules_table.py).
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest import mock

import torch

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "src"))

from benchmarks.choosing.catch_up import Answer, Known, mean  # noqa: E402
from benchmarks.choosing.pieces import write  # noqa: E402
from benchmarks.choosing.steps import federation_of  # noqa: E402
from benchmarks.stragglers.__main__ import nothing_of_training_data  # noqa: E402
from fedcore.config import Experiment, resolve  # noqa: E402
from fedcore.history import STEADY, environment  # noqa: E402
from fedcore.records import RunKey  # noqa: E402
from fedcore.server.merge import Updates, all_at_once, cosine, length, moved, summed  # noqa: E402
from fedcore.server.method import Merge, Strategy  # noqa: E402
from fedcore.server.state import ServerState  # noqa: E402
from fedcore.sim.federation import Federation  # noqa: E402
from fedcore.sim.measure import Measure  # noqa: E402
from fedcore.sim.world import build_strategy, build_world, simulate_rounds  # noqa: E402
from fedcore.sources.benchmark import find  # noqa: E402
from fedcore.strategies import tempo  # noqa: E402
from fedcore.types import ClientProfile, LocalPlan, Params  # noqa: E402

Memory = Params  # what a rule keeps from merge to merge
Factors = Callable[[Known, Memory], list[float]]  # -> φ
LAST = "last/"  # before the names of the parameters of the last V
KEY = ("benchmark", "rule", "stragglers", "seed")  # of a run
RESULT = ROOT / "benchmarks" / "results" / "choosing-rules.json"
FORGET = 0.9  # of sums over rounds


def to_the(power: float) -> Factors:
    """φ = (mean ā / a)^power."""

    def factors(known: Known, _: Memory) -> list[float]:
        far = mean(known, [one.whole for one in known])
        return [(far / one.steps) ** power for one in known]

    return factors


AS_THEY_ARE, ROOT_OF = to_the(0.0), to_the(0.5)


def own_to_the(power: float) -> Factors:
    """φ = (ā / a)^power: who did everything counts as it is."""
    return lambda known, _: [one.missed**power for one in known]


def as_measured(known: Known, memory: Memory) -> list[float]:
    """φ = (mean ā / a)^s, lengths having grown as a^s in the rounds before; at first s = 1/2."""
    both, own = memory.get("fit", torch.tensor([1.0, 2.0])).tolist()
    return to_the(min(1.0, max(0.0, both / own)))(known, memory)


@dataclass(frozen=True)
class Rule:
    """φ of answers; γ, the mean φ or found by how V turns; larger steps of slow clients."""

    title: str
    factors: Factors
    turning: bool = False
    local: float = 0.0  # steps of slow clients are longer by (samples asked / trained)^local
    least: float = 1.0  # γ, where it turns
    first: float | None = 1.0  # γ of the first merge, where it turns; None: mean √(mean ā / a)
    agreed: bool = False  # that to the power of |V| / mean |Δ|: as far as answers point one way
    keeps_deadline: bool = True


RULES: dict[str, Rule] = {
    "fedavg": Rule("FedAvg, no deadline", AS_THEY_ARE, keeps_deadline=False),
    "plain": Rule("answers as they are", AS_THEY_ARE),
    "root": Rule("√(mean ā / a): Tempo's earlier rule", to_the(0.5)),
    "own-root": Rule("√(own ā / a)", own_to_the(0.5)),
    "measured": Rule("(mean ā / a)^s, s by lengths", as_measured),
    "turning": Rule("**1 / √a, γ by turning: Tempo**", to_the(0.5), True, first=None),
    "turning-from-one": Rule("1 / √a, γ by turning, at first 1", to_the(0.5), True),
    "turning-agreed": Rule(
        "1 / √a, γ by turning, at first φ^(|V| / mean |Δ|)", to_the(0.5), True, 0.0, 1.0, None, True
    ),
    "turning-plain": Rule("answers as they are, γ by turning", AS_THEY_ARE, turning=True),
    "turning-plain-agreed": Rule(
        "answers as they are, γ by turning, at first φ^(|V| / mean |Δ|)",
        *(AS_THEY_ARE, True, 0.0, 1.0, None, True),
    ),
    "turning-quarter-agreed": Rule(
        "a^-¼, γ by turning, at first φ^(|V| / mean |Δ|)", to_the(0.25), True, 0.0, 1.0, None, True
    ),
    "turning-nova": Rule("1 / a, γ by turning", to_the(1.0), turning=True),
    "turning-free": Rule("1 / √a, γ by turning, below 1 too", to_the(0.5), True, least=0.0),
    "turning-local": Rule("1 / √a, γ by turning, local steps √(ā / a)", to_the(0.5), True, 0.5),
    "turning-local-4": Rule("the same, local steps (ā / a)^¼", to_the(0.5), True, 0.25),
    "turning-plain-local": Rule("answers as they are, the same, √(ā / a)", AS_THEY_ARE, True, 0.5),
}


def merge_of(rule: Rule, epochs: int, batch_size: int) -> Merge:
    """w + min(γ |V|, max |Δ|) V / |V|."""

    def merge(state: ServerState, updates: Updates) -> ServerState:
        known = [answer_of(rule, one, epochs, batch_size) for one in updates]
        factors = rule.factors(known, state.tensors)
        shares = [one.copies * own for one, own in zip(known, factors, strict=True)]
        move = summed(updates, [share / sum(shares) for share in shares])
        stretch, memory = mean(known, factors), fitted(known, state.tensors)
        if rule.turning:
            first = mean(known, ROOT_OF(known, memory)) if rule.first is None else rule.first
            if rule.agreed:
                far = sum(share * one.length for one, share in zip(known, shares, strict=True))
                first **= float(length(move)) * sum(shares) / max(far, 1e-30)
            stretch = turned(state.tensors, move, known, first, rule.least)
            memory |= {"stretch": torch.tensor(stretch)}
            memory |= {LAST + name: value for name, value in move.items()}
        reach = max(one.length for one in known) / max(float(length(move)), 1e-30)
        return replace(state, params=moved(state.params, move, min(stretch, reach)), tensors=memory)

    return all_at_once(merge, moves=True)


def answer_of(rule: Rule, one: Any, epochs: int, batch_size: int) -> Answer:
    """Steps count by how long they were."""
    whole = epochs * -(-one.num_samples // batch_size)
    longer = max(1.0, whole / one.steps) ** rule.local
    return Answer(float(length(one.params)), one.steps * longer, whole, one.copies)


def turned(memory: Memory, move: Params, known: Known, first: float, least: float) -> float:
    """γ ← γ 2^cos(V, last V), from ``least`` up to mean ā / mean a; at first ``first``.

    Had the last move been too long, this one would point back. V · last V is how the loss falls
    with the last γ: hypergradient descent (Almeida 1999; Baydin et al. 2018), by angles.
    """
    most = mean(known, [o.whole for o in known]) / mean(known, [o.steps for o in known])
    before = {name.removeprefix(LAST): v for name, v in memory.items() if name.startswith(LAST)}
    if not before:
        return min(max(1.0, most), max(least, first))
    return min(max(1.0, most), max(least, float(memory["stretch"]) * 2 ** cosine(move, before)))


def fitted(known: Known, memory: Memory) -> dict[str, Any]:
    """Sums of log a log |Δ| and of (log a)², about their means: their ratio is s."""
    steps = [math.log(one.steps) for one in known]
    lengths = [math.log(max(one.length, 1e-30)) for one in known]
    about, around = mean(known, steps), mean(known, lengths)
    both = [(a - about) * (b - around) for a, b in zip(steps, lengths, strict=True)]
    now = torch.tensor([mean(known, both), mean(known, [(a - about) ** 2 for a in steps])])
    before = memory.get("fit")
    return {"fit": now if before is None else FORGET * before + (1 - FORGET) * now}


def strategy_of(rule: Rule, experiment: Experiment, federation: Federation) -> Strategy:
    """Tempo's plans, merged by a rule."""
    if not rule.keeps_deadline:
        there = federation.proxy, len(federation.dataset.clients), federation.model_bytes
        return build_strategy("fedavg", experiment, *there)

    def plan(client: ClientProfile, deadline: float, epochs: int) -> LocalPlan:
        own = tempo.plan(client, deadline, epochs)
        asked, trained = epochs * client.num_samples, own.trained(client.num_samples)
        return replace(own, step_scale=(asked / trained) ** rule.local) if trained else own

    asked = experiment.epochs, experiment.batch_size
    return Strategy(plan, merge_of(rule, *asked), keeps_deadline=True)


def run(name: str, benchmark: str, seed: int, **options: Any) -> dict[str, Any]:
    """Accuracy per round, and γ V's stretch where it turns."""
    level = options["stragglers"][0]
    given = {"benchmark": benchmark, "strategies": ("fedavg",), "seed": (seed,), **options}
    experiment = resolve(given, lambda name, preset: find(name).hyperparameters(preset))
    federation = federation_of(benchmark, seed, options.get("data_dir"))
    strategy = strategy_of(RULES[name], experiment, federation)
    began, accuracies, stretches, rejected = time.perf_counter(), [], [], 0
    with mock.patch.object(Measure, "train", nothing_of_training_data):
        world = build_world(federation, experiment, RunKey(benchmark, name, level, seed), strategy)
        for record, state in simulate_rounds(world):
            accuracies.append(round(record.test_accuracy or 0.0, 4))
            stretches.append(round(float(state.tensors.get("stretch", 0.0)), 2))
            rejected += record.rejected
    return {
        "benchmark": benchmark,
        "rule": name,
        "stragglers": level,
        "seed": seed,
        "rounds": len(accuracies),
        "final": accuracies[-1],
        "steady": round(statistics.fmean(accuracies[STEADY - 1 :] or accuracies), 5),
        "rejected": rejected,
        "seconds": round(time.perf_counter() - began, 1),
        "test_accuracy": accuracies,
        "stretch": stretches if RULES[name].turning else None,
        "made": environment(),
    }


def read(path: Path) -> list[dict[str, Any]]:
    """Lines of a file, if it is there; one that was cut off is left out."""
    found = []
    for line in path.read_text("utf-8").splitlines() if path.exists() else ():
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return found


def condense(rows: Sequence[Mapping[str, Any]], path: Path = RESULT) -> Path:
    """A line per run: accuracies, the longest stretch, of networks the curves, and who made it.

    Lines that the file has of other runs, which another machine may have made, stay.
    """
    before = json.loads(path.read_text("utf-8")) if path.exists() else {"made": [], "rows": []}
    known = {place_of(row): row | {"made": before["made"][row["made"]]} for row in before["rows"]}
    for row in rows:
        line = {name: row[name] for name in (*KEY, "rounds", "final", "steady")}
        line["longest stretch"] = max(row["stretch"]) if row["stretch"] else None
        curve = {} if row["benchmark"].startswith("synthetic") else {"test_accuracy"}
        known[place_of(row)] = line | {name: row[name] for name in (*curve, "made")}
    made, lines = before["made"], []
    for _, row in sorted(known.items()):
        if row["made"] not in made:
            made.append(row["made"])
        lines.append({**row, "made": made.index(row["made"])})
    return write(path, {"command": "python -m benchmarks.choosing.rules", "made": made}, lines)


def place_of(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """In the order of results: rules as they are listed above."""
    return row["benchmark"], row["stragglers"], [*RULES].index(row["rule"]), row["seed"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--benchmark", default="synthetic-1-1")
    parser.add_argument("--rules", default=",".join(RULES), help="separated by commas")
    parser.add_argument("--seeds", default="0")
    parser.add_argument("--stragglers", type=float, default=30.0)
    parser.add_argument("--rounds", type=int, default=0, help="other than the paper's")
    parser.add_argument("--evaluate-samples", type=int, default=0, help="0: all")
    parser.add_argument("--data-dir")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path, default=ROOT / "runs" / "rules.jsonl")
    parser.add_argument("--condense", action="store_true", help="run nothing; write the results")
    asked = parser.parse_args()
    if asked.condense:
        print(f"written: {condense(read(asked.out))}")
        return
    torch.set_num_threads(asked.threads)
    options = {"stragglers": (asked.stragglers,), "threads": asked.threads, "device": asked.device}
    extra = {"rounds": asked.rounds, "evaluate_samples": asked.evaluate_samples}
    options |= {name: value for name, value in extra.items() if value}
    options |= {"data_dir": asked.data_dir} if asked.data_dir else {}
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    known = {tuple(map(row.get, KEY)) for row in read(asked.out)}
    for seed in map(int, asked.seeds.split(",")):
        for name in asked.rules.split(","):
            if (asked.benchmark, name, asked.stragglers, seed) in known:
                continue
            row = run(name, asked.benchmark, seed, **options)
            with asked.out.open("a", encoding="utf-8") as out:
                out.write(json.dumps(row) + "\n")
            told = f"final {100 * row['final']:.1f}, from round 10 {100 * row['steady']:.1f}"
            print(f"{asked.benchmark} {name} seed {seed}: {told}, {row['seconds']} s", flush=True)


if __name__ == "__main__":
    main()
