"""The loss alone, at deadlines below those of the trade: where is the best of them?

    python -m benchmarks.theory.tighter [--l2 1] [--deadlines 0.05,0.025]

The same paths, steps and coresets as ``theory.bound``; neither ε nor D is measured, for which every
step needs the gradients of all samples, so that thousands of rounds take seconds.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.theory.__main__ import PATHS, ROOT, TIME, USUAL, remember, world
from fedcore.theory import Budgets, Constants, Problem, part_of

Draws = NDArray[np.int_]  # [paths, rounds, clients]
DEADLINES = "0.1,0.05,0.025,0.0125,0.00625,0.003,0.0015"


def last_model(
    problem: Problem, budgets: Budgets, of: Constants, draws: np.ndarray
) -> torch.Tensor:
    """All clients at once: coresets are filled up with samples of weight 0."""
    clients, (epochs, paths) = len(budgets), (of.epochs, len(draws))
    parts = [[part_of(p, b) for b in own] for p, own in zip(problem.clients, budgets, strict=True)]
    kinds = {tuple(own[t] for own in budgets): t for t in range(epochs)}  # epochs that are alike
    padded = {}
    for sizes, t in kinds.items():
        x = torch.zeros(clients, max(1, *sizes), problem.shape[0]).double()
        y, delta = torch.zeros(*x.shape[:2], problem.shape[1]).double(), torch.zeros(x.shape[:2])
        delta = delta.double()
        for i, part in enumerate(own[t] for own in parts):
            if part is not None:
                rows = len(part.inputs)
                x[i, :rows], y[i, :rows], delta[i, :rows] = part
        going = torch.tensor([float(size > 0) for size in sizes]).double()[:, None, None]
        padded[sizes] = x, y, delta[..., None], going
    model = torch.zeros(paths, *problem.shape).double()
    for number in range(draws.shape[1]):
        local = model[:, None].expand(-1, clients, -1, -1)
        for t in range(epochs):
            x, y, delta, going = padded[tuple(own[t] for own in budgets)]
            wrong = delta * (torch.softmax(x @ local, -1) - y)
            eta = float(of.step(number * epochs + t))
            local = local - eta * (x.transpose(1, 2) @ wrong + problem.l2 * local) * going
        drawn = torch.from_numpy(draws[:, number])
        model = local[torch.arange(paths)[:, None], drawn].mean(1)
    return model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--l2", type=float, default=1.0)
    parser.add_argument("--deadlines", default=DEADLINES)
    parser.add_argument("--out", type=Path, default=ROOT / "runs" / "theory")
    asked = parser.parse_args()
    from fedcore.theory import budgets_of

    problem, fleet, options = world(USUAL, asked.l2)
    remember(problem, asked.out / f"minima-{asked.l2:g}.pt")
    least = problem.value(problem.everybody, problem.minimiser(problem.everybody))
    speeds = [client.capability for client in fleet.profiles.values()]
    known = problem.smoothness, problem.convexity, 0.0, 0.0, 0.0, 0.0
    of = Constants(*known, options.epochs, options.clients_per_round)
    shares, sizes = problem.shares.numpy(), [len(part.inputs) for part in problem.clients]
    print("| deadline | rounds | below one pass | idle | median b | loss above the least |")
    print("| --- | --- | --- | --- | --- | --- |")
    for deadline in map(float, asked.deadlines.split(",")):
        seconds, rounds = deadline * fleet.deadline, max(int(TIME / deadline), 1)
        budgets = budgets_of(problem, speeds, seconds, of.epochs)
        size = PATHS, rounds, of.clients
        draws = np.random.default_rng(0).choice(len(shares), size, p=shares)
        gap = problem.value(problem.everybody, last_model(problem, budgets, of, draws)) - least
        first = [own[0] for own in budgets]
        below = sum(b < m for b, m in zip(first, sizes, strict=True))
        middle = f"{below} of {len(sizes)} | {first.count(0)} | {np.median(first):g}"
        print(f"| {deadline:g} | {rounds} | {middle} | {float(gap.mean()):.4f} |", flush=True)


if __name__ == "__main__":
    main()
