"""What rounds with tiny coresets cost: MNIST at 97 % stragglers, FedCore beside FedProx.

    python -m benchmarks.tiny_coresets [--device cuda] [--data-dir DIR] [--rounds 6] [--clients 100]

At that deadline half of FedCore's coresets have at most eight samples, so a round is many small
steps, and what stands between them counts. For every strategy: seconds of a round without its
evaluation, what of them is waiting for choices, and by how many times FedProx's it is; then, in
rounds of their own, what is asked of the device: steps, tapes, launches outside of steps, and
points at which the host waits. On a GPU they are the driver's own counts, and a step is one launch
of a graph; on a CPU those operations of the training thread that would be launches or waits there,
with clients side by side as a GPU has them. Without MNIST's files images are random ones.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "src"))

import numpy as np  # noqa: E402
import torch  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

from benchmarks.simulator.machine import describe  # noqa: E402
from fedcore.client.coresets import Coresets  # noqa: E402
from fedcore.client.executors.stacked_model import form_of  # noqa: E402
from fedcore.client.executors.steps import Pool, Steps  # noqa: E402
from fedcore.client.executors.vectorised import Block, VectorisedExecutor  # noqa: E402
from fedcore.config import Experiment, resolve  # noqa: E402
from fedcore.errors import DatasetUnavailable  # noqa: E402
from fedcore.records import RunKey  # noqa: E402
from fedcore.sim import world as _world  # noqa: E402
from fedcore.sim.federation import Federation, federation_from_model  # noqa: E402
from fedcore.sources.benchmark import find  # noqa: E402
from fedcore.types import ClientData, FederatedDataset  # noqa: E402

STRAGGLERS = 97.0
METHODS: dict[str, dict[str, Any]] = {
    "fedprox": {"strategies": "fedprox"},
    "fedcore": {"strategies": "fedcore"},
    "fedcore, few epochs": {"strategies": "fedcore", "coreset_epochs": 1, "catch_up": 3.0},
}
WARM = {"cpu": 2, "cuda": 15}  # rounds that do not count: kernels are compiled, graphs recorded
VIEWS = (
    *("view", "slice", "select", "detach", "expand", "unbind", "transpose", "permute", "split"),
    *("as_strided", "alias", "t.default", "squeeze", "unsqueeze", "_unsafe_view", "empty"),
)
WAITS = ("_local_scalar_dense", "nonzero", "is_nonzero", "equal.default")
DRIVER = {
    "graphs": ("cudaGraphLaunch",),
    "launches": ("cudaLaunchKernel", "cudaLaunchKernelExC", "cuLaunchKernel", "cuLaunchKernelEx"),
    "copies": ("cudaMemcpyAsync", "cudaMemsetAsync"),
    "waits": ("cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize"),
}


class SideBySide(VectorisedExecutor):
    """On a CPU: a whole cohort in one block, by recorded steps, as on a GPU."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **{**named, "block": 1024, "threads": 2})

    def _new_block(self) -> Block:
        task, pool = self._task.on(self._device), Pool(self._device)
        steps = Steps(form_of(task), pool, self._settings, record=True)
        return Block(task, self._settings, self._coresets, pool, steps)


def random_images(clients: int, side: int) -> FederatedDataset:
    """Images of MNIST's shape, sizes by the same power law, two digits a client."""
    draw = np.random.default_rng(0)
    sizes = np.minimum(draw.lognormal(3, 1.2, clients).astype(int) + 10, 500)
    made = {}
    for client, size in enumerate(sizes.tolist()):
        labels = torch.from_numpy(draw.choice(draw.integers(10, size=2), size))
        noise = torch.from_numpy(draw.random((size, 1, side, side), dtype=np.float32))
        made[client] = ClientData(noise + labels[:, None, None, None] / 10, labels)
    return FederatedDataset(made, None, 10)


def prepared(asked: argparse.Namespace) -> tuple[Federation, bool]:
    place = asked.data_dir
    try:
        found = find("mnist")
        seed = int(found.hyperparameters("paper")["data_seed"])
        dataset, real = found.load(seed=seed, data_dir=place, options={}), True
    except DatasetUnavailable:
        dataset, real = random_images(4 * asked.clients, asked.side), False
    return federation_from_model(dataset, "cnn", 0), real


