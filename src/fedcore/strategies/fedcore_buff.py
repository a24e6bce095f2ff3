"""FedCore-Buff: FedBuff whose clients train as FedCore's, so that jobs are short and answers fresh.

    w ← w + η_g / B Σ_i Δ_i / √(1 + t - v), with every job within the deadline τ by its coreset

Source: ours; the two parts are FedBuff (Nguyen et al. 2022) and FedCore.
"""

from functools import partial

from fedcore.strategies.fedbuff import build as fedbuff

build = partial(fedbuff, "fedcore")
