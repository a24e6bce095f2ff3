"""FedCore-Async: FedAsync whose clients train as FedCore's, so that answers are fresh.

    w ← (1 - α_s) w + α_s w_i, with every job within the deadline τ by its coreset

Source: ours; the two parts are FedAsync (Xie et al. 2019) and FedCore.
"""

from functools import partial

from fedcore.strategies.fedasync import build as fedasync

build = partial(fedasync, "fedcore")
