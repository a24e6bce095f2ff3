"""Numbers worked out on paper."""

import numpy as np
import pytest
import torch

import fedcore
from fedcore.coreset.candidates import Candidates
from fedcore.coreset.metric import Euclidean
from fedcore.coreset.selectors import kmedoids


def test_two_rounds_of_fedavg_on_a_model_of_one_weight_per_class():
    """Logistic regression with x = 1 for both classes, bias and weight move alike.

    Two clients, one sample each: (1, class 0) and (1, class 1); W = b = 0, rate 1, one epoch.
    Scores are equal, p = 1/2. Client 0: residual (-1/2, 1/2), so W = b = (1/2, -1/2).
    Client 1 is the mirror image. Their mean is 0 again: after any number of rounds the model
    is where it began, and every loss is log 2.
    """
    model = torch.nn.Linear(1, 2)
    torch.nn.init.zeros_(model.weight)
    torch.nn.init.zeros_(model.bias)
    one = torch.ones(1, 1)
    clients = [(one, torch.tensor([0])), (one, torch.tensor([1]))]
    history = fedcore.simulate(
        clients,
        model,
        strategy="fedavg",
        selection="uniform",
        clients_per_round=2,
        rounds=2,
        epochs=1,
        learning_rate=1.0,
    )
    assert history.params["weight"].flatten().tolist() == pytest.approx([0, 0], abs=1e-7)
    assert history.final_train_loss == pytest.approx(np.log(2))


def test_one_client_alone_moves_by_its_residual():
    """One sample (x = 2, class 1), W = b = 0, rate 0.5: W_c -= 0.5 · (p_c - y_c) · 2."""
    model = torch.nn.Linear(1, 2)
    torch.nn.init.zeros_(model.weight)
    torch.nn.init.zeros_(model.bias)
    history = fedcore.simulate(
        [(torch.full((1, 1), 2.0), torch.tensor([1]))],
        model,
        strategy="fedavg",
        clients_per_round=3,
        rounds=1,
        epochs=1,
        learning_rate=0.5,
    )
    assert history.params["weight"].flatten().tolist() == pytest.approx([-0.5, 0.5])
    assert history.params["bias"].tolist() == pytest.approx([-0.25, 0.25])
    assert history.rounds[0].clients[0].copies == 3


def test_medoids_of_two_groups_on_a_line():
    """0 1 2 and 100 101 102: medoids 1 and 101, objective 4, three points each."""
    points = torch.tensor([[0.0], [1], [2], [100], [101], [102]])
    candidates = Candidates(Euclidean(points))
    found = kmedoids.select(candidates, 2, np.random.default_rng(0))
    assert found.indices.tolist() == [1, 4]
    assert found.weights.tolist() == [3, 3]
    assert found.objective == pytest.approx(4)
