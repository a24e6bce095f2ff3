import gzip
import hashlib
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from fedcore.datasets import shakespeare
from fedcore.errors import BadData, BadOption
from fedcore.sources import benchmark as _benchmark
from fedcore.sources.files import DataFile, Source

ROLES = {
    "HAMLET": "The quick brown fox jumps over the lazy dog, and then some more happens to it. " * 3,
    "GHOST": "Pack my box with five dozen liquor jugs; sphinx of black quartz, judge my vow!  " * 2,
    "YORICK": "How vexingly quick daft zebras jump, said nobody in Elsinore, ever, or at least",
}


def as_text(roles: dict[str, str]) -> str:
    lines = ["", "title page", "by William Shakespeare", "", "", "", "", "PLAY", ""]
    lines.append("by William Shakespeare")
    for name, speech in roles.items():
        words = speech.split()
        lines += [f"  {name}. {' '.join(words[:4])}", f"    {' '.join(words[4:8])}"]
        lines.append(f"    {' '.join(words[8:])}")
    return "\n".join(lines)


@pytest.fixture
def small(tmp_path, monkeypatch):
    content = as_text(ROLES).encode()
    md5 = hashlib.md5(content).hexdigest()
    file = DataFile(shakespeare.TEXT, len(content), md5, ("http://none",))
    source = Source("shakespeare", (file,))
    monkeypatch.setattr(shakespeare, "SOURCE", source)
    (tmp_path / "shakespeare").mkdir()
    (tmp_path / "shakespeare" / f"{shakespeare.TEXT}.gz").write_bytes(
        gzip.compress(content, mtime=0)
    )
    return tmp_path


def sizes(directory: Path, samples: int) -> list[int]:
    return list(shakespeare.load(seed=1, data_dir=directory, samples=samples).sizes)


def texts(seed: int, directory: Path, samples: int) -> list[str]:
    return list(shakespeare.drawn_roles(seed, directory, samples).values())


def test_roles_are_drawn_until_there_are_enough_samples(small):
    everything = sizes(small, 0)
    assert len(everything) == 2  # Yorick has 80 characters: no window has a next one
    assert sizes(small, everything[0]) == everything[:1]
    some = sizes(small, everything[0] + 5)
    assert some == [everything[0], 5]
    assert sum(sizes(small, 10**6)) == sum(everything)


def test_every_sample_is_a_window_and_what_follows_it(small):
    dataset = shakespeare.load(seed=3, data_dir=small, samples=0)
    for client, text in enumerate(texts(3, small, 0)):
        symbols = shakespeare.encode(text).tolist()
        data = dataset.clients[client]
        x, y = data.take(torch.arange(len(data)))
        for window, label, row in zip(x.tolist(), y.tolist(), data.rows.tolist(), strict=True):
            assert window == symbols[row : row + 80]
            assert label == symbols[row + 80]


def test_training_and_test_samples_are_all_samples_once(small):
    dataset = shakespeare.load(seed=3, data_dir=small, samples=0)
    drawn = texts(3, small, 0)
    expected = sorted(t[i : i + 81] for t in drawn for i in range(len(t) - 80))
    found = []
    for data in (*dataset.clients.values(), dataset.test):
        x, y = data.take(slice(None))
        found += [
            bytes([*window, label]) for window, label in zip(x.tolist(), y.tolist(), strict=True)
        ]
    assert sorted(found) == sorted(bytes(shakespeare.encode(text).tolist()) for text in expected)
    assert [len(d) for d in dataset.clients.values()] == [int(0.8 * (len(t) - 80)) for t in drawn]


def test_a_role_with_one_sample_goes_and_one_with_two_trains_on_one(small):
    first = sizes(small, 0)[0]
    dataset = shakespeare.load(seed=1, data_dir=small, samples=first + 1)
    assert len(dataset.clients) == 1
    dataset = shakespeare.load(seed=1, data_dir=small, samples=first + 2)
    assert len(dataset.clients[1]) == 1
    assert len(dataset.test) == first - int(0.8 * first) + 1


def test_windows_are_never_written_out(small):
    dataset = shakespeare.load(seed=3, data_dir=small, samples=0)
    characters = sum(map(len, texts(3, small, 0)))
    for data in (*dataset.clients.values(), dataset.test):
        assert data.x.dtype == torch.uint8
        assert data.x.stride() == (1, 1)
        assert data.x.untyped_storage().nbytes() == characters
    assert dataset.num_classes == 90


def test_a_seed_gives_the_same_split_again(small):
    first, second = (shakespeare.load(seed=3, data_dir=small, samples=0) for _ in range(2))
    assert torch.equal(first.clients[0].rows, second.clients[0].rows)


def test_a_damaged_text_is_refused_by_name(small):
    path = small / "shakespeare" / f"{shakespeare.TEXT}.gz"
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(BadData, match=shakespeare.TEXT):
        shakespeare.load(data_dir=small)


@pytest.mark.parametrize("samples", [-1, 1, 2.5, "all"])
def test_a_bad_number_of_samples_is_refused(samples):
    with pytest.raises(BadOption, match=r"samples must be (a whole number|at least)"):
        shakespeare.load(samples=samples)


def test_hyperparameters_are_the_papers_and_the_authors():
    paper = shakespeare.hyperparameters("paper")
    assert (paper["rounds"], paper["epochs"], paper["clients_per_round"]) == (30, 10, 10)
    assert (paper["learning_rate"], paper["batch_size"]) == (0.03, 8)
    assert (paper["fedprox_mu"], paper["model"]) == (0.001, "char-lstm")
    authors = shakespeare.hyperparameters("authors-code")
    assert (authors["rounds"], authors["epochs"], authors["prox_mu"]) == (40, 5, 0.001)


def test_there_are_no_variants():
    with pytest.raises(BadOption, match="shakespeare-563"):
        _benchmark.find("shakespeare-563")


def test_the_real_draw_is_roles_143(real_data):
    directory = real_data("shakespeare")
    with gzip.open(directory / "shakespeare" / "roles-143.json.gz") as file:
        expected = json.load(file)["roles"]
    drawn = shakespeare.drawn_roles(shakespeare.SEED, directory, shakespeare.SAMPLES)
    assert list(drawn.items()) == list(expected.items())
    found = shakespeare.load(data_dir=directory).sizes
    assert (len(found), sum(found), min(found), max(found)) == (143, 517_106, 3, 41_305)
    assert np.mean(found) == pytest.approx(3616.13, abs=0.005)
    assert np.std(found) == pytest.approx(6807.69, abs=0.005)


def test_the_real_split_has_the_known_statistics(real_data):
    dataset = shakespeare.load(data_dir=real_data("shakespeare"))
    train = [len(data) for data in dataset.clients.values()]
    assert (len(train), sum(train)) == (143, 413_627)
    assert np.std(train) == pytest.approx(5446.14, abs=0.005)
    assert len(dataset.test) == 517_106 - 413_627


MEASURE = """
import resource, sys, torch
from pathlib import Path
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
before = peak()
from fedcore.datasets import shakespeare
dataset = shakespeare.load(data_dir=Path(sys.argv[1]))
print(peak() - before)
"""


def test_loading_the_real_text_stays_far_below_300_megabytes(real_data):
    command = [sys.executable, "-c", MEASURE, str(real_data("shakespeare"))]
    source = str(Path(shakespeare.__file__).parents[2])
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env={"PYTHONPATH": source, "OMP_NUM_THREADS": "1"},
    )
    assert float(done.stdout) < 100  # measured: 31; the 517,106 x 80 matrix alone would be 41
