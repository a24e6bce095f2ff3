"""What is left behind: lines, records, and checkpoints after which a killed run goes on."""

from dataclasses import replace

import pytest
import torch

pytest.importorskip("flwr")
pytest.importorskip("hypothesis")

from flwr.app import ArrayRecord, MetricRecord
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.flower.grid import InProcessGrid, Time, answer

from fedcore.errors import BadOption
from fedcore.flower import FedCore
from fedcore.flower.clock import Notes
from fedcore.flower.fleet import Fleet, Node
from fedcore.flower.ledger import KEPT, latest, line, open_folder, round_record, save
from fedcore.records import ClientRecord, RunKey, Waste
from fedcore.report.records import read_runs
from fedcore.server.loop import Merged
from fedcore.server.state import ServerState
from fedcore.types import Way

RUN = RunKey("flower", "fedcore", 30.0, 0)
MODEL = {
    "w": torch.tensor([[0.5, -1.25]]),
    "n": torch.tensor(3),
    "h": torch.ones(2, dtype=torch.float16),
}


def state(version, shift=0.0):
    params = {"w": MODEL["w"] + shift, "n": MODEL["n"], "h": MODEL["h"]}
    return ServerState(params, version, {"c": torch.ones(2)}, {4: {"c": torch.zeros(1)}})


def fleet():
    known = Fleet(8)
    known.names, known.norms, known.rounds = ["a", "b"], [0.1, 1 / 3], [[12.5, 0.25, 3]]
    known.nodes = [Node(10, 1 / 3, [0.7], [0.1, -0.2]), Node(lies=2, left_out_until=9)]
    return known


def test_all_of_it_comes_back(tmp_path):
    save(tmp_path, RUN, state(4, 1.0), fleet())
    again = Fleet(8)
    found = latest(tmp_path, RUN, ServerState(MODEL), again)
    assert found.version == 4
    assert list(found.params) == ["w", "n", "h"]
    assert all(torch.equal(found.params[name], v) for name, v in state(4, 1.0).params.items())
    assert torch.equal(found.tensors["c"], torch.ones(2))
    assert torch.equal(found.clients[4]["c"], torch.zeros(1))
    assert again.to_json() == fleet().to_json()


def test_the_last_few_are_kept(tmp_path):
    for version in range(1, 8):
        save(tmp_path, RUN, state(version), fleet())
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        f"round-{version:08d}.safetensors" for version in range(8 - KEPT, 8)
    ]


def test_nothing_is_a_start(tmp_path):
    start = ServerState(MODEL)
    assert latest(tmp_path / "none", RUN, start, Fleet(8)) is start


def test_one_of_an_earlier_version_is_refused(tmp_path):
    (tmp_path / "round-00000003.npz").write_bytes(b"")
    with pytest.raises(BadOption, match=r"round-00000003\.npz' is a checkpoint of an earlier ver"):
        latest(tmp_path, RUN, ServerState(MODEL), Fleet(8))


def test_a_damaged_one_is_named_and_the_one_before_it_used(tmp_path, caplog):
    for version in (1, 2, 3):
        save(tmp_path, RUN, state(version, version), fleet())
    newest = tmp_path / "round-00000003.safetensors"
    newest.write_bytes(newest.read_bytes()[:-200])
    (tmp_path / "round-00000009.safetensors").write_bytes(b"")
    with caplog.at_level("WARNING", logger="flwr"):
        found = latest(tmp_path, RUN, ServerState(MODEL), Fleet(8))
    assert found.version == 2
    assert "round-00000003.safetensors" in caplog.text
    assert "round-00000009.safetensors" in caplog.text


def test_a_file_without_a_checksum_is_no_checkpoint(tmp_path, caplog):
    save(tmp_path, RUN, state(5), fleet())
    path = tmp_path / "round-00000005.safetensors"
    path.write_bytes(path.read_bytes().replace(b'"check":', b'"other":'))
    with caplog.at_level("WARNING", logger="flwr"):
        assert latest(tmp_path, RUN, ServerState(MODEL), Fleet(8)).version == 0
    assert path.name in caplog.text


