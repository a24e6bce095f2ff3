"""The CNN on the real digits, reduced so that a CPU does it in a minute."""

import json
import math

import pytest

pytest.importorskip("rich")

from fedcore.cli.job import run_job
from fedcore.config import resolve
from fedcore.sources.benchmark import find


def reduced(real_data, **options):
    given = {
        "benchmark": "mnist",
        "data_dir": str(real_data("mnist")),
        "strategies": "fedcore",
        "stragglers": 30,
        "rounds": 3,
        "clients_per_round": 10,
        "evaluate_samples": 1500,
        **options,
    }
    return resolve(given, lambda b, p: find(b).hyperparameters(p))


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_loss_falls_and_every_round_is_on_time(real_data, tmp_path):
    """``fedcore compare --benchmark mnist --rounds 3 --clients-per-round 10``, FedCore alone."""
    content = run_job(reduced(real_data), tmp_path / "job", plots=False)
    lines = (tmp_path / "job" / "rounds.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    losses = [row["train_loss"] for row in rows]
    assert losses[-1] < losses[0] < math.log(10) + 0.5
    assert all(math.isfinite(loss) for loss in losses)
    assert content["results"][0]["max_round_time"] <= 1.0
    clients = [client for row in rows for client in row["clients"]]
    assert {"coreset", "full"} & {client["path"] for client in clients}
    assert all(client["gradient_error"] >= 0 for client in clients if client["path"] == "coreset")
    assert all(client["path"] != "sat-out" for client in clients)
