"""TimelyFL: everybody is done at one time, with as much of the model as can be trained by then.

Of n clients drawn, let d, t and u be what download, one epoch and upload take each. Then

    T = the k-th smallest d + t + u
    E_i = max(1, floor((T - d - u) / t))        epochs
    α_i = min(1, (T - d) / (t + u))             share of the parameters that are trained: those of
                                                the layers nearest the output

What is frozen costs no time and is not sent; a layer is averaged over those who trained it.

Source: Zhang et al., "TimelyFL: Heterogeneity-aware Asynchronous Federated Learning with Adaptive
Partial Training", CVPR Workshops 2023. Default: k = n / 2. Departures: they leave out the download
(d = 0); times are known here, not estimated by a batch; who cannot fetch the model by T sits out.
The E of the experiment does not enter. A model of one layer, or without an order, is refused.
"""

import math

from fedcore.deadline import capacity
from fedcore.server.merge import aggregation as by_name
from fedcore.server.method import Plans, Profiles, Strategy
from fedcore.server.state import ServerState
from fedcore.types import SIT_OUT, ClientProfile, LocalPlan, Phase, Way
from fedcore.values import at_least


def build(*, aggregation: str = "mean", model_bytes: int = 0, on_time: float = 0.5) -> Strategy:
    """``on_time`` is k / n: the share of clients that train the whole model."""
    at_least(0, 1)("on_time", on_time)

    def plan(client: ClientProfile, interval: float, epochs: int) -> LocalPlan:
        """What a client can do in an ``interval`` with sending; ``epochs`` only name what it is."""
        size, left = client.num_samples, interval - model_bytes / client.download
        upload = model_bytes / client.upload
        fitting = capacity(client, left - upload) // size
        if fitting >= 1:
            return LocalPlan((Phase(fitting),), Way.FULL if fitting >= epochs else Way.PARTIAL)
        share = left / (client.seconds(size) + upload)
        samples = capacity(client, left - share * upload)  # α t, in whole samples
        if samples < 1:
            return SIT_OUT
        # A little below, so that the clock, which rounds up, does not charge one more.
        below = math.nextafter(samples / size, 0.0)
        return LocalPlan((Phase(1),), Way.PARTIAL, trained_share=below)

    def by_cohort(state: ServerState, cohort: Profiles) -> Plans:
        """T is that of those who were drawn, whatever the deadline is."""
        times = sorted(one.seconds(one.num_samples, model_bytes) for one in cohort.values())
        kth = max(1, math.ceil(on_time * len(times))) - 1
        interval = times[kth] * (1 + 1e-12) if times else 0.0  # or rounding cuts its owner short
        return dict.fromkeys(cohort, lambda client, _, epochs: plan(client, interval, epochs))

    return Strategy(plan, by_name(aggregation), by_cohort=by_cohort, in_parts=True)
