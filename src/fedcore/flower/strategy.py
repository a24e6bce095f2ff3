"""``fedcore.flower.FedCore``: a Flower strategy whose rounds end on time on the wall clock."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import partial
from logging import INFO, WARNING
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn, cast

from flwr.app import ArrayRecord, ConfigRecord, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvg, Result
from flwr.supercore import log

from fedcore import plugins
from fedcore.coreset.proxies import LAST_LAYER_INPUT, STATIC
from fedcore.errors import BadOption, FedCoreError
from fedcore.flower import ledger
from fedcore.flower.clock import GridClock, Notes
from fedcore.flower.fleet import UNMEASURED, Fleet
from fedcore.flower.post import Post
from fedcore.flower.wire import WEIGHT, initial_params, to_record
from fedcore.records import RunKey
from fedcore.server.controller import Controller, Seen
from fedcore.server.loop import LoopSettings, Server
from fedcore.server.merge import RunningMean
from fedcore.server.method import Plan, Sampler, Strategy
from fedcore.server.state import ServerState
from fedcore.types import ClientProfile, LocalPlan, Params, Way
from fedcore.values import above_zero, at_least, one_of, percentages

LEAST = {"local_epochs": 1, "grace": 0, "quorum": 1, "over_selection": 1, "wait_for_nodes": 0}
LARGEST = 2**40  # samples of a node
MANY = 10**6  # clients of a round, for a loop that leaves their number to the draw
EvaluateFn = Callable[[int, ArrayRecord], MetricRecord | None]


@dataclass(frozen=True, kw_only=True)
class Options:
    """What ``FedCore`` takes beside the arguments of FedAvg."""

    # Seconds; the name of what sets them, 'auto' or one of 'fedcore list'; or a function that does.
    deadline: float | str | Callable[[Seen], tuple[float, str]] | None = "auto"
    local_epochs: int = 10  # E, what a node does where time suffices
    grace: float = 3.0  # seconds that answers are waited for after the deadline
    strategy: str = "fedcore"  # what slow nodes do, how answers are merged, and when
    selector: str = "kmedoids"  # coreset method
    selection: str = "uniform"  # sampler
    quorum: int = 1  # fewest answers of a round: with fewer the model stays as it is
    over_selection: float = 1.0  # nodes that are asked for every answer that is waited for
    stragglers: float = 30.0  # percentage of nodes that deadline 'percentile' makes stragglers
    clock: str = "wall"  # 'virtual': each node's own seconds, where more nodes than processes are
    seed: int = 0
    checkpoint: str | Path | None = None  # a folder: go on after the last round in it
    out: str | Path | None = None  # a folder for records, as 'fedcore compare' writes them
    wait_for_nodes: float = 300.0  # seconds until too few nodes are an error
    weighted_by: str | None = None  # a metric by which answers weigh; None: all the same
    method: Mapping[str, Any] = field(default_factory=dict)  # further ones, of those named above

    def __post_init__(self) -> None:
        """Check every value, so that nothing starts with a bad one."""
        for name, least in LEAST.items():
            at_least(least)(name, getattr(self, name))
        percentages("stragglers", (self.stragglers,))
        one_of("wall", "virtual")("clock", self.clock)
        one_of(*plugins.names("selector"))("selector", self.selector)  # nodes take no other
        named = [("strategy", self.strategy), ("sampler", self.selection)]
        named += [("deadline", self.deadline)] if isinstance(self.deadline, str) else []
        local = (("strategy", own),) if (own := self.method.get("local")) else ()
        plugins.check_taken(self.method, (*named, *local, ("selector", self.selector)))
        self.build_strategy({}, 1)
        self.build_sampler(0)
        self.build_controller()

    def build_controller(self) -> Controller:
        """What sets deadlines; a function of one's own is taken at its word."""
        if callable(self.deadline):
            return Controller(self.deadline, bounded=False)
        value = "auto" if self.deadline is None else self.deadline
        name = value if isinstance(value, str) else "fixed"
        known = {"stragglers": self.stragglers, "seconds": value}
        built: Controller = self._build("deadline", name, Controller, known)
        return built

    def build_sampler(self, model_bytes: int) -> Sampler:
        """The sampler by its name."""
        known = {"epochs": self.local_epochs, "model_bytes": model_bytes}
        built: Sampler = self._build("sampler", self.selection, Sampler, known)
        return built

    def build_strategy(self, params: Params, num_clients: int) -> Strategy:
        """The strategy by its name, with the merge that the user asked for."""
        # As in the simulator, inputs stand in for gradients where one linear layer is all.
        linear = sorted(value.ndim for value in params.values()) in ([2], [1, 2])
        known: dict[str, Any] = {
            "proxy": STATIC if linear else LAST_LAYER_INPUT,
            "selector": self.selector,
            "epochs": self.local_epochs,
            "num_clients": num_clients,
            "clients_per_round": num_clients,
            "model_bytes": sum(value.nbytes for value in params.values()),
            "method": self.method,
        }
        built: Strategy = self._build("strategy", self.strategy, Strategy, known)
        pace, plan = replace(built.pace, quorum=self.quorum), after_one_epoch(built.plan)
        if self.weighted_by is None:
            return replace(built, pace=pace, plan=plan)
        if not (isinstance(built.merge, partial) and built.merge.func is RunningMean):
            raise BadOption(
                f"weighted_by_key must be left out: {self.strategy!r} has weights of its own"
            )
        merge = partial(RunningMean, lambda told: told.copies * float((told.payload or {})[WEIGHT]))
        return replace(built, pace=pace, plan=plan, merge=merge)

    def _build(self, kind: str, name: str, returns: type, known: dict[str, Any]) -> Any:
        """A plug-in, with options that it may take, but for those that the user gave."""
        rest = {key: value for key, value in known.items() if key not in self.method}
        rest["options"] = rest
        return plugins.build(kind, name, returns, options=rest, method=self.method)


