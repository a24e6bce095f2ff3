"""The executor and the device that names such as ``auto`` stand for."""

import ctypes
import logging
from contextlib import suppress
from dataclasses import replace

import torch

from fedcore.bundle import Bundle
from fedcore.client.coresets import Clients
from fedcore.client.executors.linear import LinearExecutor, chain_of
from fedcore.client.executors.sequential import SequentialExecutor
from fedcore.client.executors.stacked_model import bytes_of_a_step
from fedcore.client.executors.vectorised import VectorisedExecutor
from fedcore.compiled import say_once
from fedcore.errors import BadOption
from fedcore.sources.clients import is_streamed, sizes_of
from fedcore.task import CLASSES, Task
from fedcore.types import ClientData, Executor, TrainingSettings

log = logging.getLogger(__name__)

# Parameters below which a step on a CPU is mostly calls, which clients side by side share.
SMALL_MODEL = 50_000
LARGEST_BLOCK = 1024
MOST_PRODUCTS = 2**23  # of a batch and several layers: above, libraries beat a compiled loop
CPU_BYTES = 2**30  # that a block may take
GPU_SHARE = 0.4  # of the free memory


def choose_device(name: str, executor: str) -> torch.device:
    """The device called ``name``; ``auto`` is a GPU where there is one that can be used."""
    usable = torch.cuda.is_available()
    if name == "cuda" and not usable:
        raise BadOption("device 'cuda' asks for a GPU, and PyTorch finds none; use 'auto'")
    if name == "cuda" and executor == "compiled":
        raise BadOption("executor 'compiled' runs on the CPU; use device 'cpu' or executor 'auto'")
    gpu = name == "cuda" or (name == "auto" and usable and executor != "compiled")
    return torch.device("cuda" if gpu else "cpu")


def choose_executor(
    name: str,
    task: Task,
    clients: Clients,
    settings: TrainingSettings,
    *,
    threads: int,
    device: torch.device | None = None,
) -> Executor:
    """The executor called ``name``; ``auto`` takes the fastest that fits model and device."""
    device = device or torch.device("cpu")
    # More than anybody has is as much as who has most: memory follows the batch.
    largest = int(sizes_of(clients).counts.max())
    settings = replace(settings, batch_size=min(settings.batch_size, largest))
    if name == "ray":
        from fedcore.client.executors.remote import RayExecutor

        return RayExecutor(task, clients, settings, threads, device)
    if task.terms.bf16 and device.type == "cuda" and not torch.cuda.is_bf16_supported():
        raise BadOption("precision 'bf16' is not there on this GPU; use 'float32'")
    # Fast paths know no other losses, statistics, precisions or inputs, and read no batches.
    other = task.terms != CLASSES or isinstance(next(iter(clients.values())).x, Bundle)
    if (other and name != "compiled") or (name == "auto" and is_streamed(clients)):
        name = "sequential"
    asked = name in ("auto", "compiled") and device.type == "cpu" and not other
    chain = chain_of(task, clients) if asked else None
    if name == "compiled" and chain is None:
        what = "executor 'compiled' trains chains of linear layers and activations by cross-entropy"
        raise BadOption(f"{what}, in float32 and with numba; use 'auto'")
    products = settings.batch_size * sum(value.numel() for value in task.model.parameters())
    if chain is not None and settings.adam:
        say_once("the compiled loop has no Adam: clients are trained side by side")
    elif chain is not None and (name != "auto" or len(chain) == 1 or products < MOST_PRODUCTS):
        return LinearExecutor(task, clients, settings, threads=threads)
    if name != "sequential":
        block = block_size(task, next(iter(clients.values())), settings.batch_size, device)
        if block is not None:
            # u, v and what is made of them: up to four copies more than the three that count
            block = block if settings.plain else -(-block // 2)
            if block == 1 and device.type == "cpu":
                _keep_freed_memory()
            return VectorisedExecutor(
                task, clients, settings, device=device, block=block, threads=threads
            )
        log.warning("clients are trained one after another: this model has no batched form")
    return SequentialExecutor(task.on(device), clients, settings)


def _keep_freed_memory() -> None:
    """Spare large networks the page faults of fresh memory: 4 to 14 % of an LSTM's time."""
    with suppress(OSError, AttributeError, TypeError):  # a function of the GNU library alone
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(-1, 2**31 - 1)  # M_TRIM_THRESHOLD: bytes that may lie free at the end of a heap
        mallopt(-3, 2**25)  # M_MMAP_THRESHOLD: bytes from which memory is the system's own


def block_size(
    task: Task, example: ClientData, batch_size: int, device: torch.device
) -> int | None:
    """How many clients to train side by side; None where the model allows no such thing."""
    size = sum(parameter.numel() for parameter in task.model.parameters())
    together = bytes_of_a_step(task, example, batch_size, clients=2, device=device)
    on_cpu = device.type == "cpu"
    if together is None or (on_cpu and size > SMALL_MODEL):
        alone = bytes_of_a_step(task, example, batch_size, clients=1, device=device)
        if together is None and alone is not None:
            log.info("clients are trained one at a time: this model has no rule for vmap")
        return 1 if alone is not None else None
    budget = CPU_BYTES if on_cpu else int(GPU_SHARE * torch.cuda.mem_get_info(device)[0])
    return max(1, min(LARGEST_BLOCK, budget // together))
