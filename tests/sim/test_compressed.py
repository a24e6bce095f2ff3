"""Runs whose clients send less: links, resuming, and what stays as it was."""

from dataclasses import replace

import pytest
import torch

from fedcore.config import Experiment
from fedcore.errors import BadOption
from fedcore.records import RunKey
from fedcore.server.state import to_snapshot
from fedcore.sim.federation import federation_from_model
from fedcore.sim.world import build_strategy, build_world, simulate_rounds
from fedcore.types import FederatedDataset

SMALL = Experiment(rounds=4, epochs=3, clients_per_round=3, learning_rate=0.1)


@pytest.fixture
def federation(build_client):
    clients = {i: build_client(20 + 15 * i, seed=i) for i in range(6)}
    return federation_from_model(FederatedDataset(clients, build_client(50), 2), "logistic", 0)


def compressed(federation, text, rounds=6, start=None, name="fedavg", **options):
    """Records and states of a run that compresses, from its start or a snapshot on."""
    experiment = replace(SMALL, compress=text, rounds=rounds, **options)
    strategy = build_strategy(name, experiment, federation.proxy, 6, federation.model_bytes)
    world = build_world(federation, experiment, RunKey("own", name, 30.0, 0), strategy)
    return list(simulate_rounds(world, start))


def same(first, second):
    return all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize("text", ["topk:0.1", "8bit", "topk:0.1+8bit"])
def test_a_compressed_run_goes_on_byte_for_byte_with_what_clients_keep(federation, text):
    whole = compressed(federation, text)
    _, kept = whole[2]
    assert kept.unsent
    assert any(own.any() for own in kept.unsent.values())
    later = compressed(federation, text, start=to_snapshot(kept))
    for (_, one), (_, other) in zip(whole[3:], later, strict=True):
        assert same(one.params, other.params)
        assert one.unsent.keys() == other.unsent.keys()
        assert all(torch.equal(one.unsent[c], other.unsent[c]) for c in one.unsent)
    forgotten = compressed(federation, text, start=to_snapshot(replace(kept, unsent={})))
    assert not same(forgotten[-1][1].params, whole[-1][1].params)


def test_who_is_cancelled_sends_nothing_and_keeps_what_it_had(federation):
    """Of five drawn the first three answer: the others' e is as before, or none."""
    options = {"name": "fedavg-os", "selection": "uniform", "method": {"over_selection": 5 / 3}}
    before, kept_some = {}, 0
    for record, state in compressed(federation, "topk:0.1", **options):
        stopped = [c.client_id for c in record.clients if c.wasted == "cancelled"]
        assert len(stopped) == 2
        for client in stopped:
            assert (client in state.unsent) == (client in before)
            assert client not in before or torch.equal(state.unsent[client], before[client])
            kept_some += client in before
        before = state.unsent
    assert kept_some


@pytest.mark.parametrize("name", ["fedbuff", "fedasync"])
def test_what_is_in_flight_is_compressed_when_it_comes(federation, name):
    """A run that goes on does as the one that never stopped, whose answers wait as they are."""
    options = {"name": name, "method": {"buffer": 2}, "selection": "uniform"}
    whole = compressed(federation, "topk:0.1", 8, **options)
    for stopped in range(1, 8):
        _, kept = whole[stopped - 1]
        rest = compressed(federation, "topk:0.1", 8, start=to_snapshot(kept), **options)
        assert same(rest[-1][1].params, whole[-1][1].params)
        assert same(rest[-1][1].unsent, whole[-1][1].unsent)


def test_off_is_what_it_always_was_and_all_coordinates_are_nearly_that(federation):
    plain, all_sent = (compressed(federation, text) for text in ("none", "topk:1.0"))
    assert not plain[-1][1].unsent
    for (_, one), (_, other) in zip(plain, all_sent, strict=True):
        assert all(torch.allclose(one.params[n], other.params[n], atol=1e-6) for n in one.params)


def test_links_are_charged_for_what_is_sent(federation):
    """Whole: B / d + B / u. Of it, 8 bits send a quarter upward and a scale a block."""
    links = {
        "download": 1e9,
        "upload": 1e2,
        "capability": "equal",
        "deadline": 1e6,
        "stragglers": (),
    }
    size = federation.model_bytes
    records = {t: compressed(federation, t, 1, **links)[0][0] for t in ("none", "8bit")}
    sent = {t: [e for e in r.events if e["event"] == "done"] for t, r in records.items()}
    assert {e["bytes_up"] for e in sent["none"]} == {size}
    packed = size // 4 + 4 * -(-size // 4096)
    assert {e["bytes_up"] for e in sent["8bit"]} == {packed}
    saved = [
        a.seconds - b.seconds for a, b in zip(*(r.clients for r in records.values()), strict=True)
    ]
    assert saved == pytest.approx([(size - packed) / 1e2] * len(saved))


def test_parts_of_models_are_not_compressed(federation):
    experiment = replace(SMALL, compress="8bit")
    strategy = build_strategy("timelyfl", experiment, federation.proxy)
    with pytest.raises(BadOption, match="compress"):
        build_world(federation, experiment, RunKey("own", "timelyfl", 30.0, 0), strategy)
