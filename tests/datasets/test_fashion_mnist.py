from functools import partial

import pytest

from fedcore.datasets import fashion_mnist
from fedcore.errors import BadOption
from fedcore.sources import benchmark as _benchmark
from fedcore.sources import idx


def test_small_files_of_the_same_format_load(image_source, monkeypatch):
    source, directory = image_source
    monkeypatch.setattr(fashion_mnist, "load", partial(idx.load, source, seed=fashion_mnist.SEED))
    benchmark = _benchmark.find("fashion-mnist")
    dataset = benchmark.load(seed=1, data_dir=directory, options={"clients": 20})
    assert len(dataset.clients) == 20
    assert sum(dataset.sizes) == len(dataset.test) + sum(map(len, dataset.clients.values()))


def test_the_real_files_load(real_data):
    sizes = fashion_mnist.load(data_dir=real_data("fashion-mnist")).sizes
    assert (len(sizes), sum(sizes)) == (1000, 69_036)


def test_it_is_trained_like_mnist_with_a_seed_nobody_searched_for():
    found, other = (_benchmark.find(n).hyperparameters("paper") for n in ("fashion-mnist", "mnist"))
    assert found == {**other, "data_seed": 0}


def test_there_are_no_variants():
    with pytest.raises(BadOption, match="fashion-mnist-a"):
        _benchmark.find("fashion-mnist-a")
