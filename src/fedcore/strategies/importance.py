"""Importance sampling: who is slow trains on samples drawn by the length of their gradients.

A first epoch on everything yields the scores s_j = |dL_j/da|, a the output of the last layer, at no
extra pass. For the other epochs n samples are drawn with replacement, and weighted so that the
expected gradient is that of all m:

    p_j = s_j / Σ s        weight 1 / (n p_j), times m, for each time that j was drawn

The gate: τ = √(m Σ p²) says how many times as many uniform draws would do; below (m + 3 n) / (3 n)
the draw is uniform. Who cannot afford the first epoch pays for a forward pass instead, and for whom
that leaves nothing, a random subset of one epoch is left.

Source: Katharopoulos and Fleuret, "Not All Samples Are Created Equal", ICML 2018; their pool is
drawn and τ smoothed over pools, ours is all of a client's samples. Their gate charges m forward
passes, which are free after a first epoch: ``gate=1`` opens it. Default: the gate above.
"""

from __future__ import annotations

from fedcore.coreset.proxies import LOGITS
from fedcore.server.method import Strategy
from fedcore.strategies import fedcore


def build(
    *,
    aggregation: str = "mean",
    forward_price: float = 1 / 3,
    catch_up: float = 1.0,
    gate: float = 0.0,
) -> Strategy:
    """FedCore's way through a round with another choice; a ``gate`` of 0 is (m + 3 n) / (3 n)."""
    return fedcore.build(
        aggregation=aggregation,
        selector="importance",
        proxy=LOGITS,
        below_one_pass="forward",
        forward_price=forward_price,
        catch_up=catch_up,
        method={"gate": gate},
    )
