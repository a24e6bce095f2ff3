"""Turns, the proof that all did the same work, and ratios: no proof, no ratio."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peers.contestants import LONGEST_RUN, Contestant, Run, Runner, Variant
from benchmarks.peers.environments import PeerUnavailable
from benchmarks.peers.work import Weights

# How far from the reference a model may end, as a share of the way that training went. Rounding
# makes 0.0004 of five rounds of Synthetic; every order moved by one sample, 0.003.
SAME = 1e-3
OURS, REFERENCE = "ours", "plain loop"
Say = Callable[[str], None]


@dataclass
class Score:
    """What became of a contestant: runs of its best variant, or why there are none."""

    contestant: Contestant
    variant: Variant | None = None
    runs: list[Run] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)

    @property
    def seconds(self) -> float | None:
        """Seconds per round: the best turn, since others may use the machine as well."""
        return min((run.seconds for run in self.runs), default=None)


def take_turns(
    everybody: Sequence[Contestant],
    unavailable: dict[str, str],
    folder: Path,
    turns: int,
    run: Runner,
    say: Say,
) -> list[Score]:
    """Everybody in turn, ``turns`` times; the first turn finds everybody's best variant.

    Args:
        everybody: who is measured.
        unavailable: peers that could not be installed, and why.
        folder: where the work lies.
        turns: how often everybody runs.
        run: runs one variant.
        say: told what goes on.
    """
    scores = [Score(contestant) for contestant in everybody]
    for turn in range(turns):
        for score in scores:
            who = score.contestant
            if who.peer in unavailable:
                score.reasons = [unavailable[who.peer]]
                continue
            if turn == 0:
                _first_turn(score, folder, run)
            elif score.variant is not None:
                try:
                    score.runs.append(run(who, score.variant, folder, LONGEST_RUN))
                except PeerUnavailable as error:
                    score.reasons.append(f"{score.variant.name}: {error}")
            shown = "; ".join(score.reasons[-1:])
            if score.runs:
                name = score.variant.name if score.variant else ""
                shown = f"{score.runs[-1].seconds:.4f} s a round ({name})"
            say(f"  turn {turn + 1}, {who.name}: {shown}")
    return scores


def _first_turn(score: Score, folder: Path, run: Runner) -> None:
    limit = LONGEST_RUN
    for variant in score.contestant.variants:
        try:
            tried = run(score.contestant, variant, folder, limit)
        except PeerUnavailable as error:
            score.reasons.append(f"{variant.name}: {error}")
            continue
        # A variant that takes twice as long is not the best one: no need to see its end.
        limit = min(limit, 2 * tried.wall_seconds)
        if not score.runs or tried.seconds < score.runs[0].seconds:
            score.variant, score.runs = variant, [tried]


def distance(final: Weights, reference: Weights, initial: Weights) -> float:
    """||final - reference|| / ||reference - initial|| over all parameters, or infinity."""
    if [value.shape for value in final] != [value.shape for value in reference]:
        return float("inf")
    apart = sum(float(((a - b) ** 2).sum()) for a, b in zip(final, reference, strict=True))
    way = sum(float(((a - b) ** 2).sum()) for a, b in zip(reference, initial, strict=True))
    share = float(np.sqrt(apart / way)) if way > 0 else float("inf")
    return share if np.isfinite(share) else float("inf")


def rows(scores: Sequence[Score], initial: Weights) -> list[dict[str, Any]]:
    """A row for everybody, with a ratio to ours where both ended with the reference's model."""
    by_name = {score.contestant.name: score for score in scores}
    reference = by_name[REFERENCE].runs
    apart = {
        name: max(distance(run.answer.final, reference[0].answer.final, initial) for run in s.runs)
        for name, s in by_name.items()
        if s.runs and reference
    }
    same = {name: value <= SAME for name, value in apart.items()}
    ours = by_name[OURS].seconds if same.get(OURS) else None
    return [_row(score, apart.get(score.contestant.name), ours) for score in scores]


def _row(score: Score, apart: float | None, ours: float | None) -> dict[str, Any]:
    row: dict[str, Any] = {"name": score.contestant.name}
    if score.reasons:
        row["not measured"] = score.reasons
    seconds = score.seconds
    if seconds is None or score.variant is None:
        return row
    best = min(score.runs, key=lambda run: run.seconds)
    row |= {
        "variant": score.variant.name,
        "seconds per round": float(f"{seconds:.4g}"),
        "every turn": [float(f"{run.seconds:.4g}") for run in score.runs],
        "first round": round(best.answer.round_seconds[0], 2),
        "start and end": round(best.overhead, 2),
        "distance": None if apart is None else float(f"{apart:.1e}"),
    }
    if apart is None or ours is None:
        row["no ratio"] = "ours or the plain loop has no valid result to compare with"
    elif apart > SAME:
        row["no ratio"] = f"its model ends {apart:.2g} of the way from the plain loop's"
    else:
        row["times ours"] = float(f"{seconds / ours:.3g}")
    return row
