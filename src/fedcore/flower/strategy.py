"""``fedcore.flower.FedCore``: a Flower strategy whose rounds end on time on the wall clock."""

import inspect
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from logging import INFO, WARNING
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn, cast

from flwr.app import ArrayRecord, ConfigRecord, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvg, Result
from flwr.supercore import log

from fedcore import plugins
from fedcore.config import Experiment, resolve
from fedcore.coreset.proxies import LAST_LAYER_INPUT, STATIC
from fedcore.errors import BadOption, FedCoreError
from fedcore.flower import ledger
from fedcore.flower.clock import GridClock, Notes
from fedcore.flower.fleet import UNMEASURED, Fleet
from fedcore.flower.wire import initial_params
from fedcore.records import RunKey
from fedcore.server.controller import Controller, Seen
from fedcore.server.loop import Server
from fedcore.server.merge import averaging
from fedcore.server.method import Plan, Strategy
from fedcore.server.state import ServerState
from fedcore.sim.world import build_controller, build_sampler, build_strategy
from fedcore.task import sent_bytes
from fedcore.types import ClientProfile, LocalPlan, Params, Way
from fedcore.values import MANY, above_zero, at_least, convert, one_of

LEAST = {"local_epochs": 1, "grace": 0, "quorum": 1, "over_selection": 1, "wait_for_nodes": 0}
LARGEST = 2**40  # samples of a node
STATISTICS = ("running_mean", "running_var", "num_batches_tracked")  # as PyTorch calls BatchNorm's
SHARED = ("selector", "selection", "seed", "stragglers", "learning_rate")  # with the simulator
Metrics = MetricRecord | None


@dataclass(frozen=True, kw_only=True)
class Options:
    """What ``FedCore`` takes beside the arguments of FedAvg."""

    # Seconds; the name of what sets them, 'auto' or one of 'fedcore list'; or a function that does.
    deadline: float | str | Callable[[Seen], tuple[float, str]] = "auto"
    local_epochs: int = 10  # E, what a node does where time suffices
    grace: float = 3.0  # seconds that answers are waited for after the deadline
    strategy: str = "tempo"  # what slow nodes do, how answers are merged, and when
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
    learning_rate: float = 0.01  # η of the nodes' own loops, where a strategy's rule has it
    compress: str = "none"  # what nodes send of their moves: topk:0.01, 8bit or topk:0.01+8bit
    weighted_by: str | None = None  # a metric by which answers weigh; None: all the same
    method: Mapping[str, Any] = field(default_factory=dict)  # further ones, of those named above

    def __post_init__(self) -> None:
        """Check every value, so that nothing starts with a bad one."""
        if "epochs" in self.method:
            raise BadOption("epochs are called local_epochs here")
        for name, least in LEAST.items():
            at_least(least)(name, convert(name, getattr(self, name), float))
        one_of("wall", "virtual")("clock", self.clock)
        one_of(*plugins.names("selector"))("selector", self.selector)  # nodes take no other
        takers = [("selector", self.selector), ("sampler", self.selection)]
        takers += [("strategy", name) for name in {self.strategy, self.method.get("local")} if name]
        plugins.check_taken(self.method, [*takers, *self.experiment().controllers])
        build = plugins.function("strategy", self.strategy, "build")
        if self.weighted_by is not None and "aggregation" not in plugins.keywords(build):
            why = f"{self.strategy!r} has weights of its own"
            raise BadOption(f"weighted_by_key must be left out: {why}")
        self.build_strategy({}, 1)
        build_sampler(self.experiment())
        self.build_controller()

    def experiment(self, clients: int = 1) -> Experiment:
        """The same as options of the simulator, whose builders make what they name."""
        given = {name: getattr(self, name) for name in SHARED} | {"clients_per_round": clients}
        given |= {"deadline": self.deadline} if isinstance(self.deadline, str) else {}
        given |= {"epochs": self.local_epochs, "compress": self.compress, "method": {**self.method}}
        for key in self.method.keys() & Experiment.__dataclass_fields__.keys():
            given[key] = given["method"].pop(key)
        return resolve(given, lambda benchmark, preset: {})

    def build_controller(self) -> Controller:
        """What sets deadlines; a function of one's own is taken at its word."""
        if callable(self.deadline):
            return Controller(self.deadline, bounded=False)
        named, fixed = build_controller(self.experiment(), self.stragglers), self.deadline
        return named or plugins.build("deadline", "fixed", Controller, options={"seconds": fixed})

    def build_strategy(self, params: Params, clients: int) -> Strategy:
        """The strategy by its name, with the quorum that the user asked for."""
        # As in the simulator, inputs stand in for gradients where one linear layer is all.
        linear = sorted(value.ndim for value in params.values()) in ([2], [1, 2])
        known = STATIC if linear else LAST_LAYER_INPUT, clients, sent_bytes(params, 1)
        built = build_strategy(self.strategy, self.experiment(clients), *known)
        names = [name for name in params if name.endswith(STATISTICS)]
        if names and self.compress != "none":  # moves kept for later would make variances negative
            raise BadOption(f"compress must be none for running statistics, such as {names[0]!r}")
        built = averaging(built, self.experiment(clients).aggregation, names)
        pace = replace(built.pace, quorum=self.quorum)
        return replace(built, pace=pace, plan=after_one_epoch(built.plan))


