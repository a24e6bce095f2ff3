"""FedCore inside FedAsync: its plans with FedAsync's pull, and FedAsync's merge."""

from dataclasses import replace

import pytest

from fedcore.strategies import fedasync, fedcore, fedcore_async
from fedcore.types import ClientProfile


@pytest.mark.parametrize("deadline", [1000.0, 190.0, 99.0])
def test_clients_work_as_under_fedcore_with_a_pull(deadline):
    client = ClientProfile(100, 1.0)
    plan = fedcore_async.build().plan(client, deadline, 10)
    assert plan == replace(fedcore.build().plan(client, deadline, 10), prox_mu=0.005)


def test_it_merges_as_fedasync_does(merged, state_of):
    one, other = (m.build(mixing=0.3) for m in (fedcore_async, fedasync))
    now, answer = state_of(2.0, version=3), (1, 7.0, 1.0, {"base_version": 0})
    assert merged(one, now, answer).params["w"] == merged(other, now, answer).params["w"]


def test_every_job_is_in_time(simulated):
    mine, theirs = simulated("fedcore-async", rounds=12), simulated("fedasync", rounds=12)
    deadline = mine[0][0].deadline
    assert max(c.seconds for record, _ in mine for c in record.clients) <= deadline
    assert max(c.seconds for record, _ in theirs for c in record.clients) > deadline
