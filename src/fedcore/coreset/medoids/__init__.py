"""The k-medoids solver: exact on all distances, sparse on neighbour lists, sampled, or in torch.

``solve.solve`` is the door; compiled kernels are imported only when a compiled path is taken.
"""
