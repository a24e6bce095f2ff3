"""FedAdam: what a round of FedAvg adds to the model, D, is a gradient for Adam on the server.

    m ← β1 m + (1 - β1) D        v ← β2 v + (1 - β2) D²        w ← w + η m / (√v + a)

v starts at a², and neither moment is corrected for its start. η comes from a grid in the paper.

Source: Reddi et al., Adaptive Federated Optimization, ICLR 2021.
"""

from functools import partial

from fedcore.strategies._server_optimiser import build_around

build = partial(build_around, lambda v, square, beta2: beta2 * v + (1 - beta2) * square)
