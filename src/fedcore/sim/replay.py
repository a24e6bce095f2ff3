"""A run of an experiment, trained, or replayed where its training is known.

FedAvg's models are the same, whatever the deadline is. What goes by time - lengths of rounds, who
is slow, events - is simulated; how good models are is what another share of stragglers came to.
"""

from collections.abc import Sequence
from dataclasses import replace

from torch import Tensor

from fedcore import plugins
from fedcore.config import Experiment
from fedcore.history import History
from fedcore.records import RoundRecord, RunKey, Snapshot
from fedcore.server.clock import VirtualClock
from fedcore.sim.federation import Federation
from fedcore.sim.measure import Measure, Score
from fedcore.sim.world import Rounds, build_strategy, build_world, simulate_rounds
from fedcore.types import Assignment, ClientId, LocalUpdate, Params, SelectionTime


class Replay(Measure):
    """An executor that trains nothing, and a measure that knows what would come of it."""

    def __init__(self, known: History, measure: Measure) -> None:
        self._last, self._real = known.params, measure
        self._rounds = (one for one in known.rounds if one.train_accuracy is not None)  # measured
        self.memory: dict[ClientId, Tensor] = {}
        self.selection = SelectionTime()
        self.expect = self.close = lambda *_: None

    def run(self, params: Params, assignments: Sequence[Assignment]) -> list[LocalUpdate]:
        """Answers that leave the model as it is."""
        return [LocalUpdate(one.client_id, params, num_samples=1) for one in assignments]

    def train(self, params: Params) -> Score:
        """What the next round came to on training data."""
        self._now = next(self._rounds)
        return Score(self._now.train_loss, self._now.train_accuracy)

    def test(self, params: Params, half: str = "test") -> Score | None:
        """The same on held-out data."""
        if half != "test" or self._now.test_accuracy is None:
            return None
        return Score(self._now.test_loss, self._now.test_accuracy, self._now.metrics)

    def by_client(self, params: Params) -> dict[ClientId, tuple[float, int]]:
        """How the last model does: who is slow there may be fast here."""
        home = next(iter(params.values())).device
        return self._real.by_client({name: v.to(home) for name, v in self._last.items()})


def train_run(
    federation: Federation,
    experiment: Experiment,
    run: RunKey,
    start: Snapshot | None = None,
    past: Sequence[RoundRecord] = (),
    known: History | None = None,
) -> Rounds:
    """A run after the ``past`` rounds, from ``start`` on; what is ``known`` is not trained."""
    there = (federation.proxy, len(federation.dataset.clients), federation.model_bytes)
    own = replace(experiment, learning_rate=run.learning_rate or experiment.learning_rate)
    sources = {plugins.title(strategy): strategy for strategy in experiment.strategies}
    strategy = build_strategy(sources[run.strategy], own, *there)
    world = build_world(federation, own, run, strategy)
    if known is not None:
        replay, clock = Replay(known, world.measure), world.server.clock
        assert isinstance(clock, VirtualClock)
        server = replace(world.server, clock=replace(clock, executor=replay))
        world = replace(world, server=server, executor=replay, measure=replay)
    return simulate_rounds(world, start, past)
