"""The real command: processes side by side, killed in the middle, started again."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from fedcore.cli.pieces import run_piece
from fedcore.cli.table2 import pieces_of
from fedcore.report.output import ROUNDS, SUMMARY

OPTIONS = {"rounds": 25, "epochs": 2, "device": "cpu", "threads": 1}
ASKED = ("synthetic-1-1", "30", "1", "paper")
COMMAND = [
    sys.executable,
    "-m",
    "fedcore.reproduce",
    "--only",
    ASKED[0],
    "--seeds",
    "1",
    "--stragglers",
    "30",
]
COMMAND += ["--preset", "paper", "--device", "cpu", "--threads", "1", "--workers", "2"]
COMMAND += ["--set", "rounds=25", "--set", "epochs=2"]


def contents(out):
    """All lines of all pieces without real times."""
    found = {}
    for path in sorted(out.rglob(ROUNDS)):
        rows = map(json.loads, path.read_text().splitlines())
        lasting = [{k: v for k, v in row.items() if not k.startswith("wall_")} for row in rows]
        found[str(path.relative_to(out))] = lasting
    return found


def children_of(pid):
    listed = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False
    )
    return [int(one) for one in listed.stdout.split()]


def wait_until(true, seconds=60.0):
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)


def written(out):
    return sum(len(path.read_bytes().splitlines()) for path in out.rglob(ROUNDS))


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_killed_twice_it_ends_with_the_numbers_of_one_process(tmp_path):
    """First a worker is killed, which is replaced, then the command, with whom workers end."""
    plain, out = tmp_path / "plain", tmp_path / "out"
    for unit in pieces_of(*ASKED):
        for piece in unit:
            run_piece(piece, plain, OPTIONS)
    first = subprocess.Popen([*COMMAND, "--out", str(out)], stderr=subprocess.PIPE)
    try:
        wait_until(lambda: written(out) > 5)
        workers = children_of(first.pid)
        assert len(workers) == 2
        os.kill(workers[0], signal.SIGKILL)
        wait_until(lambda: len(set(children_of(first.pid)) - set(workers)) == 1)
        before = written(out)
        wait_until(lambda: written(out) > before + 10 or first.poll() is not None)
        workers = children_of(first.pid)
    finally:
        first.kill()
        first.communicate()
    wait_until(lambda: not any(os.path.exists(f"/proc/{pid}/fd/0") for pid in workers), 10)
    finished = {path: path.stat().st_mtime_ns for path in out.rglob(SUMMARY)}
    again = subprocess.run(
        [*COMMAND, "--out", str(out)], capture_output=True, text=True, timeout=200, check=False
    )
    assert again.returncode == 0, again.stderr
    assert "[4/4]" in again.stderr
    assert contents(out) == contents(plain)
    assert {path: path.stat().st_mtime_ns for path in finished} == finished
