"""``fedcore.advise``: which deadline, by arithmetic and by short runs at several."""

import math
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from fedcore.cli.grid import prepare
from fedcore.config import Experiment, resolve
from fedcore.coreset.proxies import LAST_LAYER_INPUT
from fedcore.errors import BadOption
from fedcore.losses import CROSS_ENTROPY
from fedcore.records import RunKey
from fedcore.sim.fleet import Known, Sizes, fleet_of, read_fleet
from fedcore.sim.outlook import FEWEST, Curve, Outlook, outlook, time_to
from fedcore.sim.world import World, build_strategy, build_world, simulate_rounds
from fedcore.sources.benchmark import find
from fedcore.sources.clients import sizes_of
from fedcore.threads import one_thread_each
from fedcore.values import MANY, above_zero, at_least, convert, whole_number

# What is advised on, unless it is said otherwise; stragglers make the deadline τ to compare with.
ADVISED = {"strategies": "tempo", "stragglers": 30.0}
MULTIPLES = [2.0**power for power in range(-5, 3)]  # of τ, beside the time of sending
TURNS = (8, 4, 2, 2, 2, 2)  # how many deadlines are tried, with a seed each: the best so far
MOST_PLANNED = 2000  # clients that arithmetic looks at
EVALUATED = 5000  # samples that a model is measured on, unless it is said otherwise
SHARE = 0.95  # of the best accuracy that the first seed sees: the target where none is given
Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Advice:
    """What is known of every deadline; as text, which one to take."""

    outlooks: tuple[Outlook, ...]
    target: float | None = None  # None: nothing was tried for long enough

    @property
    def best(self) -> Outlook:
        """That of the shortest time that 80 % of runs keep."""
        return min(self.outlooks, key=lambda one: one.time * one.within)

    def __str__(self) -> str:
        one, take = self.best, f"Take a deadline of {shown(self.best.deadline)} s"
        if self.target is None:
            needs = f"data, and a budget for {FEWEST} rounds of a trial"
            return f"{take}, by arithmetic alone: the time to an accuracy needs {needs}."
        if one.time == math.inf:
            return f"No trial came near {self.target:.1%}; raise the budget or lower the target."
        span = f"{shown(one.time / one.within)} to {shown(one.time * one.within)} s in 80 % of runs"
        when = f"{take}: {self.target:.1%} accuracy after about {shown(one.time)} s ({span})"
        usual = next(other.time for other in self.outlooks if other.of_tau == 1)
        if usual == math.inf:
            when += "; with tau no trial came near it"
        elif one.of_tau != 1:
            when += f", in place of {shown(usual)} s with tau"
        edge = one.of_tau == min(other.of_tau for other in self.outlooks)
        return f"{when}. None shorter was tried." if edge else f"{when}."


def shown(number: float) -> str:
    """A number in three digits, or whole."""
    return f"{number:,.0f}" if 100 <= number < math.inf else f"{number:.3g}"


@one_thread_each()
def advise(
    source: str | Path,
    *,
    budget: float = 15.0,
    model_bytes: int = 0,
    tell: Tell = lambda what: None,
    **options: Any,
) -> Advice:
    """Say what deadlines mean for a fleet, and which one gets to a target accuracy first.

    Of a benchmark, or a .py file of one, short runs are trained, for ``budget`` seconds of
    processor time, up to the first of ``targets``, or to 95 % of the best accuracy seen. Of a .csv
    file of ``speeds`` with links and a last column ``samples`` there is the arithmetic, for a model
    of so many bytes. The options are those of ``fedcore compare``; ``tell`` hears what is tried.
    """
    source, budget = str(source), convert("budget", budget, float)
    above_zero("budget", budget)
    whole_number("model_bytes", model_bytes, 0)
    csv = source.endswith(".csv")
    given = {**ADVISED, **options, "speeds" if csv else "benchmark": source}
    if options.get("deadline") and "stragglers" not in options:
        del given["stragglers"]  # which it says
    ask = None if csv else find(source).hyperparameters
    experiment = resolve(given, lambda _, preset: {} if ask is None else ask(preset))
    for name in ("strategies", "stragglers", "seed", "learning_rates"):
        if len(several := getattr(experiment, name)) > 1:
            raise BadOption(f"{name} must be one here, got {several}; call once for each")
    if experiment.loss != CROSS_ENTROPY:
        raise BadOption(f"loss {experiment.loss!r} has no accuracy to reach; leave it out here")
    if not csv:
        return _tried(experiment, budget, tell)
    rows = read_fleet(source)
    if not rows or max(row[-1] for row in rows.values()) == math.inf:
        raise BadOption(f"speeds {source!r} must have a last column 'samples' here; add it")
    if not model_bytes and min(min(row[1:3]) for row in rows.values()) < math.inf:
        raise BadOption("model_bytes must be above 0 where a fleet has links, got 0; say the size")
    sizes = {client: math.ceil(row[-1]) for client, row in rows.items()}
    at_least(1, MANY**2)("samples", max(sizes.values()))
    return Advice(tuple(_looked_at(experiment, sizes, LAST_LAYER_INPUT, model_bytes)[0]))


