"""FedCore over real processes: SuperLink, SuperNodes, ServerApp and ClientApps, each its own."""

import json
import os
import re
import signal
import time
from pathlib import Path

import pytest

pytest.importorskip("flwr")

from benchmarks.deployment.cluster import Cluster

APP = Path(__file__).parent / "app"
SOURCE = Path(__file__).parents[2] / "src"
GRACE = 1.5
pytestmark = [pytest.mark.e2e, pytest.mark.timeout(240)]


def cluster(folder: Path, nodes: list[str], **options) -> Cluster:
    named = [f"partition-id={number} {own}" for number, own in enumerate(nodes)]
    environment = {"PYTHONPATH": str(SOURCE), **options.pop("environment", {})}
    return Cluster(folder, named, environment=environment, **options)


def rounds_in(folder: Path) -> list[dict]:
    return [json.loads(line) for line in (folder / "rounds.jsonl").read_text().splitlines()]


def final(output: str) -> str:
    found = re.search(r"FINAL (\w+)", output)
    assert found, output[-3000:]
    return found[1]


def test_rounds_end_on_time_with_tls_and_node_keys(tmp_path):
    """One node is slow, one has eight times the data: both answer in time with less work."""
    nodes = ["", "rate=15.0", "samples=320 rate=100.0"]
    with cluster(tmp_path, nodes) as running:
        run = running.run(APP, num_rounds=3, deadline=9.0, out=str(tmp_path / "out"))
        output = running.finish(run, 80)
    assert final(output)
    rounds = rounds_in(tmp_path / "out")
    assert len(rounds) == 3
    assert all(9.0 * one["round_time"] <= 9.0 + GRACE for one in rounds)
    work = {client["client"]: client["work"] for client in rounds[0]["clients"]}
    assert sorted(work) == [0, 1, 2]
    assert sum(count == 160 for count in work.values()) == 1  # E = 4 epochs of 40 samples
    told = re.findall(r"round (\d): .* on time", output)
    assert told == ["1", "2", "3"]


def test_no_node_stops_a_run(tmp_path):
    """One sends NaN, one raises, one is killed, one hangs; the fifth is averaged all the same."""
    nodes = ["", "fault='nan'", "fault='raises'", "fault='dies'", "fault='hangs'"]
    with cluster(tmp_path, nodes, secure=False) as running:
        # Five processes import torch on however few cores before anybody trains.
        settings = {"nodes": 5, "deadline": 20.0, "num_rounds": 3, "out": str(tmp_path / "out")}
        output = running.finish(running.run(APP, **settings), 150)
    assert final(output)
    assert "NaN or infinity" in output
    assert "code 2" in output  # what Flower says of a client that raised
    rounds = rounds_in(tmp_path / "out")
    assert rounds[0]["rejected"] == 1
    assert all(one["participants"] >= 1 for one in rounds)
    assert all(20.0 * one["round_time"] <= 20.0 + GRACE + 1.0 for one in rounds)


SETTINGS = {"nodes": 2, "deadline": 20.0, "num_rounds": 2}


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    """The model of a run that never stopped: plans fixed, no time cut."""
    with cluster(tmp_path_factory.mktemp("whole"), ["", ""], secure=False) as running:
        return final(running.finish(running.run(APP, **SETTINGS), 60))


def stopped_in_round_two(running: Cluster, folder: Path) -> dict:
    """Start a run that keeps checkpoints, and wait until its second round is under way."""
    kept = {**SETTINGS, "checkpoint": str(folder / "kept"), "out": str(folder / "out")}
    running.run(APP, **kept)
    until = time.monotonic() + 40
    while not list((folder / "kept").glob("*")) and time.monotonic() < until:
        time.sleep(0.05)
    # In the middle of the round, not of sending: a node that was promised the rest of a message
    # waits for it until Flower sees that the server is gone, most of a minute.
    time.sleep(2.0)
    return kept


def assert_second_round_alone(output: str, folder: Path) -> None:
    assert re.findall(r"round (\d):", output) == ["2"]
    assert [one["round"] for one in rounds_in(folder / "out")] == [1, 2]


def test_a_killed_server_goes_on_after_the_last_finished_round(tmp_path, uninterrupted):
    with cluster(tmp_path, ["", ""], secure=False) as running:
        kept = stopped_in_round_two(running, tmp_path)
        for server in running.members("flwr-serverapp"):
            os.kill(server, signal.SIGKILL)
        output = running.finish(running.run(APP, **kept), 60)
    assert final(output) == uninterrupted
    assert_second_round_alone(output, tmp_path)


def test_a_killed_superlink_goes_on_after_the_last_finished_round(tmp_path, uninterrupted):
    with cluster(tmp_path, ["", ""], secure=False, database="state.db") as running:
        kept = stopped_in_round_two(running, tmp_path)
        running.kill("superlink")
        for left in running.members("flwr-serverapp|superexec.*:" + str(running.port)):
            os.kill(left, signal.SIGKILL)
        running.start_superlink()
        output = running.finish(running.run(APP, **kept), 80)
    assert final(output) == uninterrupted
    assert_second_round_alone(output, tmp_path)


def test_a_clock_behind_works_and_one_ahead_is_named(tmp_path):
    """Flower refuses who is ahead before our code runs; the server's error says what to look at."""
    shifts = {1: "-60", 2: "60"}
    path = os.pathsep.join([str(Path(__file__).parent / "clock"), str(SOURCE)])
    own = {n: {"PYTHONPATH": path, "FEDCORE_CLOCK_SHIFT": shift} for n, shift in shifts.items()}
    nodes = ["", "", ""]
    options = {"secure": False, "node_environment": own, "absent": (2,)}
    with cluster(tmp_path, nodes, **options) as running:
        settings = {"nodes": 2, "deadline": 15.0, "num_rounds": 1, "out": str(tmp_path / "out")}
        assert final(running.finish(running.run(APP, **settings), 60))
        assert rounds_in(tmp_path / "out")[0]["participants"] == 2
        running.start_node(2)
        running.wait_for_log("node2", "terminated gracefully", 30)
        short = {"nodes": 3, "num_rounds": 1, "wait_for_nodes": 2.0}
        output = running.finish(running.run(APP, **short), 40)
    assert "2 nodes are online" in output
    assert "clock" in output


def test_asynchronous_merges_do_not_wait_for_the_slow(tmp_path):
    """FedBuff over the same grid: three nodes busy, a merge for every two answers."""
    with cluster(tmp_path, ["", "", "rate=12.0"], secure=False) as running:
        settings = {"strategy": "fedbuff", "buffer": 2, "num_rounds": 4}
        run = running.run(APP, **settings, out=str(tmp_path / "out"))
        assert final(running.finish(run, 80))
    rounds = rounds_in(tmp_path / "out")
    assert [one["participants"] for one in rounds] == [2, 2, 2, 2]
    stale = [client.get("staleness", 0) for one in rounds for client in one["clients"]]
    assert max(stale) >= 1  # the slow one began from an older model than it is merged into
