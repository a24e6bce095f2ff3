"""FedAdagrad: FedAdam whose v only grows, so that steps become smaller.

    m ← β1 m + (1 - β1) D        v ← v + D²        w ← w + η m / (√v + a)

Source: Reddi et al., Adaptive Federated Optimization, ICLR 2021; there is no ``beta2``.
"""

from functools import partial

from fedcore.strategies._server_optimiser import build_around

build = partial(build_around, lambda v, square, beta2: v + square)
