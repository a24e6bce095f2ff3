"""pfl's simulated backend with its own FederatedAveraging, on one or several worker processes."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import torch
from pfl.aggregate.simulate import SimulatedBackend
from pfl.aggregate.weighting import WeightByDatapoints
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.base import TrainingProcessCallback
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.pytorch import PyTorchTensorDataset
from pfl.hyperparam import NNTrainHyperParams
from pfl.metrics import Metrics
from pfl.model.pytorch import PyTorchModel
from torch import Tensor, nn

from benchmarks.peers.work import Answer, Stopwatch, Work, batches, build_model, set_weights


class Learner(nn.Module):
    """A model with the two functions that pfl asks for."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def loss(self, x: Tensor, y: Tensor) -> Tensor:
        """What a step minimises."""
        return nn.functional.cross_entropy(self.model(x), y)

    def metrics(self, x: Tensor, y: Tensor) -> dict[str, float]:
        """Nothing: nobody evaluates here."""
        return {}


class GivenOrders(PyTorchTensorDataset):
    """A client's samples; every epoch takes the next of the orders at hand."""

    def __init__(self, tensors: tuple[Tensor, Tensor], orders: Tensor) -> None:
        super().__init__(tensors)
        self._orders = iter(orders)

    def iter(self, batch_size: int | None) -> Iterator[tuple[Tensor, Tensor]]:
        """Batches of one epoch."""
        x, y = self.raw_data
        return batches(x, y, next(self._orders), batch_size or len(self))


class Lap(TrainingProcessCallback):
    """Notes when a round ends."""

    def __init__(self) -> None:
        self.watch = Stopwatch()

    def after_central_iteration(
        self, aggregate_metrics: Metrics, model: PyTorchModel, *, central_iteration: int
    ) -> tuple[bool, Metrics]:
        """A round ends here; go on."""
        self.watch.round_done()
        return False, Metrics()


class WithoutEvaluation(FederatedAveraging):
    """pfl evaluates in round 0 whatever the frequency; this workload does not."""

    def get_next_central_contexts(self, model, iteration, *parameters):  # type: ignore[no-untyped-def]
        """The contexts of a round, with evaluation taken out."""
        contexts, model, metrics = super().get_next_central_contexts(model, iteration, *parameters)
        if contexts is not None:
            contexts = tuple(replace(context, do_evaluation=False) for context in contexts)
        return contexts, model, metrics


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("work", type=Path)
    parser.add_argument("answer", type=Path)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    work = Work.read(options.work)
    learner = Learner(build_model(work.model))
    set_weights(learner, work.initial)
    # A user is a client in a round, since its orders differ from round to round.
    users = iter([(r + 1, c) for r, cohort in enumerate(work.cohorts.tolist()) for c in cohort])
    data = FederatedDataset(
        lambda user: GivenOrders(work.client(user[1]), work.order(*user)), lambda: next(users)
    )
    lap = Lap()
    model = PyTorchModel(
        learner,
        local_optimizer_create=torch.optim.SGD,
        central_optimizer=torch.optim.SGD(learner.parameters(), lr=1.0),
    )
    WithoutEvaluation().run(
        algorithm_params=NNAlgorithmParams(
            central_num_iterations=work.rounds,
            evaluation_frequency=work.rounds + 1,
            train_cohort_size=work.cohorts.shape[1],
            val_cohort_size=0,
        ),
        backend=SimulatedBackend(data, data, [WeightByDatapoints()]),
        model=model,
        model_train_params=NNTrainHyperParams(
            local_num_epochs=work.epochs,
            local_learning_rate=work.learning_rate,
            local_batch_size=work.batch_size,
        ),
        callbacks=[lap],
        send_metrics_to_platform=False,
    )
    if os.environ.get("RANK", "0") == "0":
        final = [value.detach().numpy() for value in learner.parameters()]
        Answer(final, lap.watch.seconds).write(options.answer)


if __name__ == "__main__":
    main()
