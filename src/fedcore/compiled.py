"""The one place that knows numba: typed decorators, and whether numba is there at all.

They apply on import: modules with kernels are imported only where a compiled path is taken.
"""

import functools
import logging
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, TypeVar, cast

log = logging.getLogger(__name__)

Function = TypeVar("Function", bound=Callable[..., Any])


def have_numba() -> bool:
    """Say whether compiled paths can run here; does not import numba."""
    return find_spec("numba") is not None


def _compiler(*liberties: str, **more: Any) -> Callable[[Function], Function]:
    """Compile a function on its first call, without the interpreter lock, and keep the result."""
    more |= {"nogil": True, "error_model": "numpy", "fastmath": set(liberties)}

    def decorated(function: Function) -> Function:
        import numba

        _announce_compiling()
        decorate = functools.partial(numba.njit, **more)
        try:
            return cast(Function, decorate(cache=True)(function))
        except RuntimeError:  # nothing may be written here or at home, as in some containers
            where = "there is no folder that may be written; set NUMBA_CACHE_DIR to one"
            say_once(f"compiled code cannot be kept for the next time: {where}")
            return cast(Function, decorate()(function))

    return decorated


# Of the fast-math liberties only those are granted that cannot reorder a sum, or that concern
# values we never have: a result does not depend on how a loop happened to be vectorised.
compiled = _compiler("contract", "nnan", "ninf", "nsz")
# The same into those that call it: handing over arrays costs more than 64 sums.
inlined = _compiler("contract", "nnan", "ninf", "nsz", forceinline=True)
# Of training, sums may be reordered, once for all; NaN and infinity must show.
compiled_training = _compiler("contract", "reassoc", "nsz")


@functools.cache
def say_once(sentence: str) -> None:
    """Log a sentence, the first time that it is said."""
    log.warning(sentence)


@functools.cache
def _announce_compiling() -> None:
    """Log one line when the first kernel is compiled that is not on disk: it takes a while."""
    from numba.core import event

    class Announcer(event.Listener):
        def on_start(self, event: Any) -> None:
            say_once("compiling for this machine, once; it may take half a minute")

        def on_end(self, event: Any) -> None:
            pass

    event.register("numba:compile", Announcer())  # type: ignore[no-untyped-call]
