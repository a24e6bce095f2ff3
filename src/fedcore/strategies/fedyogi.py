"""FedYogi: FedAdam whose v moves by steps of D², so that it forgets large ones slowly.

    m ← β1 m + (1 - β1) D        v ← v - (1 - β2) D² sign(v - D²)        w ← w + η m / (√v + a)

Source: Reddi et al., Adaptive Federated Optimization, ICLR 2021.
"""

from functools import partial

from fedcore.strategies._server_optimiser import build_around

build = partial(build_around, lambda v, square, b2: v - (1 - b2) * square * (v - square).sign())
