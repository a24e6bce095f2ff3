import pytest

from fedcore.client.coresets import Coresets
from fedcore.coreset.proxies import NONE
from fedcore.strategies import random_epochs
from fedcore.types import Assignment, ClientProfile, CoresetSpec, LocalPlan, Phase, Way


@pytest.mark.parametrize(("deadline", "budget", "epochs"), [(455.0, 45, 10), (7.5, 1, 7)])
def test_a_phase_for_every_epoch(deadline, budget, epochs):
    plan = random_epochs.build().plan(ClientProfile(100, 1.0), deadline, 10)
    assert plan.phases == (Phase(1, CoresetSpec(budget, "uniform-plain", NONE)),) * epochs


def drawn(plan, client, version):
    coresets = Coresets({0: client})
    told = Assignment(0, plan, version, 0)
    return [tuple(coresets.begin(told, n)().indices) for n in range(len(plan.phases))]


@pytest.mark.parametrize("redraw", [False, True])
def test_every_round_has_its_draw_and_every_epoch_where_asked_for(redraw, build_client):
    client, spec = build_client(60), CoresetSpec(10, "uniform-plain", NONE)
    phases = (Phase(1, spec),) * 5 if redraw else (Phase(5, spec),)
    plan = LocalPlan(phases, Way.RANDOM_SUBSET)
    first, second = drawn(plan, client, 0), drawn(plan, client, 1)
    assert len(set(first + second)) == (10 if redraw else 2)
    assert drawn(plan, client, 0) == first
    assert first[0] == drawn(LocalPlan((Phase(5, spec),), Way.RANDOM_SUBSET), client, 0)[0]
