"""The server loop on a virtual clock, with clients that add a number to the model."""

from dataclasses import replace

import pytest
import torch

from fedcore.errors import BadOption
from fedcore.records import Waste
from fedcore.server.clock import VirtualClock
from fedcore.server.loop import FUTILE, Server, checked, is_sound
from fedcore.server.merge import aggregation, all_at_once
from fedcore.server.method import Action, Pace, Sampler, Strategy
from fedcore.server.state import ServerState, from_snapshot, to_snapshot
from fedcore.sources.clients import ClientSizes
from fedcore.strategies import fedavg, fedavg_ds, fedcore
from fedcore.types import SIT_OUT, ClientProfile, CoresetSpec, LocalPlan, LocalUpdate, Phase, Way


class Echo:
    """An executor that adds a number per client, and remembers what it was asked."""

    def __init__(self, shifts):
        self.shifts = shifts
        self.asked = []
        self.expected = []

    def expect(self, assignments):
        self.expected.append([a.base_version for a in assignments])

    def run(self, params, assignments):
        self.asked.append([(a.client_id, a.base_version, a.repeat) for a in assignments])
        return [
            LocalUpdate(
                a.client_id,
                {"w": params["w"] + self.shifts[a.client_id]},
                10,
                base_version=a.base_version,
            )
            for a in assignments
        ]


START = ServerState({"w": torch.tensor([0.0])})
FAST, SLOW = ClientProfile(10, 1.0), ClientProfile(10, 0.5)  # 100 seconds, exactly on time; 200
BOTH = Sampler(lambda asked: {0: 1, 1: 2})


def serve(strategy, executor, *, sampler=BOTH, profiles=None, merges=1, bytes_=0, **settings):
    profiles = profiles or {0: FAST, 1: SLOW}
    sizes = ClientSizes.of({client: p.num_samples for client, p in profiles.items()})
    clock = VirtualClock(executor, 100.0, bytes_)
    asked = 10, settings.pop("concurrency", 3), 5, merges
    return Server(strategy, sampler, clock, profiles, sizes, *asked, **settings)


def first(strategy, shifts, **options):
    executor = Echo(shifts)
    return next(serve(strategy, executor, **options).run(START)), executor


def test_a_round_lasts_as_long_as_its_slowest_client():
    outcome, executor = first(fedavg.build(), {0: 1.0, 1: 4.0})
    assert outcome.seconds == 200
    assert outcome.state.params["w"].item() == 3.0  # (1 + 4 + 4) / 3
    assert outcome.state.version == 1
    assert executor.asked == [[(0, 0, 0), (1, 0, 0)]]  # together


def test_dropped_clients_neither_count_nor_take_time():
    outcome, executor = first(fedavg_ds.build(), {0: 1.0, 1: 4.0})
    assert executor.asked == [[(0, 0, 0)]]
    assert outcome.seconds == 100
    assert outcome.state.params["w"].item() == 1.0
    assert [client.path for client in outcome.clients] == [Way.FULL, Way.SAT_OUT]


def test_the_record_says_what_every_client_did():
    outcome, _ = first(fedcore.build(), {0: 0.0, 1: 0.0})
    fast, slow = outcome.clients
    assert (fast.path, fast.work, fast.coreset_budget) == (Way.FULL, 100, None)
    # c·τ = 50: one pass on 10, then 9 epochs on floor(40 / 9) = 4
    assert (slow.path, slow.work, slow.coreset_budget) == (Way.CORESET, 46, 4)
    assert slow.copies == 2
    assert slow.seconds == 92


def test_records_stand_in_the_order_of_the_draw_whoever_answers_first():
    profiles = {0: SLOW, 1: FAST, 2: ClientProfile(10, 0.7)}
    order = Sampler(lambda asked: {2: 1, 0: 1, 1: 1})
    outcome, _ = first(
        fedavg.build(), dict.fromkeys(range(3), 0.0), sampler=order, profiles=profiles
    )
    assert [client.client_id for client in outcome.clients] == [2, 0, 1]


