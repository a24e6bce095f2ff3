"""The arms: what clients do with share x E x m samples of time, scoring and choosing included."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from fedcore.coreset.proxies import LOGITS, NONE, REMEMBERED, STATIC
from fedcore.deadline import coreset_budget
from fedcore.server.merge import aggregation
from fedcore.server.method import Plan, Strategy
from fedcore.strategies import fedcore, tempo
from fedcore.types import SIT_OUT, ClientProfile, CoresetSpec, LocalPlan, Phase, Way

OWN = Path(__file__).parent / "selectors"
MODEL = "of the model"  # in place of a proxy: inputs of linear models, else dL/dz
FORWARD = 1 / 3  # a sample that passes forward, in trained ones
LEAST = 0.005  # of a client's samples that must be left to train on in an epoch


def own(name: str) -> str:
    """A selector of the study's own, by its path."""
    return str(OWN / f"{name}.py")


@dataclass(frozen=True)
class Prices:
    """What a benchmark's model makes of proxies, and what choosing costs beside it."""

    proxy: str
    choosing: float  # in trained samples per sample, as benchmarks/selection_price.py measures it


@dataclass(frozen=True)
class Arm:
    """A way to spend the time. ``form`` is how epochs and samples share it."""

    title: str
    selector: str = "uniform-plain"
    proxy: str = NONE
    form: str = "once"
    free: bool = False  # neither looking nor choosing is charged: a bound, not a method


ARMS: dict[str, Arm] = {
    "random": Arm("random, per round"),
    "random-epochs": Arm("random, per epoch", form="every epoch"),
    "partial": Arm("partial epochs on everything", form="on and on"),
    "stratified": Arm("stratified by class", "stratified"),
    "importance": Arm("importance, gated", "importance", LOGITS),
    "infobatch": Arm("InfoBatch", "infobatch", LOGITS),
    "medoids": Arm("k-medoids, weighted", "kmedoids", MODEL),
    "medoids-unweighted": Arm("k-medoids, unweighted", own("kmedoids_unweighted"), MODEL),
    "medoids-per-class": Arm("k-medoids per class", "kmedoids-per-class", MODEL),
    # Coresets of inputs do not change, so a client may choose once and keep them.
    "medoids-kept": Arm("k-medoids, weighted, at no price", "kmedoids", MODEL, free=True),
    # One epoch on everything, then E - 1 on a coreset, and the same with what is drawn.
    "fedcore": Arm("FedCore: full epoch, k-medoids", "kmedoids", MODEL, "after an epoch"),
    "fedcore-drawn": Arm("full epoch, then random", form="after an epoch"),
    # Better selection, if there is any.
    "tempered": Arm("k-medoids, weights tempered", own("kmedoids_tempered"), MODEL, free=True),
    "clipped": Arm("k-medoids, weights clipped", own("kmedoids_clipped"), MODEL, free=True),
    "mixture": Arm("half k-medoids, half random", "kmedoids", MODEL, "half", free=True),
    "remembered": Arm("importance by the last round's loss", proxy=REMEMBERED),
    "anew": Arm("k-medoids anew every epoch", "kmedoids", MODEL, "anew", free=True),
    "stopped": Arm("k-medoids until they are learnt", "kmedoids", MODEL, "stopped", free=True),
}
EPOCH_BY_EPOCH = ("anew", "stopped")  # forms that an executor of the study's own follows


def charges(arm: Arm, prices: Prices) -> tuple[float, ...]:
    """What comes before training, in trained samples per sample: a look, the choice, an epoch."""
    proxy = prices.proxy if arm.proxy == MODEL else arm.proxy
    before = (1.0,) if arm.form == "after an epoch" else ()
    if arm.free or proxy in (NONE, REMEMBERED):
        return before
    look = () if proxy == STATIC or before else (FORWARD,)
    return (*before, *look, *[prices.choosing] * (arm.proxy == MODEL))


def fits(arm: Arm, prices: Prices, share: float, epochs: int) -> bool:
    """Whether what is charged leaves enough time to train in."""
    later = epochs - 1 if arm.form == "after an epoch" else epochs
    return later > 0 and share * epochs - sum(charges(arm, prices)) >= LEAST * later


def strategy_of(arm: Arm, prices: Prices) -> Strategy:
    """Plain means of what clients answer who all follow one arm."""
    if arm.form == "after an epoch":
        # A draw by the model's proxy would be one of inputs, hence kept for all rounds.
        proxy, priced = (prices.proxy, prices.choosing) if arm.proxy == MODEL else (arm.proxy, 0.0)
        return fedcore.build(selector=arm.selector, proxy=proxy, selection_price=priced)
    plan = tempo.plan if arm.form == "on and on" else on_samples(arm, prices)
    return Strategy(plan, aggregation("mean"), keeps_deadline=True)


def on_samples(arm: Arm, prices: Prices) -> Plan:
    """[A look,] then E epochs on as many samples as fit."""
    proxy = prices.proxy if arm.proxy == MODEL else arm.proxy
    before = charges(arm, prices)
    choosing = prices.choosing if arm.proxy == MODEL and not arm.free else 0.0
    looks = proxy not in (NONE, REMEMBERED, STATIC)
    look = (Phase(1, forward_price=0.0 if arm.free else FORWARD),) * looks

    def plan(client: ClientProfile, deadline: float, epochs: int) -> LocalPlan:
        budget, times = coreset_budget(client, deadline, epochs, before, shorten=True)
        if budget == 0:
            return SIT_OUT
        spec = CoresetSpec(budget, arm.selector, proxy, price=choosing)
        return LocalPlan((*look, *phases_of(arm.form, spec, times)), Way.FORWARD_CORESET)

    return plan


def phases_of(form: str, spec: CoresetSpec, times: int) -> tuple[Phase, ...]:
    """One choice for all epochs, one for each, or one for half of them and draws for the rest."""
    if form == "every epoch":
        return (Phase(1, spec),) * times
    if form == "half":
        drawn = Phase(1, replace(spec, selector="uniform-plain", proxy=NONE))
        return (Phase(-(-times // 2), spec), *[drawn] * (times // 2))
    return (Phase(times, spec),)
