"""EL2N: the samples with the longest gradients, equally weighted (Paul et al. 2021)."""

import torch

from fedcore.coreset.candidates import Candidates
from fedcore.coreset.metric import squared_norms
from fedcore.coreset.weights import equal_weights
from fedcore.types import Coreset, Generator


def select(candidates: Candidates, budget: int, generator: Generator) -> Coreset:
    """The ``budget`` largest ||g_j||, by logits the error's norm; ties to the lower index."""
    order = torch.sort(squared_norms(candidates.space), descending=True, stable=True).indices
    return equal_weights(candidates.space, order[:budget].sort().values)