def _looked_at(
    experiment: Experiment, sizes: Sizes, proxy: str, model_bytes: int
) -> tuple[list[Outlook], Known]:
    """The arithmetic of τ·x beside the time in which as many can send as can train in τ."""
    plan = build_strategy(experiment.strategies[0], experiment, proxy, len(sizes), model_bytes).plan
    level, seed = max(experiment.stragglers, default=0.0), experiment.seed[0]
    # Compute alone makes τ; how far links reach depends on the model where it is compressed.
    fleet, linked = (fleet_of(sizes, experiment, level, seed, sent) for sent in (0, model_bytes))
    some = list(linked.profiles.values())[:: 1 + len(sizes) // MOST_PLANNED]
    sends = [one.transfer_seconds(model_bytes) for one in some]
    sending = float(np.percentile(sends, 100 - (level or fleet.stragglers)))
    rest = some, plan, experiment, model_bytes
    return [outlook(sending + x * fleet.deadline, x, *rest) for x in MULTIPLES], linked.profiles


def _tried(experiment: Experiment, budget: float, tell: Tell) -> Advice:
    """Short runs at all deadlines with one seed, at the better half with the next, and so on."""
    seeds = tuple(range(experiment.seed[0], experiment.seed[0] + len(TURNS)))
    federations, name = prepare(replace(experiment, seed=seeds)), experiment.strategies[0]
    first = federations[seeds[0]]
    sizes = sizes_of(first.dataset.clients)
    found, profiles = _looked_at(experiment, sizes, first.proxy, first.model_bytes)
    arithmetic, samples = tuple(found), experiment.evaluate_samples or EVALUATED
    # A budget that never ends stands for a number of rounds.
    own = replace(experiment, evaluate_samples=samples, time_budget=float(MANY))
    strategy = build_strategy(name, own, first.proxy, len(sizes), first.model_bytes)
    target, began, coming = (*experiment.targets, math.inf)[0], time.process_time(), sum(TURNS)
    curves: list[list[Curve]] = [[] for _ in found]
    for seed, width in zip(seeds, TURNS, strict=True):
        best = sorted(range(len(found)), key=lambda n: found[n].time * found[n].within)
        for place in best[:width][::-1]:  # what is compiled is at the first one's expense
            one, passed = found[place], time.process_time() - began
            tell(f"{min(1, passed / budget):.0%}: trying a deadline of {shown(one.deadline)} s")
            at = replace(own, deadline=one.deadline, stragglers=())
            world = build_world(federations[seed], at, RunKey("", name, 0.0, seed), strategy)
            world.server.profiles = profiles  # seeds are of cohorts and shuffles; the fleet stays
            world.server.ahead = 0  # for rounds that may never come
            until = time.process_time() + (budget - passed) / coming
            curves[place].append(_trained(world, target, until))
            coming -= 1
        if target == math.inf:
            long = [max(seen) for runs in curves for seen, _ in runs if len(seen) >= FEWEST]
            target = SHARE * max(long, default=math.inf)
        for place, runs in enumerate(curves):
            (seconds, within), tried = time_to(target, runs), sum(len(seen) for seen, _ in runs)
            found[place] = replace(found[place], time=seconds, within=within, tried=tried)
    return Advice(tuple(found), target) if target < math.inf else Advice(arithmetic)


def _trained(world: World, target: float, until: float) -> Curve:
    """Rounds up to the ``target``, or to a time of the processor's clock."""
    seen, passed = list[float](), 0.0
    with closing(simulate_rounds(world)) as rounds:
        for record, _ in rounds:
            tested = record.test_accuracy
            seen.append(record.train_accuracy or 0.0 if tested is None else tested)
            passed += record.seconds
            if seen[-1] >= target or time.process_time() > until:
                break
    return seen, passed / len(seen)
