"""The k-medoids solver: exact on a distance matrix, sparse on neighbour lists, or in torch.

``solve`` is the door; ``metric`` holds the spaces. Modules with compiled kernels (``exact``,
``geometry``, ``neighbours`` and what builds on them) are imported only when their path is taken.
"""

from fedcore.coreset.medoids.metric import Euclidean, Metric, OuterProduct, residual_metric
from fedcore.coreset.medoids.solve import Medoids, solve

__all__ = ["Euclidean", "Medoids", "Metric", "OuterProduct", "residual_metric", "solve"]
