"""The samples with the largest losses, equally weighted."""

import torch

from fedcore.coreset.candidates import Candidates
from fedcore.coreset.weights import equal_weights
from fedcore.errors import BadOption
from fedcore.types import Coreset, Generator

NEEDS_LOSSES = True  # so a pass of the model over the samples must come first


def select(candidates: Candidates, budget: int, generator: Generator) -> Coreset:
    """The ``budget`` largest L_j; ties go to the lower index. Draws nothing."""
    if candidates.losses is None:
        raise BadOption("selector 'loss-topk' needs losses; pass losses=, or use 'el2n'")
    order = torch.sort(candidates.losses, descending=True, stable=True).indices
    return equal_weights(candidates.space, order[:budget].sort().values)
