import pytest
import torch

from fedcore.client import coresets
from fedcore.client.coresets import Coresets, Watched, asks_nothing_of_the_model
from fedcore.coreset.proxies import HeadGradients
from fedcore.types import Assignment, ClientData, CoresetSpec, LocalPlan, Phase, Way


def assignment(round_number, spec, client=0):
    plan = LocalPlan((Phase(1), Phase(2, spec)), Way.CORESET)
    return Assignment(client, plan, round_number - 1, seed=0)


def test_convex_distances_are_computed_once_per_client_over_all_rounds(build_client, monkeypatch):
    calls = []
    build = coresets.build_coreset

    def counting(*arguments):
        calls.append(1)
        return build(*arguments)

    monkeypatch.setattr(coresets, "build_coreset", counting)
    source = Coresets({0: build_client(30), 1: build_client(30, seed=1)})
    spec = CoresetSpec(6, "kmedoids", "input")
    for round_number in range(1, 6):
        for client in (0, 1):
            source.begin(assignment(round_number, spec, client), 1)()
    assert len(calls) == 2


def test_gradient_coresets_are_built_anew_in_every_round(build_client):
    source = Coresets({0: build_client(30)})
    spec = CoresetSpec(6, "uniform", "logits")
    seen = HeadGradients(torch.randn(30, 2), torch.randn(30, 4), torch.rand(30))
    watched = Watched(seen, torch.randn(2, 4), bias=True)
    first = source.begin(assignment(1, spec), 1, watched)()
    second = source.begin(assignment(2, spec), 1, watched)()
    assert first.indices.tolist() != second.indices.tolist()


def test_what_is_missing_is_what_inputs_decide_and_is_not_kept(build_client):
    source = Coresets({0: build_client(30)})
    by_inputs = CoresetSpec(6, "kmedoids", "input")
    for spec in (CoresetSpec(6, "kmedoids", "logits"), CoresetSpec(6, "uniform", "none")):
        assert source.missing(assignment(1, spec)) == 0
    assert source.missing(assignment(1, by_inputs)) == 30
    source.begin(assignment(1, by_inputs), 1)()
    assert source.missing(assignment(2, by_inputs)) == 0


def test_a_phase_without_a_coreset_is_everything(build_client):
    found = Coresets({0: build_client(5)}).begin(assignment(1, CoresetSpec(2, "", "")), 0)()
    assert found.indices.tolist() == [0, 1, 2, 3, 4]
    assert found.weights.tolist() == [1] * 5


@pytest.mark.parametrize(
    ("selector", "proxy", "expected"),
    [
        ("kmedoids", "input", True),
        ("kmedoids", "logits", False),
        ("loss-topk", "input", False),  # losses come from a pass
        ("uniform-plain", "none", True),
    ],
)
def test_what_can_be_had_without_a_pass_of_the_model(selector, proxy, expected):
    assert asks_nothing_of_the_model(CoresetSpec(1, selector, proxy)) is expected


def test_kept_coresets_do_not_grow_with_the_fleet(build_client, monkeypatch):
    monkeypatch.setattr(coresets, "MOST_KEPT", 20)
    clients = {n: build_client(30, seed=n) for n in range(10)}
    source = Coresets(clients)
    spec = CoresetSpec(6, "kmedoids", "input")
    for client in (*range(10), 0):
        samples = source.begin(assignment(1, spec, client), 1)()
        expected = Coresets(clients).begin(assignment(1, spec, client), 1)()
        assert samples.indices.tolist() == expected.indices.tolist()
        assert sum(len(kept.indices) for kept in source._kept.values()) <= 20


def test_gradients_that_are_not_finite_give_a_draw_of_the_same_size(build_client):
    """Who has diverged answers all the same, in its time; the answer is refused later."""
    source = Coresets({0: build_client(30)})
    gradients = HeadGradients(torch.full((30, 2), torch.nan), torch.zeros(30, 3), torch.zeros(30))
    watched = Watched(gradients, torch.randn(2, 3), True)
    chosen = source.begin(assignment(1, CoresetSpec(6, "kmedoids", "logits")), 1, watched)()
    assert len(set(chosen.indices.tolist())) == 6


def test_inputs_of_one_number_each_have_distances():
    data = ClientData(torch.arange(20), torch.zeros(20, dtype=torch.int64))
    chosen = Coresets({0: data}).begin(assignment(1, CoresetSpec(4, "kcenter", "input")), 1)()
    assert len(chosen.indices) == 4