def test_one_broken_answer_does_not_break_the_model():
    outcome, _ = first(fedavg.build(), {0: 1.0, 1: float("nan")})
    assert outcome.state.params["w"].item() == 1.0
    assert outcome.rejected == 1
    assert [client.wasted for client in outcome.clients] == [None, Waste.REJECTED]


def test_everybody_broken_keeps_the_model():
    outcome, _ = first(fedavg.build(), {0: float("inf"), 1: float("nan")})
    assert outcome.state.params["w"].item() == 0.0
    assert outcome.rejected == 2


def test_an_answer_is_sound_if_all_of_it_is():
    good, bad = torch.zeros(2), torch.tensor([0.0, float("inf")])
    assert is_sound(LocalUpdate(0, {"a": good, "b": good}, 1))
    assert not is_sound(LocalUpdate(0, {"a": good, "b": bad}, 1))
    assert not is_sound(LocalUpdate(0, {"a": bad, "b": good}, 1))


def test_everybody_may_sit_out():
    idle = Strategy(lambda client, deadline, epochs: SIT_OUT, aggregation("mean"))
    executor = Echo({})
    rounds = list(serve(idle, executor, merges=3).run(START))
    assert [merged.seconds for merged in rounds] == [0.0] * 3
    assert rounds[-1].state.version == 3
    assert executor.asked == []


def test_links_are_part_of_the_time_and_plans_leave_room_for_them():
    """1,000 bytes at 100 and 50 a second: 10 + 20 of 100 seconds are gone before any work."""
    linked = ClientProfile(10, 1.0, download=100, upload=50)
    outcome, _ = first(fedavg.build(), {0: 0.0, 1: 0.0}, profiles={0: linked, 1: FAST}, bytes_=1000)
    assert [client.seconds for client in outcome.clients] == [130.0, 100.0]
    outcome, _ = first(
        fedcore.build(), {0: 0.0, 1: 0.0}, profiles={0: linked, 1: FAST}, bytes_=1000
    )
    # 70 samples' worth of time: one pass on 10, then 9 epochs on floor(60 / 9) = 6
    assert (outcome.clients[0].coreset_budget, outcome.clients[0].seconds) == (6, 94.0)
    hopeless = replace(linked, upload=1)
    outcome, _ = first(
        fedcore.build(), {0: 0.0, 1: 0.0}, profiles={0: hopeless, 1: FAST}, bytes_=1000
    )
    assert outcome.clients[0].path is Way.SAT_OUT
    assert outcome.clients[0].seconds == 0.0


def test_who_trains_part_of_a_model_is_charged_for_it_and_sends_no_more():
    """Of 10 + 190 + 50 numbers, 4 bytes each, a share of 0.3 holds the last 50 alone."""
    start = ServerState(
        {
            "0.w": torch.zeros(10),
            "1.w": torch.zeros(190),
            "2.w": torch.zeros(40),
            "2.b": torch.zeros(10),
        }
    )

    class Part(Echo):
        def run(self, params, assignments):
            return [
                LocalUpdate(a.client_id, {n: params[n] + 1 for n in ("2.w", "2.b")}, 10)
                for a in assignments
            ]

    plan = LocalPlan((Phase(10),), Way.PARTIAL, trained_share=0.3)
    strategy = replace(fedavg.build(), plan=lambda client, time, epochs: plan)
    linked = ClientProfile(11, 1.0, download=100, upload=50)
    served = serve(strategy, Part({}), profiles={0: linked, 1: FAST}, bytes_=1000)
    outcome = next(served.run(start))
    # 33 of 110 samples; 10 seconds for 1,000 bytes in, 4 for 200 out
    assert [(c.work, c.seconds) for c in outcome.clients] == [(33, 33.0 + 10 + 4), (30, 30.0)]
    after = outcome.state.params
    assert [float(after[n].mean()) for n in start.params] == [0.0, 0.0, 1.0, 1.0]


