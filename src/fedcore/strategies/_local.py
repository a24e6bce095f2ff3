"""What methods share: work by another strategy's plan, and refusals before anything starts."""

from dataclasses import replace

from fedcore import plugins
from fedcore.errors import BadOption
from fedcore.server.method import Pace, Strategy
from fedcore.types import ClientProfile, LocalPlan

MOST_BYTES = 16e9  # that a method may keep of all clients together
Options = plugins.Options  # all of an experiment, and what is known of the fleet
NONE = plugins.NONE


def working_as(
    name: str, options: Options, prox_mu: float | None = None, *, by_steps: bool = False
) -> Strategy:
    """Clients that work as under ``name``, with the pull ``prox_mu``; unscaled if ``by_steps``."""
    method = {key: own for key, own in options.get("method", {}).items() if key != "local"}
    built: Strategy = plugins.build("strategy", name, Strategy, options=options, method=method)

    def plan(client: ClientProfile, deadline: float, epochs: int) -> LocalPlan:
        own = built.plan(client, deadline, epochs)
        own = replace(own, step_scale=1.0) if by_steps else own  # the merge makes up for steps
        return own if prox_mu is None or not own.phases else replace(own, prox_mu=prox_mu)

    return replace(built, plan=plan, pace=Pace(), shift=None, by_cohort=None)


def fleet_size(method: str, options: Options) -> int:
    """How many clients there are, if a vector of the model's size may be kept for each."""
    number, size = options.get("num_clients", 1), options.get("model_bytes", 0)
    if number * size > MOST_BYTES:
        each = f"{method} keeps a vector of the model's size, {size / 1e6:,.1f} MB, for each of"
        all_ = f"{number:,} clients, {number * size / 1e9:,.0f} GB, and the most is"
        instead = "take another strategy, fewer clients or a smaller model"
        raise BadOption(f"{each} {all_} {MOST_BYTES / 1e9:.0f} GB; {instead}")
    return int(number)


def refuse(method: str, options: Options, *names: str) -> None:
    """Refuse options of local training for which a method's formulas do not hold."""
    for name in names:
        if (value := options.get(name)) and value != "sgd":
            raise BadOption(f"{method} has no rule for {name}, got {value}; leave it out")
