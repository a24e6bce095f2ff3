from functools import partial

import numpy as np
import pytest

from fedcore.datasets import mnist
from fedcore.errors import BadOption
from fedcore.sources import benchmark as _benchmark
from fedcore.sources import idx


@pytest.mark.parametrize(
    ("sigma", "seed", "samples", "std", "most"),
    [
        (2.0, 7992, 69_035, 160.74, 2193),
        (2.0, 0, 69_046, 141.90, 1897),
        (1.7, 17112, 69_035, 105.83, 951),
    ],
)
def test_real_draws_have_the_known_statistics(real_data, sigma, seed, samples, std, most):
    sizes = mnist.load(data_dir=real_data("mnist"), sigma=sigma, seed=seed).sizes
    assert (len(sizes), sum(sizes), max(sizes)) == (1000, samples, most)
    assert np.std(sizes) == pytest.approx(std, abs=0.005)


def test_the_real_default_is_the_one_that_was_searched_for(real_data):
    dataset = mnist.load(data_dir=real_data("mnist"))
    train = [len(data) for data in dataset.clients.values()]
    assert (len(train), sum(train)) == (1000, 61_667)
    assert np.std(train) == pytest.approx(144.67, abs=0.005)
    assert len(dataset.test) == 69_035 - 61_667
    assert dataset.test.x.shape[1:] == (1, 28, 28)
    assert set(dataset.clients[999].y.tolist()) == {9, 0}
    # Clients are views on one tensor.
    storages = {data.x.untyped_storage().data_ptr() for data in dataset.clients.values()}
    assert len(storages) == 1


def test_small_files_of_the_same_format_load(image_source, monkeypatch):
    source, directory = image_source
    monkeypatch.setattr(mnist, "load", partial(idx.load, source, seed=mnist.SEED))
    dataset = _benchmark.find("mnist").load(
        seed=1, data_dir=directory, options={"clients": 20, "sigma": 1.5}
    )
    assert len(dataset.clients) == 20
    assert sum(dataset.sizes) == len(dataset.test) + sum(map(len, dataset.clients.values()))


@pytest.mark.parametrize("preset", ["paper", "authors-code"])
def test_hyperparameters_are_the_papers(preset):
    found = _benchmark.find("mnist").hyperparameters(preset)
    assert found == {
        "model": "cnn",
        "rounds": 100,
        "epochs": 10,
        "batch_size": 8,
        "learning_rate": 0.03,
        "clients_per_round": 100,
        "fedprox_mu": 0.1,
        "data_seed": 7992,
    }


def test_there_are_no_variants():
    with pytest.raises(BadOption, match=r"benchmark must be 'mnist', got 'mnist-3'"):
        _benchmark.find("mnist-3")
