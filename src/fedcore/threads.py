"""One thread for whoever computes: on small steps several lose, on a busy machine by far."""

import functools
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

_lock = threading.Lock()
_own = threading.local()  # .inside: whether this thread is bound already
Threads = list[tuple[Callable[[int], None], int]]  # what sets a library's, and how many it had
_callers: list[Threads] = []  # of each that is bound now, those from before


@contextmanager
def one_thread_each() -> Iterator[None]:
    """Bound PyTorch (with its OpenMP) and NumPy's BLAS to the calling thread; afterwards as before.

    Threads that are started inside may compute side by side; a call within a call changes nothing.

    >>> with one_thread_each():
    ...     torch.get_num_threads()
    1
    """
    if getattr(_own, "inside", False):
        yield
        return
    with _lock:
        _callers.append(_callers[0] if _callers else _threads())
        for set_threads, _ in _callers[0]:
            set_threads(1)  # also for a second caller: OpenMP counts PyTorch's for each
    _own.inside = True
    try:
        yield
    finally:
        _own.inside = False
        with _lock:
            for set_threads, number in _callers.pop():
                set_threads(number)


def _threads() -> Threads:
    """Those of PyTorch and of the libraries as they are now."""
    own = torch.set_num_threads, torch.get_num_threads()
    return [own, *((one.set_num_threads, one.get_num_threads()) for one in _blas(len(sys.modules)))]


@functools.lru_cache(maxsize=1)
def _blas(modules: int) -> list[Any]:
    """The BLAS libraries that so many imported ``modules`` loaded; finding them takes a while."""
    try:
        from threadpoolctl import ThreadpoolController
    except ImportError:
        return []
    return list(ThreadpoolController().select(user_api="blas").lib_controllers)
