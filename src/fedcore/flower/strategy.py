"""``fedcore.flower.FedCore``: a Flower strategy whose rounds end on time on the wall clock."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from logging import INFO, WARNING
from pathlib import Path
from typing import Any, NoReturn, cast

from flwr.app import ArrayRecord, ConfigRecord, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvg, Result
from flwr.supercore import log

from fedcore import plugins
from fedcore.coreset.proxies import LAST_LAYER_INPUT, STATIC
from fedcore.errors import BadOption, FedCoreError
from fedcore.flower import checkpoint as checkpoints
from fedcore.flower.answers import WEIGHT, initial_params, to_record
from fedcore.flower.clock import GridClock, Settings
from fedcore.flower.cohort import Cohorts, with_quorum
from fedcore.flower.dashboard import Dashboard
from fedcore.flower.deadline import Controller, Seen, controller
from fedcore.flower.fleet import Fleet
from fedcore.flower.post import Post
from fedcore.flower.wire import EXAMPLES
from fedcore.records import RunKey
from fedcore.server.loop import LoopSettings, Server
from fedcore.server.merge import RunningMean
from fedcore.server.method import Pace, Sampler, Strategy
from fedcore.server.state import ServerState
from fedcore.types import ClientProfile, LocalUpdate, Params
from fedcore.types import Path as Way
from fedcore.values import above_zero, at_least, one_of, percentages

MANY = 10**6  # clients of a round, for a loop that leaves their number to the draw
AGGREGATE = Callable[[list[RecordDict], str], MetricRecord]


class FedCore(FedAvg):
    """FedAvg of Flower, with rounds that end when everybody answered or at deadline + grace.

    Answers are averaged plainly unless ``weighted_by_key`` is given. After the arguments of FedAvg:

    Args:
        deadline: seconds of a round; 'auto': a percentile of the fleet as it is measured, the first
            round then lasting until all answered; or a ``Controller`` of one's own.
        local_epochs: E, what a node does where time suffices.
        grace: seconds that answers are waited for after the deadline.
        strategy: a name of ``fedcore list``: what slow nodes do, how answers are merged, and when.
        selector, selection: coreset method and sampler, by name.
        quorum: fewest answers of a round; with fewer the model stays as it is.
        over_selection: nodes that are asked for every answer that is waited for.
        stragglers: percentage of nodes that 'auto' makes stragglers.
        checkpoint: folder to go on from after the last finished round; None: no checkpoints.
        out: folder for the records of the rounds, as ``fedcore compare`` writes them.
        wait_for_nodes: seconds until too few nodes are an error.
        evaluate_timeout: seconds for federated evaluation; None: three deadlines.
        **options: further ones of strategy, sampler and selector.
    """

    monotonic: Callable[[], float] = staticmethod(time.monotonic)
    sleep: Callable[[float], None] = staticmethod(time.sleep)

    def __init__(
        self,
        fraction_train: float = 1.0,
        fraction_evaluate: float = 1.0,
        min_train_nodes: int = 2,
        min_evaluate_nodes: int = 2,
        min_available_nodes: int = 2,
        weighted_by_key: str | None = None,
        arrayrecord_key: str = "arrays",
        configrecord_key: str = "config",
        train_metrics_aggr_fn: AGGREGATE | None = None,
        evaluate_metrics_aggr_fn: AGGREGATE | None = None,
        *,
        deadline: float | str | Controller | None = "auto",
        local_epochs: int = 10,
        grace: float = 3.0,
        strategy: str = "fedcore",
        selector: str = "kmedoids",
        selection: str = "uniform",
        quorum: int = 1,
        over_selection: float = 1.0,
        stragglers: float = 30.0,
        seed: int = 0,
        checkpoint: str | Path | None = None,
        out: str | Path | None = None,
        wait_for_nodes: float = 300.0,
        evaluate_timeout: float | None = None,
        **options: Any,
    ) -> None:
        """Check all options, so that nothing starts with a bad one."""
        super().__init__(
            fraction_train,
            fraction_evaluate,
            min_train_nodes,
            min_evaluate_nodes,
            min_available_nodes,
            weighted_by_key or EXAMPLES,
            arrayrecord_key,
            configrecord_key,
            train_metrics_aggr_fn,
            evaluate_metrics_aggr_fn,
        )
        above_zero("fraction_train", fraction_train)
        for name, value, least in (
            ("local_epochs", local_epochs, 1),
            ("grace", grace, 0),
            ("quorum", quorum, 1),
            ("over_selection", over_selection, 1),
            ("min_train_nodes", min_train_nodes, 1),
            ("wait_for_nodes", wait_for_nodes, 0),
        ):
            at_least(least)(name, value)
        percentages("stragglers", (stragglers,))
        one_of(*plugins.names("selector"))("selector", selector)  # nodes take no other
        takers = [("strategy", strategy), ("sampler", selection), ("selector", selector)]
        plugins.check_taken(options, takers)
        self.local_epochs, self.grace, self.quorum = local_epochs, grace, quorum
        self.over_selection, self.wait_for_nodes = over_selection, wait_for_nodes
        self.evaluate_timeout = evaluate_timeout
        self.checkpoint = Path(checkpoint) if checkpoint else None
        self.out = Path(out) if out else None
        self.run = RunKey("flower", plugins.title(strategy), float(stragglers), seed)
        self._controller = controller(deadline, stragglers)
        self._names = {"strategy": strategy, "selection": selection, "selector": selector}
        self._options, self._weight_key = options, weighted_by_key
        self._method({})  # its refusals come before anything is tried

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
        evaluate_fn: Callable[[int, ArrayRecord], MetricRecord | None] | None = None,
    ) -> Result:
        """Train for ``num_rounds`` merges, after those that the checkpoint folder holds.

        ``timeout`` is the longest that a round may last where nothing else ends it.
        """
        log(INFO, "Starting FedCore: %s, %d rounds", self.run.strategy, num_rounds)
        self.summary()
        state = ServerState(initial_params(initial_arrays))
        method = self._method(state.params)
        fleet = Fleet(sum(value.nbytes for value in state.params.values()))
        post = Post(grid, self.monotonic, self.sleep)
        settings = Settings(
            self.local_epochs,
            self.grace,
            dict(train_config or {}),
            (self.arrayrecord_key, self.configrecord_key),
            self._weight_key,
            timeout if _keeps_no_deadline(method) else None,
        )
        clock = GridClock(post, fleet, settings)
        before = None
        if self.checkpoint is not None:
            state, before = checkpoints.latest(self.checkpoint, self.run, state, fleet)
        names = {**self._names, "rounds": num_rounds, "epochs": self.local_epochs}
        dashboard = Dashboard(self.out, self.run, names, state.version)
        cohorts = Cohorts(
            plugins.build("sampler", self._names["selection"], Sampler, method=self._options),
            clock,
            fleet,
            post,
            self.fraction_train,
            self.min_train_nodes,
            self.min_available_nodes,
            self.over_selection,
            self.wait_for_nodes,
        )
        pace = Pace(cohorts.decide, alarm=1.0) if method.pace.synchronous else method.pace
        method = replace(method, pace=pace, merge=with_quorum(method.merge, self.quorum))
        loop = LoopSettings(self.local_epochs, MANY, self.run.seed, num_rounds)
        server = Server(method, cohorts.as_sampler(), clock, fleet, fleet.sizes(), loop)
        result = Result(to_record(state.params))
        central: MetricRecord | None = None
        if evaluate_fn and not state.version and (central := evaluate_fn(0, initial_arrays)):
            result.evaluate_metrics_serverapp[0] = central
        fleet.meet(post.nodes())
        reason = self._set_deadline(clock, fleet, before, timeout)
        for merged in server.run(state):
            number, notes = merged.state.version, clock.take_notes()
            began = self.monotonic()
            for sat_out in (c for c in merged.clients if c.path is Way.SAT_OUT):
                fleet.fade(sat_out.client_id)
            result.arrays = to_record(merged.state.params)
            if (trained := self._train_metrics(notes.metrics)) is not None:
                result.train_metrics_clientapp[number] = trained
            evaluated = self._evaluate(number, result.arrays, evaluate_config, clock, post, timeout)
            if evaluated is not None:
                result.evaluate_metrics_clientapp[number] = evaluated
            if evaluate_fn and (central := evaluate_fn(number, result.arrays)):
                result.evaluate_metrics_serverapp[number] = central
            spent = self.monotonic() - began
            dashboard.add(merged, notes, clock.deadline, reason, central or evaluated, spent)
            if self.checkpoint is not None:
                checkpoints.save(self.checkpoint, self.run, merged.state, fleet, clock.deadline)
            reason = self._set_deadline(clock, fleet, clock.deadline, timeout)
        dashboard.finish()
        return result

    def _method(self, params: Params) -> Strategy:
        """The strategy of the house, merging as the user asked."""
        # As in the simulator: inputs stand in for gradients where one linear layer is all.
        linear = sorted(value.ndim for value in params.values()) in ([2], [1, 2])
        known = {
            "selector": self._names["selector"],
            "proxy": STATIC if linear else LAST_LAYER_INPUT,
            "num_clients": self.min_available_nodes,
            "method": self._options,
        }
        known = {name: value for name, value in known.items() if name not in self._options}
        name = self._names["strategy"]
        built: Strategy = plugins.build(
            "strategy", name, Strategy, options=known, method=self._options
        )
        if self._weight_key is None:
            return built
        if not (isinstance(built.merge, partial) and built.merge.func is RunningMean):
            raise BadOption(f"weighted_by_key must be left out: strategy {name!r} weighs by itself")
        return replace(built, merge=partial(RunningMean, _by_metric))

    def _set_deadline(
        self, clock: GridClock, fleet: Fleet, before: float | None, most: float
    ) -> str:
        """Decide the deadline of the next round; gives the reason."""
        full, overheads = fleet.seconds(self.local_epochs), fleet.overheads()
        clock.deadline, reason = self._controller(Seen(before, full, overheads, most))
        above_zero("deadline", clock.deadline)
        return reason

    def _train_metrics(self, records: list[RecordDict]) -> MetricRecord | None:
        """The users' metrics of all answers together, by the function for it."""
        try:
            return self.train_metrics_aggr_fn(records, self.weighted_by_key) if records else None
        except Exception as error:  # of differing keys, of a user's function
            log(WARNING, "the metrics of the answers cannot be aggregated: %r", error)
            return None

    def _evaluate(
        self,
        number: int,
        arrays: ArrayRecord,
        config: ConfigRecord | None,
        clock: GridClock,
        post: Post,
        timeout: float,
    ) -> MetricRecord | None:
        """Federated evaluation as FedAvg has it, on nodes that are idle, within its own time."""
        if self.fraction_evaluate == 0:
            return None
        busy = post.busy()
        idle = [node for client, node in clock.fleet.online.items() if client not in busy]
        if len(idle) < max(1, self.min_evaluate_nodes, self.min_available_nodes):
            log(WARNING, "round %d is not evaluated: %d nodes are idle", number, len(idle))
            return None
        own = ConfigRecord(dict(config or {}))
        messages = list(self.configure_evaluate(number, arrays, own, cast(Grid, _Idle(idle))))
        limit = self.evaluate_timeout or min(timeout, 3 * clock.limit)
        try:
            return self.aggregate_evaluate(number, clock.ask(messages, limit))
        except Exception as error:  # replies that do not fit together, a user's function
            log(WARNING, "round %d cannot be evaluated: %r", number, error)
            return None


class _Idle:
    """A grid for FedAvg's sampling, which else waits without end: only some nodes are there."""

    def __init__(self, nodes: list[int]) -> None:
        self._nodes = nodes

    def get_node_ids(self) -> list[int]:
        return self._nodes


def _keeps_no_deadline(method: Strategy) -> bool:
    """Whether a strategy has even the slowest client do everything, as FedAvg does."""
    return method.plan(ClientProfile(1000, 1e-3), 1.0, 1).work(1000) >= 1000


def _by_metric(update: LocalUpdate) -> float:
    """The weight that the user named, by which an answer counts."""
    assert update.payload is not None
    return update.copies * float(update.payload[WEIGHT])
