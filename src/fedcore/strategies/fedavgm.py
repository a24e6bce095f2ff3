"""FedAvgM: FedAvg with momentum on the server, D being what a round adds to the model.

    m ← β m + D        w ← w + η m

Source: Hsu et al. 2019 (arXiv 1909.06335). β is ``beta1``; there is no ``beta2`` or ``adaptivity``.
"""

from functools import partial

from fedcore.strategies._server_optimiser import build_around

build = partial(build_around, None, server_rate=1.0)
