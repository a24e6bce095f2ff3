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
pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]


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
        settings = {"nodes": 5, "deadline": 8.0, "num_rounds": 3, "out": str(tmp_path / "out")}
        output = running.finish(running.run(APP, **settings), 100)
    assert final(output)
    assert "NaN or infinity" in output
    assert "code 2" in output  # what Flower says of a client that raised
    rounds = rounds_in(tmp_path / "out")
    assert rounds[0]["rejected"] == 1
    assert all(one["participants"] >= 1 for one in rounds)
    assert all(8.0 * one["round_time"] <= 8.0 + GRACE + 1.0 for one in rounds)


def test_a_killed_server_goes_on_after_the_last_finished_round(tmp_path):
    """The model is that of a run that never stopped, bit for bit: plans fixed, no time cut."""
    settings = {"nodes": 2, "deadline": 20.0, "num_rounds": 2}
    with cluster(tmp_path, ["", ""], secure=False) as running:
        whole = running.run(APP, **settings, checkpoint=str(tmp_path / "whole"))
        expected = final(running.finish(whole, 60))
        kept = {**settings, "checkpoint": str(tmp_path / "kept"), "out": str(tmp_path / "out")}
        running.run(APP, **kept)
        until = time.monotonic() + 40
        while not list((tmp_path / "kept").glob("*")) and time.monotonic() < until:
            time.sleep(0.05)
        # In the middle of the next round, not of sending: a node that was promised the rest of a
        # message waits for it until Flower sees that the server is gone, most of a minute.
        time.sleep(2.0)
        for server in running.members("flwr-serverapp"):
            os.kill(server, signal.SIGKILL)
        output = running.finish(running.run(APP, **kept), 60)
    assert final(output) == expected
    assert re.findall(r"round (\d):", output) == ["2"]
    assert [one["round"] for one in rounds_in(tmp_path / "out")] == [1, 2]