def keeps_no_deadline(method: Strategy) -> bool:
    """Whether a strategy has even the slowest client do everything, as FedAvg does."""
    return method.plan(ClientProfile(1000, 1e-3), 1.0, 1).work(1000) >= 1000


def after_one_epoch(plan: Plan) -> Plan:
    """``plan``, but who is not measured yet decides itself, by what its first epoch took.

    It is told the largest coreset that there is: a fast node trains on everything all the same.
    """

    def first(client: ClientProfile, seconds: float, epochs: int) -> LocalPlan:
        if client.capability == UNMEASURED and seconds > 0:  # c τ = E m - 1: just too little
            edge = ClientProfile(LARGEST, (epochs * LARGEST - 1) / seconds)
            if (largest := plan(edge, seconds, epochs)).path is Way.CORESET:
                return largest
        return plan(client, seconds, epochs)

    return first


class FedCore(FedAvg):
    """FedAvg of Flower, with rounds that end when everybody answered or at deadline + grace.

    ``FedCore(*arguments of FedAvg, deadline=20, local_epochs=5, ...)``: after FedAvg's arguments
    come the fields of ``Options`` by name, and options of their own of the strategy, sampler and
    selector that those name. Answers are averaged plainly unless ``weighted_by_key`` is given.
    """

    monotonic: Callable[[], float] = staticmethod(time.monotonic)
    sleep: Callable[[float], None] = staticmethod(time.sleep)

    def __init__(self, *args: Any, **options: Any) -> None:
        """Check all options, so that nothing starts with a bad one."""
        known = plugins.taken(FedAvg.__init__, options)
        theirs = inspect.signature(FedAvg).bind_partial(*args, **known)
        super().__init__(*theirs.args, **theirs.kwargs)
        above_zero("fraction_train", self.fraction_train)
        names = {field.name for field in fields(Options)} - {"method", "weighted_by"}
        ours = {name: value for name, value in options.items() if name in names}
        rest = {name: options[name] for name in sorted(options.keys() - names - known.keys())}
        weighted_by = theirs.arguments.get("weighted_by_key")
        self.options = Options(**ours, weighted_by=weighted_by, method=rest)
        self._controller = self.options.build_controller()

    def configure_train(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refused: rounds are made inside ``start``."""
        raise FedCoreError(
            "FedCore makes its rounds itself and cannot be wrapped in another strategy, such as "
            "Flower's DifferentialPrivacyServerSideFixedClipping, ...AdaptiveClipping or their "
            "ClientSide forms: call start() of FedCore, and add noise on the clients if need be"
        )

    aggregate_train = configure_train

    def start(
        self,
        grid: Grid,
        initial_arrays: ArrayRecord,
        num_rounds: int = 3,
        timeout: float = 3600,
        train_config: ConfigRecord | None = None,
        evaluate_config: ConfigRecord | None = None,
        evaluate_fn: EvaluateFn | None = None,
    ) -> Result:
        """Train until ``num_rounds`` merges are made, with those of the checkpoint folder.

        ``timeout`` is the longest that a round may last where nothing else ends it.
        """
        options, state = self.options, ServerState(initial_params(initial_arrays))
        run = RunKey("flower", plugins.title(options.strategy), options.stragglers, options.seed)
        log(INFO, "Starting FedCore: %s, %d rounds", run.strategy, num_rounds)
        self.summary()
        method = options.build_strategy(state.params, self.min_available_nodes)
        fleet = Fleet(sum(value.nbytes for value in state.params.values()))
        kept = None if options.checkpoint is None else Path(options.checkpoint)
        if kept is not None:
            state = ledger.latest(kept, run, state, fleet)
        order = RecordDict({self.arrayrecord_key: ArrayRecord()})
        order[self.configrecord_key] = ConfigRecord(dict(train_config or {}))
        post, bounded = Post(grid, self.monotonic, self.sleep), not keeps_no_deadline(method)
        clock = GridClock(post, fleet, self, order, timeout, bounded)
        if method.pace.synchronous:
            method = replace(method, pace=replace(method.pace, decide=clock.decide, alarm=1.0))
        loop = LoopSettings(options.local_epochs, MANY, options.seed, num_rounds)
        server = Server(method, clock.sampler, clock, fleet, fleet.sizes(), loop)
        names = ("strategy", "selector", "selection", "seed", "stragglers")
        own = {name: getattr(options, name) for name in names}
        job = {"rounds": num_rounds, "epochs": options.local_epochs, **own}
        out = options.out and ledger.open_folder(Path(options.out), job, run, state.version)
        result = Result(to_record(state.params))
        if evaluate_fn and not state.version and (first := evaluate_fn(0, initial_arrays)):
            result.evaluate_metrics_serverapp[0] = first
        fleet.meet(grid.get_nodes())
        reason = self._set_deadline(clock, timeout)
        answered = num_rounds <= state.version
        for merged in server.run(state):
            notes, number, began = clock.notes, merged.state.version, self.monotonic()
            clock.notes = Notes()
            for client in (c.client_id for c in merged.clients if c.path is Way.SAT_OUT):
                fleet.fade(client)
            result.arrays = to_record(merged.state.params)
            trained = self._aggregated(self.train_metrics_aggr_fn, notes.metrics)
            asked = self._federated(number, result.arrays, clock, evaluate_config)
            found = evaluate_fn(number, result.arrays) if evaluate_fn else None
            for rounds, metrics in (
                (result.train_metrics_clientapp, trained),
                (result.evaluate_metrics_clientapp, asked),
                (result.evaluate_metrics_serverapp, found),
            ):
                rounds.update({} if metrics is None else {number: metrics})
            answered |= bool(notes.metrics)
            spent, measured = self.monotonic() - began, found or asked
            record = ledger.round_record(merged, notes, clock.deadline, measured, spent)
            log(INFO, "%s", ledger.line(record, notes, reason))
            if out:
                out.add(record, run)
            if kept is not None:
                ledger.save(kept, run, merged.state, fleet)
            if number < num_rounds:
                reason = self._set_deadline(clock, timeout)
        if out and out.runs:
            out.finish()
        if not answered:
            raise FedCoreError("no answer could be merged in any round; the log says why")
        return result

    def _set_deadline(self, clock: GridClock, most: float) -> str:
        """Decide the deadline of the next round; gives the reason."""
        seen, ways = clock.fleet.seen(self.options.local_epochs, most), clock.fleet.known_ways()
        clock.deadline, reason = self._controller.decide(seen)
        clock.fleet.rounds.append([clock.deadline, 0.0, 0.0])
        if ways and len(ways) == len(clock.fleet.online) and min(ways) >= clock.limit:
            raise BadOption(
                f"everybody would sit out: the deadline is {clock.limit:.1f} s, but messages alone "
                f"take {min(ways):.1f} to {max(ways):.1f} s; set it to {2 * max(ways):.0f} s"
            )
        return reason

    def _aggregated(
        self, function: Callable[[list[RecordDict], str], MetricRecord], records: list[RecordDict]
    ) -> MetricRecord | None:
        """The users' metrics of all answers together, if they fit together."""
        try:
            return function(records, self.weighted_by_key) if records else None
        except Exception as error:
            log(WARNING, "the metrics of the answers cannot be aggregated: %r", error)
            return None

    def _federated(
        self, number: int, arrays: ArrayRecord, clock: GridClock, config: ConfigRecord | None
    ) -> MetricRecord | None:
        """What idle nodes say of a model, as FedAvg asks them."""
        busy = clock.post.busy()
        idle = [node for client, node in clock.fleet.online.items() if client not in busy]
        if self.fraction_evaluate == 0:
            return None
        if len(idle) < max(1, self.min_evaluate_nodes, self.min_available_nodes):
            log(WARNING, "round %d is not evaluated by nodes: %d are idle", number, len(idle))
            return None
        # FedAvg's sampling, which else waits without end, sees the idle ones alone.
        nodes = cast(Grid, SimpleNamespace(get_node_ids=lambda: idle))
        own = ConfigRecord(dict(config or {}))
        replies = clock.ask(list(self.configure_evaluate(number, arrays, own, nodes)))
        good = [reply.content for reply in replies if reply.has_content()]
        return self._aggregated(self.evaluate_metrics_aggr_fn, good)
