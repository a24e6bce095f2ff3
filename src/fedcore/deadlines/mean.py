"""A multiple of the mean: 1T and 2T, the baselines of FedBalancer.

τ = times · mean_i t^i(E), t^i(E) = E m^i / c^i + s^i, over all who answered. Source: Shin et al.,
"FedBalancer", MobiSys 2022, where it is measured once, before the first round.
"""

from fedcore.server.controller import Controller, Seen
from fedcore.values import above_zero


def build(*, times: float = 1.0) -> Controller:
    """``times`` is 1 or 2 there."""
    above_zero("times", times)

    def aim(seen: Seen) -> tuple[float, str]:
        mean = float(seen.seconds(seen.epochs).mean())
        return times * mean, f"{times:g} times the mean of {len(seen.samples)}, {mean:.4g} s"

    return Controller(aim)
