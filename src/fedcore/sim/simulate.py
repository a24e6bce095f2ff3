"""``fedcore.simulate``: your clients, your model, any strategy, in one call."""

from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from typing import Any

import torch
from torch import nn

from fedcore.config import Options, resolve
from fedcore.errors import BadData, BadOption
from fedcore.history import History
from fedcore.losses import CROSS_ENTROPY, loss_of, metrics_of
from fedcore.records import RoundRecord, RunKey
from fedcore.server.method import Strategy
from fedcore.sim.federation import check_dataset, federate, settled, try_out
from fedcore.sim.world import build_strategy, build_world, levels_of, simulate_rounds
from fedcore.sources.clients import LazyClients, as_client
from fedcore.task import Loss, Task, Terms, naming
from fedcore.threads import one_thread_each
from fedcore.types import FederatedDataset

OF_A_BENCHMARK = {"benchmark", "strategies", "model", "data", "data_dir", "data_seed"}


@one_thread_each()
def simulate(
    clients: Sequence[Any] | LazyClients,
    model: nn.Module,
    *,
    test: Any = None,
    strategy: str | Strategy = "tempo",
    stragglers: float | None = None,
    seed: int = 0,
    head: str | None = None,
    loss: str | Loss = CROSS_ENTROPY,
    metrics: Sequence[Any] = (),
    on_round: Callable[[RoundRecord], bool | None] | None = None,
    **options: Any,
) -> History:
    """Train ``model`` on ``clients`` whose speeds differ; rounds keep a virtual deadline.

    Args:
        clients: one (inputs, labels) pair per client, arrays or tensors, or one map-style torch
            Dataset, or DataLoader of one; or ``LazyClients`` for a fleet that memory cannot hold
            (then set ``evaluate_samples``). Inputs with a fraction get the model's type; of a model
            with several, they are a tuple or a dict of arrays.
        model: maps a batch of inputs to class scores, or to what its loss takes, alone or as
            ``logits`` of a dict or an object; training starts from its parameters, which stay.
        test: held-out (inputs, labels) or Dataset, for the test accuracy of every round.
        strategy: a name ('fedcore list' shows them), a path to a .py file, or a ``Strategy``.
        stragglers: percentage of clients that miss the deadline; 30 unless ``deadline`` is given.
        seed: of cohorts, speeds and shuffles.
        head: name of the last linear layer, if it is not the last ``nn.Linear`` of the model.
        loss: a name of ``--loss``, a path to a .py file, or a function of outputs and targets that
            gives a number a sample [batch]; targets have any shape then.
        metrics: names of ``--metrics``, paths, or functions (outputs, targets) -> number.
        on_round: called with every round's record as it ends; False ends the run after it.
        **options: any option of ``fedcore compare``: rounds, epochs, learning_rate, ...

    Returns:
        The rounds and the trained parameters.
    """
    _check_arguments(clients, model, strategy, options)
    if not (on_round is None or callable(on_round)):
        raise BadOption(f"on_round must be a function of a round's record, got {on_round!r}")
    given = {**options, "seed": seed}
    if stragglers is not None or not options.get("deadline"):
        given["stragglers"] = 30.0 if stragglers is None else stragglers
    experiment = resolve(given, lambda benchmark, preset: {})
    for name in ("stragglers", "seed", "learning_rates"):
        if len(values := getattr(experiment, name)) > 1:
            raise BadOption(f"{name} must be one number here, got {values}; call once for each")
    bf16, own = experiment.precision == "bf16", metrics_of(metrics)
    terms = Terms(loss_of(loss), experiment.batch_norm, bf16, own)
    Task(model, head, terms)  # its refusals come before anything is tried
    types = (p.dtype for p in model.parameters() if p.is_floating_point())
    floating = next(types, torch.get_default_dtype())  # of inputs with a fraction
    if test is None and (experiment.patience or own):
        what = f"patience {experiment.patience}" if experiment.patience else "a metric"
        raise BadOption(f"{what} needs held-out data; pass test=")
    members: Any = clients if isinstance(clients, LazyClients) else dict(enumerate(clients))
    # A batch of one input; where no client has any, that is refused below, by name.
    read = partial(as_client, floating=floating, classes=False)
    every = (read(f"client {number}", members[number]) for number in members)
    sample = next((data.take(slice(0, 1)) for data in every if len(data)), None)
    classes = 1
    if sample is not None:
        classes = try_out(Task(model, head, settled(terms, sample[1])), *sample)
    dataset = check_dataset(FederatedDataset(members, test, classes), floating, terms)
    federation = federate(dataset, model, head, terms)
    name = "own" if isinstance(strategy, Strategy) else strategy
    experiment.check_method(*([("strategy", strategy)] if isinstance(strategy, str) else []))
    if isinstance(strategy, str):
        there = (federation.proxy, len(members), federation.model_bytes)
        strategy = build_strategy(strategy, experiment, *there)
    level, *_ = levels_of(experiment, {experiment.seed[0]: federation})
    run = RunKey("own data", name, level, experiment.seed[0])
    records: list[RoundRecord] = []
    params = federation.initial
    world = build_world(federation, experiment, run, strategy)
    with naming(model), closing(simulate_rounds(world)) as rounds:
        for record, state in rounds:
            params = {name: value.cpu() for name, value in state.params.items()}
            records.append(record)
            if on_round is not None and on_round(record) is False:
                break
    return History(tuple(records), federation.task.saved(params))


def _check_arguments(clients: object, model: object, strategy: object, options: Options) -> None:
    if not isinstance(clients, Sequence | LazyClients):
        forms = "a list of (inputs, labels) pairs or LazyClients"
        raise BadData(f"clients must be {forms}, got {type(clients).__name__}")
    if not isinstance(model, nn.Module):
        raise BadOption(f"model must be a torch nn.Module, got {type(model).__name__}")
    if not isinstance(strategy, str | Strategy):
        raise BadOption(f"strategy must be a name or a Strategy, got {type(strategy).__name__}")
    for name in OF_A_BENCHMARK & options.keys():
        raise BadOption(f"{name} is for benchmarks that FedCore loads; leave it out here")
