import pytest

pytest.importorskip("typer")
pytest.importorskip("rich")

import gzip
import hashlib
import json
import sys

from typer.testing import CliRunner

from fedcore.cli.main import app, main
from fedcore.config import resolve
from fedcore.datasets import mnist
from fedcore.errors import BadOption, DatasetUnavailable
from fedcore.sources.files import DataFile, Source
from fedcore.types import ClientData, FederatedDataset

CONTENT = b"images" * 100


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.delenv("FEDCORE_DATA", raising=False)


@pytest.fixture
def origin(tmp_path, monkeypatch):
    """MNIST is one small file, whose origin is a folder here."""
    served = tmp_path / "origin" / "images.gz"
    served.parent.mkdir()
    served.write_bytes(gzip.compress(CONTENT))
    md5 = hashlib.md5(CONTENT).hexdigest()
    file = DataFile("images", len(CONTENT), md5, (served.as_uri(),))
    monkeypatch.setattr(mnist, "SOURCE", Source("mnist", (file,)))
    return served


def ask(*arguments, code=0):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code
    return result.output


def write_leaf(path, users=3, samples=12):
    data = {
        f"user {u}": {
            "x": [[u + i / 7, i % 3] for i in range(samples)],
            "y": [i % 2 for i in range(samples)],
        }
        for u in range(users)
    }
    content = {"users": list(data), "num_samples": [samples] * users, "user_data": data}
    path.write_text(json.dumps(content))
    return path


def test_the_list_says_what_is_missing_and_where_the_rest_is(origin, tmp_path):
    assert "1 of 1 missing, 0.0 MB" in " ".join(ask("data", "list").split())
    ask("data", "fetch", "mnist", "--data-dir", tmp_path)
    output = ask("data", "list", "--data-dir", tmp_path)
    for name in ("fashion-mnist", "leaf", "mnist", "shakespeare", "synthetic", "none to fetch"):
        assert name in output


def test_fetch_puts_files_in_the_data_directory(origin, tmp_path):
    target = tmp_path / "data" / "mnist" / "images.gz"
    assert f"fetched: {target}" in ask("data", "fetch", "mnist", "--data-dir", tmp_path / "data")
    assert gzip.decompress(target.read_bytes()) == CONTENT
    output = ask("data", "fetch", "mnist", "--data-dir", tmp_path / "data")
    assert f"already there: {target}" in output


def test_fetch_without_a_directory_uses_the_environment_then_the_cache(
    origin, tmp_path, monkeypatch
):
    ask("data", "fetch", "mnist")
    assert (tmp_path / "cache" / "fedcore" / "mnist" / "images.gz").exists()
    (tmp_path / "cache" / "fedcore" / "mnist" / "images.gz").unlink()
    monkeypatch.setenv("FEDCORE_DATA", str(tmp_path / "variable"))
    ask("data", "fetch", "mnist")
    assert (tmp_path / "variable" / "mnist" / "images.gz").exists()


def test_a_fetch_that_fails_is_one_sentence_and_code_2(origin, tmp_path, monkeypatch, capsys):
    origin.unlink()
    monkeypatch.setattr(sys, "argv", ["fedcore", "data", "fetch", "mnist"])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 2
    message = capsys.readouterr().err
    assert message.startswith("error: images.gz is missing and cannot be downloaded")
    assert message.count("\n") == 1


@pytest.mark.parametrize("name", ["synthetic", "leaf"])
def test_what_has_no_files_is_not_fetched(name):
    with pytest.raises(BadOption, match=f"{name} has no files to fetch"):
        ask("data", "fetch", name)


def test_stats_show_the_papers_row_and_ours_and_a_histogram():
    output = ask("data", "stats", "synthetic-1-1")
    shown = [" ".join(line.split()) for line in output.splitlines() if "20,101" in line]
    assert shown[0].endswith("paper 30 20,101 670 1,148")
    assert shown[1].endswith("ours: training samples 30 20,101 670 1,148 45 154 4,645")
    assert "Training samples; seed 0" in output
    assert "█" in output


def test_a_note_on_the_benchmarks_seed_is_not_shown_for_another(monkeypatch):
    data = FederatedDataset({0: ClientData([[0.5]], [0])}, None, 2, [1, 2, 3])
    monkeypatch.setattr(mnist, "load", lambda *, seed, sigma=2.0: data)
    assert "Seed 7992 was searched for" in ask("data", "stats", "mnist")
    assert "7992" not in ask("data", "stats", "mnist", "--seed", 17112, "--data", "sigma=1.7")


def test_stats_take_options(tmp_path):
    write_leaf(tmp_path / "all.json")
    output = ask(
        "data", "stats", "leaf", "--data-dir", tmp_path, "--seed", 3, "--data", "train=0.5"
    )
    assert "Training and test samples; seed 3, train 0.5" in output
    assert "paper" not in output


def test_stats_count_samples_whose_targets_are_no_classes(tmp_path):
    own = tmp_path / "heights.py"
    own.write_text(
        "import torch\n"
        "from fedcore.types import ClientData, FederatedDataset\n"
        "def load(*, seed=0):\n"
        "    one = ClientData(torch.ones(5, 2), torch.full((5, 1), -0.5))\n"
        "    return FederatedDataset({0: one, 1: one}, None, 1)\n"
    )
    output = ask("data", "stats", own)
    assert "ours: training samples 2 10 5 0 5 5 5" in " ".join(output.split())


def test_stats_of_missing_files_say_where_they_belong(tmp_path):
    with pytest.raises(DatasetUnavailable, match="fedcore data fetch mnist"):
        ask("data", "stats", "mnist", "--data-dir", tmp_path)


def test_missing_files_are_to_be_fetched_to_where_they_were_looked_for(tmp_path):
    there = tmp_path / "my data"
    with pytest.raises(DatasetUnavailable, match=f"fetch mnist --data-dir '{there}''"):
        ask("data", "stats", "mnist", "--data-dir", there)
    with pytest.raises(DatasetUnavailable, match="fetch mnist', or"):
        ask("data", "stats", "mnist")


@pytest.mark.parametrize("seed", [-1, 2**32, "１", "x", 1.5])
def test_a_seed_that_is_none_is_one_sentence(seed):
    with pytest.raises(BadOption, match="seed must be"):
        ask("data", "stats", "synthetic-1-1", "--seed", seed)


def test_an_experiment_finds_its_data_by_data_dir(tmp_path):
    write_leaf(tmp_path / "all.json")
    output = ask(
        "run", "--benchmark", "leaf", "--data-dir", tmp_path / "all.json", "--strategy", "fedcore",
        "--stragglers", 30, "--rounds", 1, "--epochs", 2, "--clients-per-round", 3,
    )  # fmt: skip
    assert "FedCore" in output


def test_data_dir_is_an_option_of_an_experiment_like_any_other():
    assert resolve({}, lambda *_: {}).data_dir is None
    assert resolve({"data_dir": "here"}, lambda *_: {}).data_dir == "here"
    with pytest.raises(BadOption, match="data_dir must be text, got 3"):
        resolve({"data_dir": 3}, lambda *_: {})


def test_the_list_of_everything_has_the_new_benchmarks_and_models():
    output = ask("list")
    for name in ("fashion-mnist", "shakespeare", "leaf", "cnn", "char-lstm"):
        assert name in output