class Counting(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts what would be launches and waits on a GPU; steps count as one launch of a graph."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.found: Counter[str] = Counter()
        self.inside = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = str(func).removeprefix("aten.")
        if not self.inside and not name.startswith(VIEWS):
            masks = [a for a in args if isinstance(a, list | tuple)]
            bools = (t for one in masks for t in one if isinstance(t, torch.Tensor))
            waits = name.startswith(WAITS) or any(t.dtype is torch.bool for t in bools)
            self.found["waits" if waits else "launches"] += 1
        return func(*args, **(kwargs or {}))


COUNTING: list[Counting] = []  # the one that is counting now, if any


def marked(plain: Callable[..., Any]) -> Callable[..., Any]:
    """``Steps._step`` whose steps are counted as one launch each."""

    def made(self: Steps, watch: int | None) -> Callable[..., Any]:
        step = plain(self, watch)

        def taken(*given: Any) -> Any:
            for mode in COUNTING:
                mode.found["graphs"] += 1
                mode.inside = True
            try:
                return step(*given)
            finally:
                for mode in COUNTING:
                    mode.inside = False

        return taken

    return made


@contextmanager
def counted_on_cpu(found: Counter[str]) -> Iterator[None]:
    mode, plain_cpu, plain_to = Counting(), torch.Tensor.cpu, torch.Tensor.to
    here = threading.get_ident()  # choices are made on others

    def fetched(self: torch.Tensor, *given: Any, **named: Any) -> torch.Tensor:
        mode.found["waits"] += threading.get_ident() == here and not mode.inside
        return plain_cpu(self, *given, **named)

    def sent(self: torch.Tensor, *given: Any, **named: Any) -> torch.Tensor:
        moved = bool(given) and isinstance(given[0], torch.device | str)
        own = moved and threading.get_ident() == here and not mode.inside
        fetches = own and str(given[0]) == "cpu" and "copy" in named
        mode.found["waits" if fetches else "copies"] += own
        return plain_to(self, *given, **named)

    def chosen(self: Coresets, choose: Any) -> Any:  # in main memory on any device
        if threading.get_ident() != here:
            return worked(self, choose)
        mode.inside = True
        try:
            return worked(self, choose)
        finally:
            mode.inside = False

    COUNTING.append(mode)
    worked = Coresets._worked
    own = (
        (torch.Tensor, "cpu", fetched),
        (torch.Tensor, "to", sent),
        (Coresets, "_worked", chosen),
    )
    with ExitStack() as patches:
        for patch in (*(mock.patch.object(*one) for one in own), mode):
            patches.enter_context(patch)
        yield
    COUNTING.remove(mode)
    found.update(mode.found)


@contextmanager
def counted_on_gpu(found: Counter[str]) -> Iterator[None]:
    from torch.profiler import ProfilerActivity

    with torch.profiler.profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as seen:
        yield
        torch.cuda.synchronize()
    for event in seen.key_averages():
        for kind, names in DRIVER.items():
            found[kind] += event.count if event.key in names else 0


def rounds_of(federation: Federation, experiment: Experiment) -> Any:
    name = experiment.strategies[0]
    strategy = _world.build_strategy(name, experiment, federation.proxy)
    world = _world.build_world(federation, experiment, RunKey("", name, STRAGGLERS, 0), strategy)
    return closing(_world.simulate_rounds(world))


def measure(federation: Federation, experiment: Experiment, rounds: int) -> dict[str, Any]:
    """Seconds of rounds, then counts of as many others."""
    found: Counter[str] = Counter()
    seconds, waited, chosen, sizes = [], [], [], []
    paths: Counter[str] = Counter()
    tapes: Counter[str] = Counter()
    count = counted_on_gpu if experiment.device == "cuda" else counted_on_cpu
    walk = Steps.run

    def walked(self: Steps, tape: Any, *given: Any, **named: Any) -> Any:
        tapes.update(tapes=1, steps=len(tape.rows))
        return walk(self, tape, *given, **named)

    with rounds_of(federation, experiment) as every, mock.patch.object(Steps, "run", walked):
        for _ in range(WARM[experiment.device]):
            next(every)
        tapes.clear()
        for _ in range(rounds):
            record, _ = next(every)
            seconds.append(record.wall_seconds - record.evaluation_seconds)
            waited.append(record.waited_seconds)
            chosen.append(record.selection_seconds)
            paths.update(client.path.value for client in record.clients)
            sizes += [c.coreset_size for c in record.clients if c.coreset_size is not None]
        told = {name: round(value / rounds, 1) for name, value in tapes.items()}
        with count(found):
            for _ in range(rounds):
                next(every)
    quartiles = np.percentile(sizes, (25, 50, 75)).tolist() if sizes else []
    told |= {name: round(value / rounds, 1) for name, value in sorted(found.items())}
    return {
        "seconds a round": round(statistics.median(seconds), 5),
        "waiting for choices": round(statistics.median(waited), 5),
        "work of choosing": round(statistics.median(chosen), 5),
        "a round": told,
        "paths": dict(paths),
        "coreset sizes, quartiles": quartiles,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--rounds", type=int, default=6, help="that are timed, and then counted")
    parser.add_argument("--clients", type=int, default=100, help="of a round")
    parser.add_argument("--side", type=int, default=28, help="of random images, in pixels")
    parser.add_argument("--threads", type=int, default=0, help="that choose; 0: one a core")
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    federation, real = prepared(asked)
    report: dict[str, Any] = {"machine": describe(torch.device(asked.device)), "mnist": real}
    report |= {"stragglers": STRAGGLERS, "clients a round": asked.clients, "methods": {}}
    mock.patch.object(Steps, "_step", marked(Steps._step)).start()
    by_hand = mock.patch.object(
        _world, "choose_executor", lambda name, *a, **k: SideBySide(*a, **k)
    )
    for name, options in METHODS.items():
        given = {"benchmark": "mnist", "stragglers": STRAGGLERS, "device": asked.device, **options}
        given |= {"clients_per_round": asked.clients, "threads": asked.threads}
        given |= {"evaluate_samples": 200, "rounds": WARM[asked.device] + 2 * asked.rounds + 1}
        experiment = resolve(given, lambda name, preset: find(name).hyperparameters(preset))
        if asked.device == "cpu":
            with by_hand:
                row = measure(federation, experiment, asked.rounds)
        else:
            row = measure(federation, experiment, asked.rounds)
        report["methods"][name] = row
        first = report["methods"]["fedprox"]["seconds a round"]
        row["times FedProx"] = round(row["seconds a round"] / first, 2)
        sys.stderr.write(f"{name}: {json.dumps(row)}\n")
    text = json.dumps(report, indent=1) + "\n"
    if asked.out is not None:
        asked.out.write_text(text)
    sys.stdout.write(text)


if __name__ == "__main__":
    main()
