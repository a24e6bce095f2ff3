"""The k-medoids solver: exact on a distance matrix, sparse on neighbour lists, or in torch.

``solve.solve`` is the door. Modules with compiled kernels (``exact``, ``geometry``, ``neighbours``
and what builds on them) are imported only when their path is taken.
"""