def test_what_later_rounds_will_ask_is_announced_before_and_drawn_once():
    drawn = []

    def draw(asked):
        drawn.append(asked.version)
        return {0: 1, 1: 1}

    executor = Echo({0: 0.0, 1: 0.0})
    server = serve(fedavg.build(), executor, sampler=Sampler(draw), merges=4, ahead=2)
    rounds = server.run(START)
    next(rounds)
    assert executor.expected == [[0, 0], [1, 1], [2, 2]]  # the most urgent first
    list(rounds)
    assert drawn == [0, 1, 2, 3]
    assert executor.expected == [[0, 0], [1, 1], [2, 2], [3, 3]]


def test_who_looks_back_is_not_asked_ahead_and_sees_every_sound_answer():
    def observe(memory, update, sizes):
        seen = memory.get("seconds", torch.zeros(len(sizes)))
        return {"seconds": seen.index_fill(0, torch.tensor(update.client_id), update.seconds)}

    memories = []

    def draw(asked):
        memories.append(asked.memory.get("seconds", torch.zeros(2)).tolist())
        return {0: 1, 1: 1}

    executor = Echo({0: 0.0, 1: float("nan")})
    sampler = Sampler(draw, observe)
    rounds = list(serve(fedavg.build(), executor, sampler=sampler, merges=2, ahead=3).run(START))
    assert executor.expected == []
    assert memories == [[0.0, 0.0], [100.0, 0.0]]
    assert rounds[-1].state.sampler["seconds"].tolist() == [100.0, 0.0]


def buffered(size, *, at_once):
    def decide(seen):
        return Action.MERGE if seen.answers >= size else Action.WAIT

    return Strategy(
        lambda client, deadline, epochs: LocalPlan((Phase(epochs),), Way.FULL),
        aggregation("mean"),
        Pace(decide, refill_at_once=at_once),
    )


def in_turn(asked):
    """Idle clients by number, as many as are asked for."""
    idle = [client for client in asked.sizes if client not in asked.busy]
    return dict.fromkeys(idle[: asked.count], 1)


def test_merging_every_answer_lets_the_slow_go_on_from_an_old_version():
    """Two clients, 100 and 200 seconds a job, refilled at once, a merge for every answer.

    Client 0 answers at 100 (version 0), 200 (version 1), ...; client 1 at 200, from version 0.
    At 200 both answer: client 1 was asked first, so it comes first.
    """
    executor = Echo({0: 1.0, 1: 10.0})
    server = serve(
        buffered(1, at_once=True), executor, sampler=Sampler(in_turn), concurrency=2, merges=4
    )
    rounds = list(server.run(START))
    assert [merged.seconds for merged in rounds] == [100.0, 100.0, 0.0, 100.0]
    assert [[c.client_id for c in merged.clients] for merged in rounds] == [[0], [1], [0], [0]]
    # client 1 from version 0: 0 + 10; client 0 from version 1: 1 + 1
    assert [merged.state.params["w"].item() for merged in rounds] == [1.0, 10.0, 2.0, 3.0]
    assert executor.asked[0] == [(0, 0, 0), (1, 0, 0)]  # one version, trained together


@pytest.mark.parametrize("drawn", [None, [0, 1], {7: 1}, {0: 0}, {0: -1}, {0: 1.5}, {"0": 1}])
def test_a_draw_that_cannot_be_followed_is_refused(drawn):
    server = serve(fedavg.build(), Echo({0: 1.0}), sampler=Sampler(lambda asked: drawn))
    with pytest.raises(BadOption, match=r"draw of a sampler must give clients .*got"):
        next(server.run(START))


def test_a_draw_of_who_is_still_at_work_is_refused():
    everybody = Sampler(lambda asked: dict.fromkeys(asked.sizes, 1))
    server = serve(buffered(1, at_once=False), Echo({0: 1.0, 1: 1.0}), sampler=everybody, merges=2)
    with pytest.raises(BadOption, match="must give clients that are idle"):
        list(server.run(START))


def test_as_many_are_drawn_ahead_as_the_pace_asks_for():
    drawn = []

    def draw(asked):
        drawn.append(asked.count)
        return {0: 1}

    strategy = replace(fedavg.build(), pace=Pace(concurrency=7))
    list(serve(strategy, Echo({0: 0.0}), sampler=Sampler(draw), merges=3, ahead=1).run(START))
    assert drawn == [7] * 3


