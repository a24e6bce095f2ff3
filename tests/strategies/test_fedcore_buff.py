"""FedCore inside FedBuff: its plans, FedBuff's merge, and jobs that are never late."""

import pytest

from fedcore.strategies import fedbuff, fedcore, fedcore_buff
from fedcore.types import ClientProfile


@pytest.mark.parametrize("deadline", [1000.0, 190.0, 99.0, 0.5])
def test_clients_work_as_under_fedcore(deadline):
    client = ClientProfile(100, 1.0)
    plan = fedcore_buff.build().plan(client, deadline, 10)
    assert plan == fedcore.build().plan(client, deadline, 10)


def test_it_merges_as_fedbuff_does(merged, state_of):
    answers = (0, 6.0, 2.0, {}), (1, 7.0, 1.0, {"base_version": 0})
    one, other = (m.build(global_rate=0.7) for m in (fedcore_buff, fedbuff))
    now = state_of(2.0, version=3)
    assert merged(one, now, *answers).params["w"] == merged(other, now, *answers).params["w"]


def test_options_of_the_experiment_reach_the_plan(simulated):
    """Every job ends in time, so nobody is staler than with FedBuff, and coresets are as asked."""
    options = {"selector": "uniform", "method": {"buffer": 1}, "rounds": 12}
    mine, theirs = simulated("fedcore-buff", **options), simulated("fedbuff", **options)
    deadline = mine[0][0].deadline
    jobs = [client for record, _ in mine for client in record.clients]
    assert max(job.seconds for job in jobs) <= deadline
    assert any(job.coreset_size for job in jobs)
    late = [client.seconds for record, _ in theirs for client in record.clients]
    assert max(late) > deadline


def test_what_clients_do_is_no_option_of_it(simulated):
    """--method local=partial is for the others of a comparison."""
    options = {"method": {"buffer": 1, "local": "partial"}, "rounds": 12}
    jobs = [
        client for record, _ in simulated("fedcore-buff", **options) for client in record.clients
    ]
    assert any(job.coreset_budget for job in jobs)
