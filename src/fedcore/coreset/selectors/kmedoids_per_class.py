"""k-medoids inside each class, with the budget shared out by class size: the authors' choice."""

from __future__ import annotations

from fedcore.coreset.candidates import Candidates
from fedcore.coreset.per_class import select_per_class
from fedcore.coreset.selectors import kmedoids
from fedcore.types import Coreset, Generator

NEEDS_LABELS = True  # `select_coreset` refuses to do without


def select(candidates: Candidates, budget: int, generator: Generator) -> Coreset:
    """Eq. 5 for every class alone; never more than ``budget`` in all.

    The authors round up per class and so exceed the budget by up to (classes - 1) samples;
    here the shares are rounded by largest remainder (docs/deviations.md).
    """
    return select_per_class(kmedoids.select, candidates, budget, generator)