def after_one_epoch(plan: Plan) -> Plan:
    """``plan``, but who is not measured yet cuts the largest coreset there is, after one epoch."""

    def first(client: ClientProfile, seconds: float, epochs: int) -> LocalPlan:
        if client.capability == UNMEASURED and seconds > 0:  # c τ = E m - 1: just too little
            edge = ClientProfile(LARGEST, (epochs * LARGEST - 1) / seconds)
            if (largest := plan(edge, seconds, epochs)).path is Way.CORESET:
                return largest
        return plan(client, seconds, epochs)

    return first


class FedCore(FedAvg):
    """FedAvg of Flower, with rounds that end when everybody answered or at deadline + grace.

    After FedAvg's arguments come the fields of ``Options`` by name, and options of their own of the
    strategy, sampler and selector that those name: ``FedCore(deadline=20, local_epochs=5)``.
    """

    monotonic: Callable[[], float] = staticmethod(time.monotonic)
    sleep: Callable[[float], None] = staticmethod(time.sleep)

    def __init_subclass__(cls) -> None:
        if odd := {"configure_train", "aggregate_train", "aggregate_evaluate"} & vars(cls).keys():
            raise FedCoreError(f"{cls.__name__}.{min(odd)} would never be called; leave it out")

    def __init__(self, *args: Any, **options: Any) -> None:
        known = plugins.taken(FedAvg.__init__, options)
        theirs = inspect.signature(FedAvg).bind_partial(*args, **known)
        super().__init__(*theirs.args, **theirs.kwargs)
        above_zero("fraction_train", self.fraction_train)
        at_least(0, 1)("fraction_evaluate", self.fraction_evaluate)  # FedAvg waits for more
        names = Options.__dataclass_fields__.keys() - {"method", "weighted_by"}
        ours = {name: options[name] for name in names & options.keys()}
        ours["method"] = {k: options[k] for k in sorted(options.keys() - names - known.keys())}
        self.options = Options(**ours, weighted_by=theirs.arguments.get("weighted_by_key"))

    def configure_train(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refused: rounds are made inside ``start``."""
        raise FedCoreError(
            "FedCore makes its rounds itself and cannot be wrapped, as in Flower's "
            "DifferentialPrivacyServerSideFixedClipping: call start(), and add noise by LocalDpMod"
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
        evaluate_fn: Callable[[int, ArrayRecord], Metrics] | None = None,
    ) -> Result:
        """Train until ``num_rounds`` merges are made, with those of the checkpoint folder.

        ``timeout`` is the longest that a round may last where nothing else ends it.
        """
        options, state = self.options, ServerState(initial_params(initial_arrays))
        run = RunKey("flower", plugins.title(options.strategy), options.stragglers, options.seed)
        log(INFO, "Starting FedCore: %s, %d rounds", run.strategy, num_rounds)
        self.summary()
        above_zero("timeout", timeout)
        fleet = Fleet(sent_bytes(state.params, 1))
        if options.checkpoint is not None:
            state = ledger.latest(Path(options.checkpoint), run, state, fleet)
        fleet.meet(grid.get_nodes())
        # N, of the methods that have it, is who is there now.
        method = options.build_strategy(state.params, max(self.min_available_nodes, len(fleet)))
        clock = GridClock(grid, fleet, self, train_config, timeout, method.keeps_deadline)
        if method.pace.synchronous:
            method = replace(method, pace=replace(method.pace, decide=clock.decide, alarm=1.0))
        loop = options.local_epochs, MANY, options.seed, num_rounds
        server = Server(method, clock.sampler, clock, fleet, fleet.sizes(), *loop)
        job = {name: getattr(options, name) for name in ("strategy", *SHARED)}
        job["epochs"] = options.local_epochs  # not rounds: there may be more another time
        done = state.version if options.checkpoint else None
        out = options.out and ledger.open_folder(Path(options.out), job, run, done)
        result, answered = Result(ArrayRecord(dict(state.params))), num_rounds <= state.version
        if evaluate_fn and not state.version and (first := evaluate_fn(0, initial_arrays)):
            result.evaluate_metrics_serverapp[0] = first
        clock.set_deadline()
        for merged in server.run(state):
            notes, number, began = clock.notes, merged.state.version, self.monotonic()
            clock.notes, answered = Notes(), answered or bool(notes.metrics)
            for client in (c.client_id for c in merged.clients if c.path is Way.SAT_OUT):
                fleet.fade(client)
            result.arrays = ArrayRecord(dict(merged.state.params))
            trained = self._aggregated(self.train_metrics_aggr_fn, notes.metrics)
            asked = self._federated(number, result.arrays, clock, evaluate_config)
            found = evaluate_fn(number, result.arrays) if evaluate_fn else None
            result.train_metrics_clientapp.update({number: trained} if trained is not None else {})
            result.evaluate_metrics_clientapp.update({number: asked} if asked is not None else {})
            result.evaluate_metrics_serverapp.update({number: found} if found is not None else {})
            spent = self.monotonic() - began
            record = ledger.round_record(merged, notes, clock.deadline, found or asked, spent)
            if not isinstance(options.deadline, int | float):  # it moves, so that seconds are all
                record = replace(record, deadline=1.0, allowed=clock.deadline, reason=clock.reason)
            log(INFO, "%s", ledger.line(record, notes, clock.reason))
            if out:
                out.add(record, run)
            if options.checkpoint is not None:
                ledger.save(Path(options.checkpoint), run, merged.state, fleet)
            if number < num_rounds:
                clock.set_deadline()
        if out and out.runs:
            out.finish()
        if not answered:
            raise FedCoreError("no answer could be merged in any round; the log says why")
        return result

    def _aggregated(self, function: Callable[..., Metrics], records: list[RecordDict]) -> Metrics:
        """The users' metrics together, of the answers that name what most of them name."""
        named = [sorted(n for m in one.metric_records.values() for n in m) for one in records]
        usual = max(named, key=lambda own: (named.count(own), len(own)), default=None)
        alike = [record for record, own in zip(records, named, strict=True) if own == usual]
        if odd := len(records) - len(alike):  # which a sum would count as 0
            log(WARNING, "metrics of %d answers are left out: most have others", odd)
        try:
            return function(alike, self.weighted_by_key) if alike else None
        except Exception as error:
            log(WARNING, "the metrics of the answers cannot be aggregated: %r", error)
            return None

    def _federated(
        self, number: int, arrays: ArrayRecord, clock: GridClock, config: ConfigRecord | None
    ) -> Metrics:
        """What idle nodes say of a model, as FedAvg asks them."""
        busy = clock.post.busy()
        idle = {node: client for client, node in clock.fleet.online.items() if client not in busy}
        least = max(1, self.min_evaluate_nodes, self.min_available_nodes)
        if self.fraction_evaluate and len(idle) < least:
            log(WARNING, "round %d is not evaluated by nodes: %d are idle", number, len(idle))
            return None
        # FedAvg's sampling, which else waits without end, sees the idle ones alone.
        nodes, own = SimpleNamespace(get_node_ids=lambda: [*idle]), ConfigRecord({**(config or {})})
        asked = self.configure_evaluate(number, arrays, own, cast(Grid, nodes))
        there = [message for message in asked if message.metadata.dst_node_id in idle]
        return self._aggregated(self.evaluate_metrics_aggr_fn, clock.ask(there, idle))