@pytest.mark.parametrize("other", ["run", "model"])
def test_one_of_another_job_is_refused(tmp_path, other):
    save(tmp_path, RUN, state(4), fleet())
    run = RunKey("flower", "fedavg", 30.0, 0) if other == "run" else RUN
    start = ServerState(MODEL if other == "run" else {"w": torch.zeros(3)})
    with pytest.raises(BadOption, match="another job"):
        latest(tmp_path, run, start, Fleet(8))


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    folder = tmp_path_factory.mktemp("good")
    save(folder, RUN, state(4, 1.0), fleet())
    return (folder / "round-00000004.safetensors").read_bytes()


damage = st.lists(
    st.tuples(st.floats(0, 1, exclude_max=True), st.integers(1, 255)), min_size=1, max_size=4
)


@settings(
    max_examples=2000, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(changed=damage, cut=st.one_of(st.just(1.0), st.floats(0, 1)), junk=st.binary(max_size=9))
def test_fuzzed_checkpoints_are_passed_over_or_whole(good, tmp_path, changed, cut, junk):
    data = bytearray(good)
    for place, value in changed:
        data[int(place * len(data))] ^= value
    path = tmp_path / "round-00000004.safetensors"
    path.write_bytes(bytes(data[: int(cut * len(data))]) + junk)
    found = latest(tmp_path, RUN, ServerState(MODEL), Fleet(8))
    if found.version:  # the damage was where no content is
        assert found.version == 4
        assert torch.equal(found.params["w"], MODEL["w"] + 1.0)
        assert torch.equal(found.params["h"], MODEL["h"])


class Killed(Exception):
    """The process is gone."""


def training(client_seconds):
    """A node whose update depends on all that an order says, and on the model to the last bit."""

    def node(order, arrays, message):
        told = order.assignment
        generator = torch.Generator().manual_seed(hash(told.path("shuffle", 0)) % 2**31)
        moved = {}
        for name, array in arrays.items():
            value = torch.from_numpy(array.numpy())
            noise = torch.randn(value.shape, generator=generator)
            moved[name] = value - 0.1 * torch.sin(value + noise)
        return client_seconds, answer(order, moved, seconds=client_seconds / 2)

    return node


def serve(folder, rounds, kill_after=None, **options):
    nodes = {n: training(1.0 + n / 10) for n in range(5)}
    grid = InProcessGrid(Time(), nodes)
    grid.keys = {n: f"key {n}".encode() for n in nodes}
    strategy = FedCore(
        strategy=RUN.strategy,
        deadline=20.0,
        local_epochs=2,
        fraction_train=0.6,
        fraction_evaluate=0.0,
        min_available_nodes=5,
        checkpoint=folder,
        out=folder / "out",
        **options,
    )
    strategy.monotonic, strategy.sleep = grid.time.monotonic, grid.time.sleep

    def evaluate(number, arrays):
        if kill_after is not None and number > kill_after:
            raise Killed

    start = ArrayRecord({"w": torch.linspace(-1, 1, 7), "b": torch.zeros(2)})
    return strategy.start(grid, start, rounds, evaluate_fn=evaluate)


def test_a_killed_run_goes_on_bit_for_bit(tmp_path):
    whole = serve(tmp_path / "whole", 6)
    for last in (0, 2, 3):  # killed in the middle of rounds 1, 3 and 4
        with pytest.raises(Killed):
            serve(tmp_path / "parts", 6, kill_after=last)
    resumed = serve(tmp_path / "parts", 6)
    for name, array in whole.arrays.items():
        assert array.numpy().tobytes() == resumed.arrays[name].numpy().tobytes()
    records = [
        read_runs(tmp_path / name / "out" / "rounds.jsonl", [RUN], 6)[RUN]
        for name in ("whole", "parts")
    ]
    cohorts = [[[c.client_id for c in r.clients] for r in rounds] for rounds in records]
    assert cohorts[0] == cohorts[1]
    assert len(cohorts[0]) == 6


def test_a_run_that_is_over_is_over(tmp_path):
    first = serve(tmp_path, 2)
    again = serve(tmp_path, 2)
    assert again.arrays == first.arrays


def told(client, path=Way.FULL, **more):
    return ClientRecord(client, path, 1, 999, 5.0, None, **more)


def merged(number, *clients):
    made = ServerState({"w": torch.zeros(1)}, number)
    return Merged(state=made, seconds=12.0, clients=clients, rejected=0, training_seconds=11.0)


def test_a_line_names_everybody():
    slow = ClientRecord(1, Way.CORESET, 1, 60, 21.0, None)
    clients = (told(0), slow, told(3, wasted=Waste.CANCELLED))
    record = replace(round_record(merged(4, *clients), Notes(), 20.0, None, 0.0), seconds=21.0)
    notes = Notes(failed=[(2, "code 2: 'it raised'")])
    assert line(record, notes, "fixed") == (
        "round 4: 21.0 s of 20.0 s (fixed), 1 of 4 on time: "
        "0 full 999 in 5.0 s; 1 coreset 60 in 21.0 s; 3 late 0 in 5.0 s; 2 code 2: 'it raised'"
    )


JOB = {"rounds": 5, "epochs": 10}


def add(folder, number, metrics=None):
    folder.add(round_record(merged(number, told(0)), Notes(refused=2), 20.0, metrics, 1.5), RUN)


def test_what_was_measured_is_in_the_records_and_nothing_else(tmp_path):
    folder = open_folder(tmp_path, JOB, RUN, 0)
    add(folder, 1)
    add(folder, 2, MetricRecord({"eval_loss": 2.5, "eval_acc": 0.75}))
    add(folder, 3, MetricRecord({"accuracy": 75.0}))  # a percentage is none of ours
    folder.finish()
    rounds = read_runs(tmp_path / "rounds.jsonl", [RUN], 3)[RUN]
    assert [r.test_accuracy for r in rounds] == [None, 0.75, None]
    assert [r.test_loss for r in rounds] == [None, 2.5, None]
    assert [r.train_loss for r in rounds] == [None, None, None]
    assert [(r.rejected, r.wall_seconds) for r in rounds] == [(2, 13.5)] * 3
    assert (tmp_path / "summary.json").exists()


def test_rounds_beyond_the_checkpoint_are_forgotten(tmp_path):
    folder = open_folder(tmp_path, JOB, RUN, 0)
    for number in (1, 2, 3):
        add(folder, number)
    add(open_folder(tmp_path, JOB, RUN, 2), 3)
    assert len(read_runs(tmp_path / "rounds.jsonl", [RUN], 5)[RUN]) == 3
    add(open_folder(tmp_path, JOB, RUN, 0), 1)
    assert len(read_runs(tmp_path / "rounds.jsonl", [RUN], 5)[RUN]) == 1


def test_a_checkpoint_folder_that_is_empty_does_not_cost_the_records_of_a_run(tmp_path):
    """As where its name is mistyped; of whole checkpoints there are the last few."""
    folder = open_folder(tmp_path, JOB, RUN, 0)
    for number in range(1, KEPT + 2):
        add(folder, number)
    before = (tmp_path / "rounds.jsonl").read_bytes()
    with pytest.raises(BadOption, match="holds an earlier run; name a new folder, or checkpoint="):
        open_folder(tmp_path, JOB, RUN, 0)
    assert (tmp_path / "rounds.jsonl").read_bytes() == before
    open_folder(tmp_path, JOB, RUN, 1)


def test_a_folder_of_another_job_is_refused(tmp_path):
    open_folder(tmp_path, JOB, RUN, 0)
    with pytest.raises(BadOption, match="epochs"):
        open_folder(tmp_path, {**JOB, "epochs": 3}, RUN, 0)


def test_files_of_a_run_that_was_lost_do_not_take_the_place_of_new_ones(tmp_path):
    for number in (8, 9, 10):
        (tmp_path / f"round-{number:08d}.safetensors").write_bytes(b"no checkpoint")
    for version in (1, 2, 3, 4):
        save(tmp_path, RUN, state(version), fleet())
    assert latest(tmp_path, RUN, ServerState(MODEL), Fleet(8)).version == 4
