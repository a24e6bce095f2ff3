"""The comparison with peers, without peers: what is written, compared and refused."""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks.peers import compare, contestants, environments, work, workloads  # noqa: E402
from benchmarks.peers.contestants import Contestant, Run, Variant  # noqa: E402
from benchmarks.peers.environments import PeerUnavailable, reason_in  # noqa: E402
from benchmarks.peers.work import Answer, Work  # noqa: E402

from fedcore.errors import DatasetUnavailable  # noqa: E402

SETTING = workloads.Setting("tiny", "logistic", 4, 2, rounds=3, epochs=2, learning_rate=0.01)
INITIAL = [np.zeros(2, np.float32)]


@pytest.fixture
def tiny(build_client):
    clients = [build_client(9 + n, features=60, classes=10, seed=n) for n in range(4)]
    return workloads._work(SETTING, clients)


def test_work_survives_its_file(tiny, tmp_path):
    tiny.write(tmp_path / "work.npz")
    again = Work.read(tmp_path / "work.npz")
    assert (again.model, again.epochs, again.batch_size) == ("logistic", 2, 8)
    assert again.learning_rate == 0.01
    for name in ("x", "y", "sizes", "cohorts", "orders"):
        assert np.array_equal(getattr(again, name), getattr(tiny, name))
    assert all(np.array_equal(a, b) for a, b in zip(again.initial, tiny.initial, strict=True))
    with np.load(tmp_path / "work.npz", allow_pickle=False) as file:
        assert all(array.dtype != object for array in file.values())


def test_orders_are_permutations_and_differ_by_epoch_and_round(tiny):
    seen = set()
    for number, cohort in enumerate(tiny.cohorts.tolist(), start=1):
        for client in cohort:
            for order in tiny.order(number, client).tolist():
                assert sorted(order) == list(range(int(tiny.sizes[client])))
                seen.add((client, tuple(order)))
    assert len(seen) == 3 * 2 * 2


def test_clients_are_cut_where_they_were_joined(tiny, build_client):
    x, y = tiny.client(2)
    expected = build_client(11, features=60, classes=10, seed=2)
    assert torch.equal(x, expected.x)
    assert torch.equal(y, expected.y)


def test_ours_and_the_plain_loop_do_the_same_work(tiny, tmp_path, monkeypatch):
    """Both in this process: the orders in the file are those that our simulator draws."""
    from benchmarks.peers import ours_run, plain_run

    tiny.write(tmp_path / "work.npz")
    finals = []
    for module, options in (
        (ours_run, []),
        (plain_run, ["--batches", "loader"]),
        (plain_run, ["--batches", "views"]),
    ):
        files = [str(tmp_path / "work.npz"), str(tmp_path / "answer.npz")]
        monkeypatch.setattr(sys, "argv", ["run", *files, *options])
        module.main()
        answer = Answer.read(tmp_path / "answer.npz")
        assert len(answer.round_seconds) == 3
        finals.append(answer.final)
    for other in finals[1:]:
        assert compare.distance(finals[0], other, tiny.initial) < 1e-5


def test_models_have_the_parameters_of_ours():
    for name, example in (("logistic", torch.zeros(60)), ("cnn", torch.zeros(1, 28, 28))):
        ours = workloads._initial(name, type("Data", (), {"x": example[None]})())
        theirs = work.weights_of(work.build_model(name))
        assert [value.shape for value in theirs] == [value.shape for value in ours]


def ended(final, seconds):
    """A run with a first round that took long, and two others."""
    return Run(Answer([np.array(final, np.float32)], (9.0, seconds, seconds)), 20.0)


def everybody(*names, peer=None):
    known = [Contestant(name, (Variant("one", ()), Variant("two", ()))) for name in names]
    return [*known, Contestant("stranger", (Variant("one", ()),), peer="stranger")]


def test_the_best_variant_and_the_best_turn_count(tmp_path):
    seconds = {"ours": iter([3.0, 2.0, 4.0, 1.0]), "plain loop": iter([20.0, 30.0, 50.0, 10.0])}
    used = []

    def run(who, variant, folder, limit):
        used.append((who.name, variant.name))
        return ended([1.0, 1.0], next(seconds[who.name]))

    who = everybody("ours", "plain loop")
    scores = compare.take_turns(who, {"stranger": "is away"}, tmp_path, 3, run, lambda text: None)
    rows = compare.rows(scores, INITIAL)
    assert used[4:] == [("ours", "two"), ("plain loop", "one")] * 2
    assert rows[0]["variant"] == "two"
    assert rows[0]["every turn"] == [2.0, 4.0, 1.0]
    assert rows[0]["first round"] == 9.0
    assert rows[1]["times ours"] == 10.0
    assert rows[2] == {"name": "stranger", "not measured": ["is away"]}


