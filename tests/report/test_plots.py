import pytest

from fedcore.report.output import PICTURES
from fedcore.report.plots import draw_all

SIGNATURE = b"\x89PNG"


def row(strategy, number, time=0.9, accuracy=0.5, loss=1.0, stragglers=30.0, seed=0):
    return {
        "benchmark": "b",
        "strategy": strategy,
        "stragglers": stragglers,
        "seed": seed,
        "round": number,
        "round_time": time,
        "train_loss": loss,
        "test_accuracy": accuracy,
        "clients": [{"time": time}, {"time": time / 3}, {"time": 0.0}],
    }


@pytest.mark.parametrize(
    "rows",
    [
        [row("fedcore", n, 0.9 + 0.01 * n) for n in (1, 2, 3)],
        [row("fedcore", 1)],  # a single round has no distribution
        [row(s, n, n / 2) for s in ("fedavg", "mine", "yours") for n in (1, 2, 3)],
        [row("fedavg-ds", n, 0.0) for n in (1, 2)],  # nobody took part
        [row("fedcore", n, accuracy=None, loss=None) for n in (1, 2)],  # no test data, diverged
        [row("fedcore", n, seed=s, time=s + n) for s in (0, 1) for n in (1, 2)],
        [row("fedcore", n, n, stragglers=s) for s in (10.0, 30.0) for n in (1, 2)],
    ],
)
def test_every_kind_of_result_can_be_drawn(rows, tmp_path):
    paths = draw_all(rows, tmp_path)
    assert tuple(path.name for path in paths) == PICTURES  # so that --overwrite knows them
    assert [path.name for path in paths] == [
        "loss.png",
        "accuracy_by_round.png",
        "accuracy_by_time.png",
        "round_lengths.png",
        "client_times.png",
    ]
    assert all(path.read_bytes().startswith(SIGNATURE) for path in paths)