def test_a_sampler_hears_of_who_was_drawn_and_cannot_work():
    def observe(memory, update, sizes):
        return {"met": torch.tensor([*memory.get("met", []), update.client_id])}

    sampler = Sampler(lambda asked: {0: 1, 1: 1}, observe)
    rounds = list(serve(fedavg_ds.build(), Echo({0: 0.0}), sampler=sampler, merges=2).run(START))
    assert rounds[-1].state.sampler["met"].tolist() == [1, 0, 1, 0]


@pytest.mark.parametrize("answers", [{0: float("nan"), 1: float("inf")}, None])
def test_where_nobody_answers_soundly_a_merge_comes_all_the_same(answers):
    """A model that diverged, or jobs that are all lost: more of them would change nothing."""
    server = serve(buffered(1, at_once=True), Echo(answers), sampler=Sampler(in_turn), merges=3)
    server.clock.dropout = 0.0 if answers else 1.0
    rounds = list(server.run(START))
    assert [len(merged.clients) for merged in rounds] == [FUTILE + 1] * 3  # two were at work
    assert [merged.rejected for merged in rounds] == [FUTILE + 1 if answers else 0] * 3
    assert [merged.state.params["w"].item() for merged in rounds] == [0.0] * 3


def test_a_client_that_starts_twice_from_a_version_is_told_so():
    """Buffer of 3, both refilled at once: client 0 answers twice before the first merge."""
    executor = Echo({0: 1.0, 1: 10.0})
    server = serve(
        buffered(3, at_once=True), executor, sampler=Sampler(in_turn), concurrency=2, merges=1
    )
    (merged,) = server.run(START)
    assert merged.seconds == 200.0
    assert executor.asked == [[(0, 0, 0), (1, 0, 0)], [(0, 0, 1), (1, 0, 1)]]


def test_an_alarm_can_end_the_wait_and_cancel_the_late():
    def decide(seen):
        return Action.MERGE_AND_CANCEL if seen.alarm or not seen.in_flight else Action.WAIT

    plan = fedavg.build().plan
    strategy = Strategy(plan, aggregation("mean"), Pace(decide, alarm=1.5))
    rounds = list(serve(strategy, Echo({0: 1.0, 1: 10.0}), merges=2).run(START))
    assert [merged.seconds for merged in rounds] == [150.0, 150.0]
    assert [merged.state.params["w"].item() for merged in rounds] == [1.0, 2.0]
    assert rounds[-1].state.jobs == ()
    done, late = rounds[0].clients
    assert (done.wasted, done.seconds) == (None, 100.0)
    assert (late.wasted, late.seconds) == (Waste.CANCELLED, 150.0)  # of 200


def test_a_cancelled_job_that_began_before_the_last_merge_has_spent_all_its_time():
    """Client 0 answers at 100 and 200, a merge each; the second cancels client 1, begun at 0."""
    turns = iter([Action.WAIT, Action.MERGE, Action.WAIT, Action.MERGE_AND_CANCEL])
    strategy = Strategy(fedavg.build().plan, aggregation("mean"), Pace(lambda seen: next(turns)))
    profiles = {0: FAST, 1: ClientProfile(10, 0.25)}
    server = serve(
        strategy, Echo({0: 1.0, 1: 1.0}), sampler=Sampler(in_turn), profiles=profiles,
        concurrency=2, merges=2,
    )  # fmt: skip
    first_merge, second = server.run(START)
    assert [client.client_id for client in first_merge.clients] == [0]
    late = next(client for client in second.clients if client.client_id == 1)
    assert (late.seconds, late.wasted, late.staleness) == (200.0, Waste.CANCELLED, 1)


