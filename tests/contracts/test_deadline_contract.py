"""What every controller of deadlines must do, whatever its name."""

import dataclasses
import json
import math

import pytest
import torch
from torch import nn

from fedcore import plugins
from fedcore.cli.grid import run_grid
from fedcore.config import Experiment, resolve
from fedcore.errors import BadOption, Interrupted
from fedcore.records import RunKey
from fedcore.report import output
from fedcore.report.verify import verify
from fedcore.server.controller import PROBE, ROOM
from fedcore.server.state import to_snapshot
from fedcore.sim.federation import federate
from fedcore.sim.fleet import fleet_of
from fedcore.sim.world import build_strategy, build_world, simulate_rounds
from fedcore.types import FederatedDataset

NAMES = plugins.names("deadline")
LINK = 200.0  # bytes a second, of every link
SMALL = Experiment(
    rounds=7,
    epochs=3,
    clients_per_round=3,
    learning_rate=0.1,
    selection="uniform",
    stragglers=(30.0,),
    download=LINK,
    upload=LINK,
)
OWN = {"fixed": {"seconds": 9.0}, "ddl-e": {"window": 2}}


@pytest.fixture
def federation(build_client):
    clients = {10 + i: build_client(16 + 8 * i, seed=i) for i in range(6)}
    torch.manual_seed(0)
    return federate(FederatedDataset(clients, None, 2), nn.Linear(3, 2))


def simulated(federation, name, strategy="fedcore", start=None, **more):
    method = {**OWN.get(name, {}), **({"buffer": 2} if "buff" in strategy else {})}
    own = dataclasses.replace(SMALL, deadline=name, method=method, **more)
    there = (federation.proxy, len(federation.dataset.clients), federation.model_bytes)
    built = build_strategy(strategy, own, *there)
    world = build_world(federation, own, RunKey("test", strategy, 30.0, 0), built)
    return list(simulate_rounds(world, start))


def untimed(result):
    return [dataclasses.replace(record, wall_seconds=0.0) for record, _ in result]


@pytest.mark.parametrize("strategy", ["fedcore", "fedcore-buff", "fedbalancer"])
@pytest.mark.parametrize("name", NAMES)
def test_a_run_that_goes_on_is_the_run_that_never_stopped(federation, name, strategy):
    whole = simulated(federation, name, strategy)
    assert untimed(simulated(federation, name, strategy)) == untimed(whole)  # two runs are one
    for stopped in (1, 2, 5):
        rest = simulated(federation, name, strategy, to_snapshot(whole[stopped - 1][1]))
        assert untimed(rest) == untimed(whole)[stopped:]
        assert all(
            torch.equal(rest[-1][1].params[key], value)
            for key, value in whole[-1][1].params.items()
        )


@pytest.mark.parametrize("name", [name for name in NAMES if name != "fixed"])
def test_deadlines_keep_their_bounds_and_have_a_reason(federation, name):
    records = [record for record, _ in simulated(federation, name)]
    transfer = 2 * federation.model_bytes / LINK
    fleet = fleet_of(
        {c: len(d) for c, d in federation.dataset.clients.items()},
        SMALL,
        30.0,
        0,
        federation.model_bytes,
    )
    full = [c.seconds(3 * c.num_samples, federation.model_bytes) for c in fleet.profiles.values()]
    assert transfer < records[0].allowed < 2 * min(full)  # a probe: somebody can do something
    assert math.log2(records[0].allowed / PROBE).is_integer()
    assert records[0].reason == (
        f"nobody has answered yet; doubled from {PROBE:.4g} s until somebody drawn can work"
    )
    for record in records[1:]:
        assert ROOM * transfer * 0.999 <= record.allowed
        assert record.allowed <= max(full) * 1.001
        assert record.reason
        assert record.seconds <= record.allowed
    # Times are in deadlines of the percentile, whatever the rounds' own are.
    assert {record.deadline for record in records} == {fleet.deadline}


@pytest.mark.parametrize("link", [50.0, 200.0, 333.0])
def test_who_sets_the_deadline_by_its_own_time_keeps_it(federation, link):
    """One client a round, for as long as it needs for everything: by rounding it had less."""
    share = {"deadline": "kth-arrival", "method": {"share": 1.0}, "rounds": 40}
    options = {"clients_per_round": 1, "download": link, "upload": 0.7 * link, **share}
    alone = dataclasses.replace(SMALL, **options)
    built = build_strategy("partial", alone, federation.proxy)
    for seed in range(3):
        world = build_world(federation, alone, RunKey("test", "partial", 30.0, seed), built)
        known = set()
        for record, _ in simulate_rounds(world):
            (client,) = record.clients
            whole = 3 * len(federation.dataset.clients[client.client_id])
            assert client.work == whole or client.client_id not in known
            known |= {client.client_id} if client.work else set()


def test_a_deadline_that_stays_does_not_grow(federation):
    deadlines = [record.allowed for record, _ in simulated(federation, "auto", rounds=20)]
    assert deadlines[-1] == deadlines[-2]


