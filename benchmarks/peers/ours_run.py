"""Ours: ``fedcore.simulate`` with FedAvg, drawing the cohorts and orders that the file holds."""

from __future__ import annotations

import argparse
from pathlib import Path

import torch

import fedcore
from benchmarks.peers.work import Answer, Stopwatch, Work, set_weights
from benchmarks.peers.workloads import SEED
from fedcore import plugins


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("work", type=Path)
    parser.add_argument("answer", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)  # as the command does: clients run side by side instead
    work = Work.read(options.work)
    clients = [work.client(number) for number in range(len(work.sizes))]
    model = plugins.load("model", work.model).build(clients[0][0][0], 10)
    set_weights(model, work.initial)
    watch = Stopwatch()
    history = fedcore.simulate(
        clients,
        model,
        strategy="fedavg",
        seed=SEED,
        on_round=lambda record: watch.round_done(),
        device="cpu",
        rounds=work.rounds,
        epochs=work.epochs,
        batch_size=work.batch_size,
        learning_rate=work.learning_rate,
        clients_per_round=work.cohorts.shape[1],
        selection="uniform",
        aggregation="samples",
        evaluate_samples=1,  # nobody evaluates here
    )
    final = [value.numpy() for value in history.params.values()]
    Answer(final, watch.seconds).write(options.answer)


if __name__ == "__main__":
    main()
