"""Options of ``FedCore``, and what of the house they name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from fedcore import plugins
from fedcore.coreset.proxies import LAST_LAYER_INPUT, STATIC
from fedcore.errors import BadOption
from fedcore.flower.answers import WEIGHT
from fedcore.flower.deadline import Controller
from fedcore.server.merge import RunningMean
from fedcore.server.method import Sampler, Strategy
from fedcore.types import ClientProfile, LocalUpdate, Params
from fedcore.values import at_least, one_of, percentages

LEAST = {"local_epochs": 1, "grace": 0, "quorum": 1, "over_selection": 1, "wait_for_nodes": 0}


@dataclass(frozen=True, kw_only=True)
class Options:
    """What ``FedCore`` takes beside the arguments of FedAvg."""

    deadline: float | str | Controller | None = "auto"  # seconds; 'auto': by the measured fleet
    local_epochs: int = 10  # E, what a node does where time suffices
    grace: float = 3.0  # seconds that answers are waited for after the deadline
    strategy: str = "fedcore"  # what slow nodes do, how answers are merged, and when
    selector: str = "kmedoids"  # coreset method
    selection: str = "uniform"  # sampler
    quorum: int = 1  # fewest answers of a round: with fewer the model stays as it is
    over_selection: float = 1.0  # nodes that are asked for every answer that is waited for
    stragglers: float = 30.0  # percentage of nodes that 'auto' makes stragglers
    seed: int = 0
    checkpoint: str | Path | None = None  # a folder: go on after the last round in it
    out: str | Path | None = None  # a folder for records, as 'fedcore compare' writes them
    wait_for_nodes: float = 300.0  # seconds until too few nodes are an error
    evaluate_timeout: float | None = None  # seconds of federated evaluation; None: 3 deadlines
    weighted_by: str | None = None  # a metric by which answers weigh; None: all the same
    method: Mapping[str, Any] = field(default_factory=dict)  # further ones, of those named above

    def __post_init__(self) -> None:
        """Check every value, so that nothing starts with a bad one."""
        for name, least in LEAST.items():
            at_least(least)(name, getattr(self, name))
        percentages("stragglers", (self.stragglers,))
        one_of(*plugins.names("selector"))("selector", self.selector)  # nodes take no other
        named = (("strategy", self.strategy), ("sampler", self.selection))
        local = (("strategy", own),) if (own := self.method.get("local")) else ()
        plugins.check_taken(self.method, (*named, *local, ("selector", self.selector)))
        self.build_strategy({}, 1)
        self.build_sampler(0)

    def build_sampler(self, model_bytes: int) -> Sampler:
        """The sampler by its name."""
        known = self._known(epochs=self.local_epochs, model_bytes=model_bytes)
        name, own = self.selection, self.method
        built: Sampler = plugins.build("sampler", name, Sampler, options=known, method=own)
        return built

    def build_strategy(self, params: Params, num_clients: int) -> Strategy:
        """The strategy by its name, with the merge that the user asked for."""
        # As in the simulator, inputs stand in for gradients where one linear layer is all.
        linear = sorted(value.ndim for value in params.values()) in ([2], [1, 2])
        known = self._known(
            proxy=STATIC if linear else LAST_LAYER_INPUT,
            selector=self.selector,
            num_clients=num_clients,
            clients_per_round=num_clients,
            model_bytes=sum(value.nbytes for value in params.values()),
            method=self.method,
        )
        known["options"] = known
        name, own = self.strategy, self.method
        built: Strategy = plugins.build("strategy", name, Strategy, options=known, method=own)
        if self.weighted_by is None:
            return built
        if not (isinstance(built.merge, partial) and built.merge.func is RunningMean):
            raise BadOption(f"weighted_by_key must be left out: {name!r} has weights of its own")
        return replace(built, merge=partial(RunningMean, _by_metric))

    def _known(self, **options: Any) -> dict[str, Any]:
        """Options that plug-ins may take, but for those that the user gave."""
        return {name: value for name, value in options.items() if name not in self.method}


def keeps_no_deadline(method: Strategy) -> bool:
    """Whether a strategy has even the slowest client do everything, as FedAvg does."""
    return method.plan(ClientProfile(1000, 1e-3), 1.0, 1).work(1000) >= 1000


def _by_metric(update: LocalUpdate) -> float:
    return update.copies * float((update.payload or {})[WEIGHT])