def test_nobody_knows_clients_that_never_answered(federation):
    for record, state in simulated(federation, "auto"):
        table = state.seen["clients"]
        heard = {
            c.client_id
            for r, _ in simulated(federation, "auto")[: record.number]
            for c in r.clients
            if c.work
        }
        assert int((table[:, 0] > 0).sum()) == len(heard)


@pytest.mark.parametrize("strategy", ["fedcore", "fedavg", "fedavg-os", "fedcore-buff", "fedasync"])
@pytest.mark.parametrize("name", ["auto", "kth-arrival"])
def test_what_is_written_can_be_true_also_when_killed_and_gone_on_with(
    tmp_path, monkeypatch, name, strategy
):
    monkeypatch.setattr(output, "CHECKPOINT_EVERY", 0.0)
    link = {"download": 5e3, "upload": 5e3, "dropout": 0.1, "mean_on": 3.0, "mean_off": 0.5}
    link["selector"] = "uniform"  # which is quick
    one = Experiment(
        strategies=(strategy,), stragglers=(30.0,), rounds=6, epochs=2, deadline=name, **link
    )

    def stop(run, done, share):
        if done == 3:
            raise Interrupted("now")

    with pytest.raises(Interrupted):
        run_grid(one, tmp_path / "killed", tell=stop)
    run_grid(one, tmp_path / "killed", resume=True)
    run_grid(one, tmp_path / "whole")
    for folder in ("killed", "whole"):
        wrong, events = verify(tmp_path / folder)
        assert wrong == []
        assert events
    rows = [
        [json.loads(line) for line in (tmp_path / folder / "rounds.jsonl").read_text().splitlines()]
        for folder in ("killed", "whole")
    ]
    assert [row["check"] for row in rows[0]] == [row["check"] for row in rows[1]]
    assert len({row["deadline"] for row in rows[0]}) > 1
    assert all(row["reason"] for row in rows[0])


def test_a_deadline_that_was_changed_is_found(tmp_path):
    run_grid(Experiment(strategies=("fedcore",), rounds=4, deadline="auto"), tmp_path / "job")
    path = tmp_path / "job" / "rounds.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    rows[2]["deadline"] *= 2
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert any("its jobs have another" in sentence for sentence in verify(tmp_path / "job")[0])


def test_a_time_budget_is_in_deadlines_of_the_percentile(tmp_path):
    one = Experiment(
        strategies=("fedcore",),
        stragglers=(30.0,),
        time_budget=1.5,
        deadline="auto",
        epochs=2,
        selector="uniform",
        download=1e3,
        upload=1e3,
    )
    content, _ = run_grid(one, None)
    (result,) = content["results"]
    assert result["virtual_seconds"] == pytest.approx(1.5 * result["deadline_seconds"])
    assert result["mean_round_time"] < 1
    fixed, _ = run_grid(dataclasses.replace(one, deadline=0.0), None)
    assert fixed["results"][0]["deadline_seconds"] == result["deadline_seconds"]


def test_options_name_a_controller_or_seconds():
    def own(**given):
        return resolve(given, lambda name, preset: {})

    assert own(deadline="auto").stragglers == (30.0,)
    assert own(deadline="auto", stragglers=[10]).stragglers == (10.0,)
    assert own(deadline="12.5").deadline == own(deadline=12.5).deadline == 12.5
    assert own(deadline="12.5").stragglers == ()
    for wrong, told in (
        ("atuo", "no deadline named 'atuo'; did you mean 'auto'"),
        ("-1", "deadline must be at least 0"),
        ("nan", "deadline must be at least 0"),
        ([1], "deadline must be a number"),
        (True, "deadline must be a number"),
    ):
        with pytest.raises(BadOption, match=told):
            own(deadline=wrong)


def test_a_file_of_ones_own_and_its_options(tmp_path, federation):
    path = tmp_path / "mine.py"
    path.write_text(
        '"""Mine."""\nfrom fedcore.server.controller import Controller\n\n'
        "def build(*, base: float = 1.0):\n"
        "    return Controller(lambda seen: (base + len(seen.rounds), 'mine'), bounded=False)\n"
    )
    own = dataclasses.replace(SMALL, deadline=str(path), method={"base": 20.0})
    built = build_strategy("fedcore", own, federation.proxy)
    world = build_world(federation, own, RunKey("test", "fedcore", 30.0, 0), built)
    found = [record.allowed for record, _ in simulate_rounds(world)]
    assert found == [20.0 + n for n in range(7)]


def test_an_option_that_no_controller_takes_is_refused(tmp_path):
    with pytest.raises(BadOption, match="no method option named 'step'; did you mean 'steps'"):
        run_grid(Experiment(deadline="auto", method={"step": 1}), tmp_path / "x")
    with pytest.raises(BadOption, match="steps must be above 0"):
        run_grid(Experiment(deadline="auto", method={"steps": 0}), tmp_path / "x")
    assert not (tmp_path / "x").exists()
