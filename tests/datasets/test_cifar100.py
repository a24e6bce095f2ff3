"""What CIFAR-100 has of its own; tests/datasets/test_cifar10.py reads archives of both."""

from fedcore.datasets import cifar100
from fedcore.sources.benchmark import find


def test_the_archive_is_the_one_that_its_authors_publish():
    (file,) = cifar100.SOURCE.files
    assert (file.name, file.published_name) == ("cifar-100-binary.tar.gz",) * 2
    assert (file.size, file.md5) == (168_513_733, "03b5dce01913d631647c71ecec9e9cb8")
    assert file.urls == ("https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",)


def test_it_is_not_taken_for_cifar10():
    assert find("cifar100").module is cifar100
    assert find("cifar100").hyperparameters("paper")["model"] == "cnn"
