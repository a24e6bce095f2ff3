"""Power-of-choice: of candidates drawn by size, those with the largest losses.

d candidates are drawn without replacement, client i with chance p_i = m_i / Σ m, and the K of
largest loss take part. Biased on purpose: a larger d is faster and less fair. The loss is the mean
of a client's last answer, and who never answered comes first (the authors' rpow-d); or, ``fresh``,
that of the model as it is, for which all candidates fetch it and pass their samples forward before
the round begins (pow-d). That takes as long as the slowest of them, and is no part of its deadline.
With answers outstanding, and in deployments, nobody is asked, and it is rpow-d.

Source: Cho, Wang and Joshi, "Client Selection in Federated Learning", 2020 (arXiv 2010.01243).
Defaults: d = 2 K; theirs go from 2 K to 10 K.
"""

import math

import numpy as np

from fedcore.server.method import Cohort, Draw, Sampler, table
from fedcore.sources.clients import ClientSizes
from fedcore.types import ClientProfile, LocalUpdate, Params
from fedcore.values import whole_number


def build(
    *, candidates: int = 0, fresh: bool = False, forward_price: float = 1 / 3, model_bytes: int = 0
) -> Sampler:
    """``candidates`` is d, at least K; 0: 2 K. A forward pass has its price in trained samples."""
    whole_number("candidates", candidates, 0)

    def looking(one: ClientProfile) -> float:
        return one.seconds(math.ceil(forward_price * one.num_samples), model_bytes, 0)

    def observe(memory: Params, update: LocalUpdate, sizes: ClientSizes) -> Params:
        """Keep the mean loss of everybody's last answer, and that there was one."""
        last, place = table(memory, "last", len(sizes), 2), sizes.place(update.client_id)
        last[place, 0], last[place, 1] = update.loss_sum / max(1, update.loss_count), 1.0
        return {"last": last}

    def draw(asked: Draw) -> Cohort:
        idle = asked.idle()
        size = min(max(candidates or 2 * asked.count, asked.count), len(idle))
        chances = asked.sizes.counts[idle] / max(1, asked.sizes.counts[idle].sum())
        drawn = asked.generator().choice(idle, size, replace=False, p=chances if size else None)
        losses, answered = table(asked.memory, "last", len(asked.sizes), 2).numpy()[drawn].T
        if fresh and asked.ask is not None and size:
            ids = [asked.sizes.ids[place] for place in drawn.tolist()]
            longest = max(looking(asked.profiles[client]) for client in ids)
            losses, answered = np.array(asked.ask(ids, longest)), np.ones(size)
        order = np.argsort(-np.where(answered, losses, np.inf), kind="stable")
        return asked.cohort(drawn[order][: asked.count].tolist())

    return Sampler(draw, observe)