def test_what_is_in_flight_survives_being_written_down():
    """After any merge, another server goes on as this one does."""
    strategy = replace(
        buffered(1, at_once=True), shift=lambda state, client: {"w": state.params["w"] + client}
    )

    def server():
        shifts = {0: 1.0, 1: 10.0, 2: 0.5}
        profiles = {0: FAST, 1: SLOW, 2: ClientProfile(10, 0.3)}
        return serve(
            strategy,
            Echo(shifts),
            sampler=Sampler(in_turn),
            profiles=profiles,
            concurrency=3,
            merges=9,
        )

    whole = list(server().run(START))
    for stopped in range(1, 8):
        saved = to_snapshot(whole[stopped - 1].state)
        other = server()
        state = from_snapshot(saved, torch.device("cpu"), other.assign)
        assert [j.assignment for j in state.jobs] == [
            j.assignment for j in whole[stopped - 1].state.jobs
        ]
        rest = list(other.run(state))
        for mine, expected in zip(rest, whole[stopped:], strict=True):
            assert mine.seconds == expected.seconds
            assert mine.clients == expected.clients
            assert torch.equal(mine.state.params["w"], expected.state.params["w"])


def test_what_a_strategy_remembers_goes_through_the_state():
    """A momentum of its own, and a count per client."""

    def merge(state, updates):
        step = torch.stack([u.params["w"] for u in updates]).mean(dim=0) - state.params["w"]
        momentum = 0.5 * state.tensors.get("m", torch.zeros(1)) + step
        met = {u.client_id: {"times": torch.ones(1)} for u in updates}
        return replace(
            state,
            params={"w": state.params["w"] + momentum},
            tensors={"m": momentum},
            clients={**state.clients, **met},
        )

    strategy = replace(fedavg.build(), merge=all_at_once(merge))
    rounds = list(serve(strategy, Echo({0: 1.0, 1: 1.0}), merges=3).run(START))
    # m = 1, 1.5, 1.75
    assert [merged.state.params["w"].item() for merged in rounds] == [1.0, 2.5, 4.25]
    assert sorted(rounds[-1].state.clients) == [0, 1]
    saved = to_snapshot(rounds[0].state)
    again = serve(strategy, Echo({0: 1.0, 1: 1.0}), merges=3)
    state = from_snapshot(saved, torch.device("cpu"), again.assign)
    assert [m.state.params["w"].item() for m in again.run(state)] == [2.5, 4.25]


@pytest.mark.parametrize(
    ("plan", "sentence"),
    [
        (None, "must return a LocalPlan, got NoneType"),
        (LocalPlan((Phase(1),), "slow"), "path of a plan must be one of .*, got 'slow'"),
        (LocalPlan((Phase(0),), Way.FULL), "1 epoch or more, got 0"),
        (LocalPlan((Phase(1.5),), Way.FULL), "1 epoch or more, got 1.5"),
        (LocalPlan((Phase(-2),), Way.FULL), "1 epoch or more, got -2"),
        (LocalPlan((Phase(1, CoresetSpec(0, "uniform", "none")),), Way.FULL), "1 sample or more"),
        (LocalPlan((Phase(1),), Way.FULL, trained_share=0.0), "above 0 and at most 1, got 0.0"),
        (LocalPlan((Phase(1),), Way.FULL, trained_share=1.5), "above 0 and at most 1, got 1.5"),
    ],
)
def test_a_plan_that_cannot_be_followed_is_refused(plan, sentence):
    with pytest.raises(BadOption, match=sentence):
        checked(plan)
    assert checked(SIT_OUT) is SIT_OUT


@pytest.mark.parametrize(("quorum", "expected"), [(3, 3.0), (4, 0.0)])
def test_below_the_quorum_the_model_stays_as_it_was(quorum, expected):
    strategy = replace(fedavg.build(), pace=Pace(quorum=quorum))
    outcome, _ = first(strategy, {0: 1.0, 1: 4.0})  # one client counts twice
    assert outcome.state.params["w"].item() == expected
    assert outcome.state.version == 1


def test_what_a_client_says_that_it_did_is_written_down():
    class Honest(Echo):
        def run(self, params, assignments):
            found = super().run(params, assignments)
            return [replace(found[0], path=Way.PARTIAL, work=7), *found[1:]]

    outcome = next(serve(fedavg.build(), Honest({0: 1.0, 1: 4.0})).run(START))
    assert [(c.path, c.work) for c in outcome.clients] == [(Way.PARTIAL, 7), (Way.FULL, 100)]
