"""Small builders that tests share."""

import os

import numpy as np
import pytest
import torch

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # before kernels are imported: they run on the CPU

from fedcore.types import ClientData

torch.set_num_threads(1)  # small steps: threads cost more than they bring


def a_client(size: int = 12, features: int = 3, classes: int = 2, seed: int = 0) -> ClientData:
    draw = np.random.default_rng(seed)
    x = torch.from_numpy(draw.normal(size=(size, features))).float()
    y = torch.from_numpy(draw.integers(classes, size=size))
    return ClientData(x, y)


@pytest.fixture
def build_client():
    return a_client
