"""CIFAR-100: as CIFAR-10, in a hundred classes."""

from functools import partial

from fedcore.datasets import cifar10 as _ten
from fedcore.sources.partitions import partitioned

MD5 = "03b5dce01913d631647c71ecec9e9cb8"
SOURCE = _ten.source("cifar100", "cifar-100-binary.tar.gz", 168_513_733, MD5)
HYPERPARAMETERS = _ten.HYPERPARAMETERS
load = partitioned(partial(_ten.samples, SOURCE, 1))
