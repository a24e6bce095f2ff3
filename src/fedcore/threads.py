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
_callers: list[Callable[[], None]] = []  # for each that is bound now, what gives its threads back


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
        _callers.append(_callers[0] if _callers else _limit())
    _own.inside = True
    torch.set_num_threads(1)  # OpenMP counts them for each caller
    try:
        yield
    finally:
        _own.inside = False
        with _lock:
            give_back = _callers.pop()
            give_back()


def _limit() -> Callable[[], None]:
    """Bound the libraries; gives what undoes it, on any thread and more than once."""
    usual = torch.get_num_threads()
    before = [(library, library.get_num_threads()) for library in _blas(len(sys.modules))]
    for library, _ in before:
        library.set_num_threads(1)

    def give_back() -> None:
        torch.set_num_threads(usual)
        for library, number in before:
            library.set_num_threads(number)

    return give_back


@functools.lru_cache(maxsize=1)
def _blas(modules: int) -> list[Any]:
    """The BLAS libraries that so many imported ``modules`` loaded; finding them takes a while."""
    try:
        from threadpoolctl import ThreadpoolController
    except ImportError:
        return []
    return list(ThreadpoolController().select(user_api="blas").lib_controllers)
