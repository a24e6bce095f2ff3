"""``fedcore.CoresetSelector``: coresets as an estimator of scikit-learn (extra ``sklearn``)."""

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from fedcore.coreset.api import select_coreset


class CoresetSelector(BaseEstimator):  # type: ignore[misc]
    """Choose samples that stand for all, and how much each weighs.

    Args:
        budget: how many to keep, or which share of them.
        selector: a name ('fedcore list' shows them) or a path to a .py file.
        seed: of selectors that draw.

    Attributes:
        sample_indices_: [b] sorted; ``X[sample_indices_]`` is the coreset.
        sample_weight_: [b] Σ = n, for ``fit(X, y, sample_weight=...)`` of another estimator.
        objective_: Σ_j min_k d_jk, where the selector has one.
    """

    def __init__(self, budget: float = 0.1, *, selector: str = "kmedoids", seed: int = 0) -> None:
        self.budget, self.selector, self.seed = budget, selector, seed

    def fit(self, X: Any, y: Any = None) -> "CoresetSelector":  # noqa: N803, their name
        """Choose among the rows of X; classes ``y`` are for selectors that look at them."""
        rows = validate_data(self, X, dtype=[np.float64, np.float32])
        labels = np.unique(y, return_inverse=True)[1] if np.ndim(y) == 1 else None
        found = select_coreset(
            rows, self.budget, labels=labels, selector=self.selector, seed=self.seed
        )
        self.sample_indices_, self.sample_weight_ = found.indices, found.weights
        self.objective_ = found.objective
        return self