def test_a_peer_that_fails_is_reported_and_the_rest_goes_on(tmp_path):
    def run(who, variant, folder, limit):
        if who.peer == "stranger":
            raise PeerUnavailable("failed: out of paper")
        return ended([1.0, 1.0], 1.0)

    who = everybody("ours", "plain loop")
    rows = compare.rows(compare.take_turns(who, {}, tmp_path, 2, run, lambda text: None), INITIAL)
    assert rows[1]["times ours"] == 1.0
    assert rows[2]["not measured"] == ["one: failed: out of paper"]
    assert "times ours" not in rows[2]


@pytest.mark.parametrize("final", [[1.0, 1.01], [1.0], [float("nan"), 1.0]])
def test_no_ratio_for_other_work(tmp_path, final):
    def run(who, variant, folder, limit):
        return ended(final if who.peer else [1.0, 1.0], 1.0)

    who = everybody("ours", "plain loop")
    rows = compare.rows(compare.take_turns(who, {}, tmp_path, 1, run, lambda text: None), INITIAL)
    assert "times ours" not in rows[2]
    assert "of the way from the plain loop's" in rows[2]["no ratio"]


def test_no_ratios_at_all_when_ours_did_other_work(tmp_path):
    def run(who, variant, folder, limit):
        return ended([2.0, 1.0] if who.name == "ours" else [1.0, 1.0], 1.0)

    who = everybody("ours", "plain loop")
    rows = compare.rows(compare.take_turns(who, {}, tmp_path, 1, run, lambda text: None), INITIAL)
    assert not any("times ours" in row for row in rows)


def test_a_command_that_fails_or_hangs_is_a_reason_and_no_crash(tmp_path):
    stranger = Contestant("stranger", ())
    broken = Variant("broken", ("-c", "raise ValueError('no more ink')"))
    with pytest.raises(PeerUnavailable, match="failed: ValueError: no more ink"):
        contestants.run(stranger, broken, tmp_path)
    silent = Variant("silent", ("-c", "pass"))
    with pytest.raises(PeerUnavailable, match="failed: no message"):
        contestants.run(stranger, silent, tmp_path)
    hanging = Variant("hanging", ("-c", "import time; time.sleep(60)"))
    with pytest.raises(PeerUnavailable, match="took longer than 1 s"):
        contestants.run(stranger, hanging, tmp_path, 1.0)


def test_an_installation_that_fails_is_a_reason_and_no_crash(tmp_path, monkeypatch):
    monkeypatch.setattr(environments, "CACHE", tmp_path)
    monkeypatch.setattr(environments.sys, "executable", str(tmp_path / "no-python"))
    with pytest.raises(PeerUnavailable, match="cannot be installed"):
        environments.ensure("pfl")


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        ("", "no message"),
        ("start\nERROR: no wheel at https://host/simple/x\nhint", "ERROR: no wheel at ..."),
        ("OSError: '/home/me/file' is gone", "OSError: '...' is gone"),
        ("\x1b[92mINFO\x1b[0m all well", "INFO all well"),
    ],
)
def test_reasons_name_no_paths_and_no_hosts(output, reason):
    assert reason_in(output) == reason


def test_everybody_has_a_variant_for_any_number_of_cores():
    for cores in (1, 2, 8):
        names = [who.name for who in contestants.contestants(cores)]
        assert names == ["ours", "plain loop", "plain loop, no DataLoader", "Flower", "pfl"]
        assert all(who.variants for who in contestants.contestants(cores))


def test_without_its_files_mnist_is_noise_and_says_so(monkeypatch):
    def unavailable(**options):
        raise DatasetUnavailable("no files")

    monkeypatch.setattr(workloads.mnist, "load", unavailable)
    made, source = workloads.mnist_work(None)
    assert "not found" in source
    assert made.x.shape[1:] == (1, 28, 28)
    assert made.cohorts.shape == (workloads.MNIST.rounds, workloads.MNIST.cohort)
