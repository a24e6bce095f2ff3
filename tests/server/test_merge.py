from dataclasses import replace

import pytest
import torch

from fedcore.errors import BadOption
from fedcore.server.merge import aggregation, all_at_once, moved, summed
from fedcore.server.method import Strategy
from fedcore.server.state import ServerState
from fedcore.types import SIT_OUT, LocalUpdate


def answer(client, value, samples, copies=1):
    return LocalUpdate(client, {"w": torch.tensor([value])}, samples, copies)


START = ServerState({"w": torch.tensor([9.0])}, version=3)


def merged(merge, answers, state=START):
    merging = merge(state)
    for one in answers:
        merging.add(one, state.params)
    return merging.finish()


def test_the_plain_mean_counts_draws_not_samples():
    # Drawn three times: client 0 once (1.0), client 1 twice (4.0): (1 + 4 + 4) / 3
    answers = [answer(0, 1.0, samples=100), answer(1, 4.0, samples=1, copies=2)]
    assert merged(aggregation("mean"), answers).params["w"].item() == 3.0


def test_the_weighted_mean_counts_samples_and_draws():
    # 3 · 1 once and 1 · 5 twice: (3 + 10) / 5
    answers = [answer(0, 1.0, samples=3), answer(1, 5.0, samples=1, copies=2)]
    assert merged(aggregation("samples"), answers).params["w"].item() == pytest.approx(2.6)


@pytest.mark.parametrize(("name", "expected"), [("mean", (1 + 15) / 4), ("samples", (3 + 15) / 6)])
def test_a_weight_that_an_answer_brings_multiplies(name, expected):
    heavy = replace(answer(1, 5.0, samples=1), payload={"weight": torch.tensor(3.0)})
    light = replace(answer(0, 1.0, samples=3), payload={"weight": torch.tensor(1.0)})
    found = merged(aggregation(name), [light, heavy]).params["w"].item()
    assert found == pytest.approx(expected)


@pytest.mark.parametrize("name", ["mean", "samples"])
def test_without_answers_everything_stays_as_it_is(name):
    assert merged(aggregation(name), []) is START


@pytest.mark.parametrize("name", ["mean", "samples"])
def test_the_order_of_the_answers_does_not_show(name):
    draw = torch.Generator().manual_seed(0)
    answers = [LocalUpdate(i, {"w": torch.randn(50, generator=draw)}, i + 1) for i in range(20)]
    state = ServerState({"w": torch.zeros(50)})
    both = (merged(aggregation(name), a, state).params["w"] for a in (answers, answers[::-1]))
    assert torch.equal(*both)


def test_a_mean_keeps_the_type_of_the_model_and_what_else_the_state_holds():
    state = replace(START, tensors={"momentum": torch.ones(1)})
    after = merged(aggregation("mean"), [answer(0, 1.0, 1)], state)
    assert after.params["w"].dtype == torch.float32
    assert after.tensors is state.tensors


@pytest.mark.parametrize(("name", "head"), [("mean", (1 + 4 + 4) / 3), ("samples", 13 / 5)])
def test_a_mean_is_over_those_who_sent_a_layer_and_what_nobody_sent_stays(name, head):
    """Client 0 with 3 samples once, client 1 with 1 sample twice; body by client 1 alone."""
    state = ServerState({n: torch.tensor([9.0]) for n in ("input", "body", "head")})
    other = {"body": torch.tensor([2.0]), "head": torch.tensor([4.0 if name == "mean" else 5.0])}
    answers = [
        LocalUpdate(0, {"head": torch.tensor([1.0])}, 3),
        LocalUpdate(1, other, 1, copies=2),
    ]
    after = merged(aggregation(name), answers, state).params
    assert list(after) == ["input", "body", "head"]
    assert after["head"].item() == pytest.approx(head)
    assert (after["body"].item(), after["input"].item()) == (2.0, 9.0)


def test_a_method_may_ask_for_all_answers_at_once():
    def median(state, updates):
        values = torch.stack([update.params["w"] for update in updates])
        return replace(state, params={"w": values.median(dim=0).values})

    answers = [answer(i, value, 1) for i, value in enumerate((1.0, 100.0, 2.0))]
    assert merged(all_at_once(median), answers).params["w"].item() == 2.0
    assert merged(all_at_once(median), []) is START


def test_an_unknown_name_is_refused():
    with pytest.raises(BadOption, match=r"aggregation must be one of mean, samples, got 'median'"):
        aggregation("median")


def test_a_merge_function_of_an_earlier_version_is_refused_in_a_sentence():
    with pytest.raises(BadOption, match=r"wrap a function of \(state, answers\) in .*all_at_once"):
        Strategy(lambda client, deadline, epochs: SIT_OUT, lambda params, updates: params)


@pytest.mark.parametrize("plan", [lambda client, seconds: SIT_OUT, lambda: SIT_OUT])
def test_a_plan_of_other_arguments_is_refused_with_a_remedy(plan):
    with pytest.raises(BadOption, match=r"plan of a Strategy takes a client, .*own_strategy\.py"):
        Strategy(plan, aggregation("mean"))


def test_answers_against_the_model_each_began_from():
    """w_i - w^v: 5 - 1 and 2 - 3."""
    seen = []
    merging = all_at_once(lambda state, updates: seen.extend(updates) or state, moves=True)(
        ServerState({"w": torch.tensor([9.0])})
    )
    merging.add(LocalUpdate(0, {"w": torch.tensor([5.0])}, 1), {"w": torch.tensor([1.0])})
    merging.add(LocalUpdate(1, {"w": torch.tensor([2.0])}, 1), {"w": torch.tensor([3.0])})
    merging.finish()
    assert [update.params["w"].item() for update in seen] == [4.0, -1.0]


def test_sums_and_moves_are_exact_where_float32_is_not():
    """1 + 2⁻²⁴ + 2⁻²⁴ = 1 + 2⁻²³, which sums in float32 miss: each half a unit is lost."""
    tiny = 2.0**-24
    updates = [LocalUpdate(0, {"w": torch.tensor([v])}, 1) for v in (1.0, tiny, tiny)]
    assert summed(updates, [1.0, 1.0, 1.0])["w"].item() == 1 + 2 * tiny
    assert summed(updates, [2.0, 0.0, 0.0])["w"].dtype == torch.float32
    moves = {"w": torch.tensor([3.0], dtype=torch.float64)}
    after = moved({"w": torch.tensor([1.0])}, moves, -0.5)
    assert (after["w"].item(), after["w"].dtype) == (-0.5, torch.float32)


def test_nothing_is_zero():
    move = {"w": torch.tensor([3.0])}
    assert moved({}, move, 2.0)["w"].item() == 6.0
    assert moved(move, {}, 2.0) == move
    assert moved({}, {}) == {}


def test_whole_numbers_stay_what_they_are_where_weights_are_not():
    state = ServerState({"w": torch.zeros(1), "places": torch.arange(512)})
    merging = aggregation("mean")(state)
    for client, weight in enumerate((0.1, 0.2, 0.3, 0.7, 0.1, 0.1)):
        payload = {"weight": torch.tensor(weight, dtype=torch.float64)}
        merging.add(LocalUpdate(client, state.params, 1, payload=payload), state.params)
    assert merging.finish().params["places"].equal(state.params["places"])
