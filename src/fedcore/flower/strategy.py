"""``fedcore.flower.FedCore``: a Flower strategy whose rounds end on time on the wall clock."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable
from dataclasses import fields, replace
from logging import INFO, WARNING
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn, cast

from flwr.app import ArrayRecord, ConfigRecord, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvg, Result
from flwr.supercore import log

from fedcore import plugins
from fedcore.errors import BadOption, FedCoreError
from fedcore.flower import checkpoint
from fedcore.flower.answers import initial_params, to_record
from fedcore.flower.clock import GridClock
from fedcore.flower.cohort import Cohorts
from fedcore.flower.dashboard import Dashboard
from fedcore.flower.deadline import Seen, controller
from fedcore.flower.fleet import Fleet
from fedcore.flower.options import Options, keeps_no_deadline
from fedcore.flower.post import Post
from fedcore.records import RunKey
from fedcore.server.loop import LoopSettings, Server
from fedcore.server.method import Pace
from fedcore.server.state import ServerState
from fedcore.types import Path as Way
from fedcore.values import above_zero

MANY = 10**6  # clients of a round, for a loop that leaves their number to the draw
OURS = {field.name for field in fields(Options)} - {"method", "weighted_by"}
EvaluateFn = Callable[[int, ArrayRecord], MetricRecord | None]


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
        ours = {name: value for name, value in options.items() if name in OURS}
        rest = options.keys() - ours.keys() - theirs.arguments.keys()
        self.options = Options(
            **ours,
            weighted_by=theirs.arguments.get("weighted_by_key"),
            method={name: options[name] for name in sorted(rest)},
        )
        self._controller = controller(self.options.deadline, self.options.stragglers)

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
        post = Post(grid, self.monotonic, self.sleep)
        config = ConfigRecord(dict(train_config or {}))
        order = RecordDict({self.arrayrecord_key: ArrayRecord(), self.configrecord_key: config})
        unlimited = timeout if keeps_no_deadline(method) else None
        clock = GridClock(post, fleet, options, order, unlimited)
        folder, before = None if options.checkpoint is None else Path(options.checkpoint), None
        if folder is not None:
            state, before = checkpoint.latest(folder, run, state, fleet)
            log(INFO, "going on after round %d, by %r", state.version, str(folder))
        cohorts = Cohorts(clock, post, options, self)
        dashboard = Dashboard(options, run, num_rounds, state.version)
        pace = Pace(cohorts.decide, alarm=1.0) if method.pace.synchronous else method.pace
        method = replace(method, pace=pace, merge=cohorts.with_quorum(method.merge))
        loop = LoopSettings(options.local_epochs, MANY, options.seed, num_rounds)
        server = Server(method, cohorts.as_sampler(), clock, fleet, fleet.sizes(), loop)
        result = Result(to_record(state.params))
        if evaluate_fn and not state.version and (first := evaluate_fn(0, initial_arrays)):
            result.evaluate_metrics_serverapp[0] = first
        fleet.meet(post.nodes())
        reason = self._set_deadline(clock, before, timeout)
        merged, answered = None, 0
        for merged in server.run(state):
            number, notes, began = merged.state.version, clock.take_notes(), self.monotonic()
            for client in (c.client_id for c in merged.clients if c.path is Way.SAT_OUT):
                fleet.fade(client)
            result.arrays = to_record(merged.state.params)
            found = self._measure(number, result.arrays, clock, post, evaluate_config, evaluate_fn)
            trained = self._aggregated(self.train_metrics_aggr_fn, notes.metrics)
            kept = [result.train_metrics_clientapp, result.evaluate_metrics_clientapp]
            kept.append(result.evaluate_metrics_serverapp)
            for rounds, metrics in zip(kept, (trained, *found), strict=True):
                rounds.update({} if metrics is None else {number: metrics})
            answered += len(notes.answered)
            spent = self.monotonic() - began
            dashboard.add(merged, notes, clock.deadline, reason, found[1] or found[0], spent)
            if folder is not None:
                checkpoint.save(folder, run, merged.state, fleet, clock.deadline)
            reason = self._set_deadline(clock, clock.deadline, timeout)
        dashboard.finish()
        if merged is not None and not answered:
            raise FedCoreError("no answer could be merged in any round; the log says why")
        return result

    def _set_deadline(self, clock: GridClock, before: float | None, most: float) -> str:
        """Decide the deadline of the next round; gives the reason."""
        full, ways = clock.fleet.measured(self.options.local_epochs)
        clock.deadline, reason = self._controller(Seen(before, full, ways, most))
        above_zero("deadline", clock.deadline)
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

    def _measure(
        self,
        number: int,
        arrays: ArrayRecord,
        clock: GridClock,
        post: Post,
        config: ConfigRecord | None,
        evaluate_fn: EvaluateFn | None,
    ) -> tuple[MetricRecord | None, MetricRecord | None]:
        """What idle nodes say of a model, as FedAvg asks them, and what ``evaluate_fn`` says."""
        busy, federated = post.busy(), None
        idle = [node for client, node in clock.fleet.online.items() if client not in busy]
        if self.fraction_evaluate == 0:
            pass
        elif len(idle) < max(1, self.min_evaluate_nodes, self.min_available_nodes):
            log(WARNING, "round %d is not evaluated by nodes: %d are idle", number, len(idle))
        else:  # FedAvg's sampling, which else waits without end, sees the idle ones alone
            own, nodes = (
                ConfigRecord(dict(config or {})),
                SimpleNamespace(get_node_ids=lambda: idle),
            )
            messages = list(self.configure_evaluate(number, arrays, own, cast(Grid, nodes)))
            replies = clock.ask(messages, self.options.evaluate_timeout or 3 * clock.limit)
            good = [reply.content for reply in replies if reply.has_content()]
            federated = self._aggregated(self.evaluate_metrics_aggr_fn, good)
        return federated, evaluate_fn(number, arrays) if evaluate_fn else None
