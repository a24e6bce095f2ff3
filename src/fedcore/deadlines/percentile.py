"""The paper's: by it s % of the clients seen cannot finish, so that these are stragglers.

τ moves towards the (100 - s)-th percentile of t^i(E) = E m^i / c^i + s^i over all who answered.
Section 6.1 of the paper takes it over a fleet that is known beforehand, as ``--stragglers`` does.
"""

import numpy as np

from fedcore.server.controller import Controller, Seen


def build(*, stragglers: float = 30.0) -> Controller:
    """``stragglers`` is s, in percent."""

    def aim(seen: Seen) -> tuple[float, str]:
        wanted = float(np.percentile(seen.seconds(seen.epochs), 100 - stragglers))
        reason = f"{100 - stragglers:g} % of {len(seen.samples)} clients need {wanted:.4g} s"
        return seen.towards(wanted), reason

    return Controller(aim)
