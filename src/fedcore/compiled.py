"""The one place that knows numba: a typed decorator, and whether numba is there at all.

Modules with compiled kernels apply ``compiled`` when they are imported, so they are imported
only where a compiled path is taken; ``import fedcore`` costs nothing and needs no numba.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import ParamSpec, TypeVar, cast

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def have_numba() -> bool:
    """Say whether compiled paths can run here; does not import numba."""
    return find_spec("numba") is not None


def compiled(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Compile ``function`` on its first call and keep the machine code on disk.

    Kernels release the interpreter lock, so row blocks can run on threads. Of the fast-math
    liberties only those are granted that cannot reorder a sum ("contract": fused multiply-add)
    or that concern values we never have ("nnan", "ninf", "nsz"): a result does not depend on how
    a loop happened to be vectorised.
    """
    return _decorated(function, forceinline=False)


def inlined(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Compile ``function`` into those that call it.

    A call hands over every array as a dozen words and counts references; for a loop over 64
    numbers that is most of the time.
    """
    return _decorated(function, forceinline=True)


def _decorated(
    function: Callable[Arguments, Result], *, forceinline: bool
) -> Callable[Arguments, Result]:
    import numba

    decorate = numba.njit(
        cache=True,
        nogil=True,
        error_model="numpy",
        fastmath={"contract", "nnan", "ninf", "nsz"},
        forceinline=forceinline,
    )
    return cast("Callable[Arguments, Result]", decorate(function))


def compiled_training(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Compile a training loop: sums may be reordered, NaN and infinity keep their meaning.

    A diverging model does meet NaN, and must show it. Reordering lets dot products use vector
    registers; it is fixed at compile time, so equal inputs still give equal bits.
    """
    import numba

    decorate = numba.njit(
        cache=True, nogil=True, error_model="numpy", fastmath={"contract", "reassoc", "nsz"}
    )
    return cast("Callable[Arguments, Result]", decorate(function))


def compiled_in_order(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Compile a kernel that does what it says in the order it says it.

    Only fused multiply-add is granted: for sums whose order is written out, tricks that rely on
    rounding, and models that diverge and must show NaN.
    """
    import numba

    decorate = numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
    return cast("Callable[Arguments, Result]", decorate(function))
