"""Compile the solver before the first round: ``python -m fedcore.flower.warm``.

Cold it takes half a minute, from numba's cache a second. What was compiled is noted beside the
compiled code, so that the new process that serves a message can tell which it would be.
"""

import functools
import hashlib
import os
from importlib.metadata import version
from itertools import product
from pathlib import Path

import torch

from fedcore import plugins
from fedcore.compiled import have_numba
from fedcore.coreset import medoids
from fedcore.coreset.metric import Euclidean, OuterProduct


def is_warm(selector: str) -> bool:
    """Whether a built-in selector can start at once here: it needs no compiled code, or has it."""
    needs = "medoids" in plugins.load("selector", selector).__name__
    return not needs or not have_numba() or _mark().exists()


def warm() -> str:
    """Choose small coresets in all ways there are, and say what that took."""
    if not have_numba():
        return "numba is not installed: there is nothing to compile"
    from fedcore.coreset.medoids.solve import solve

    draws = torch.Generator().manual_seed(0)
    points, wide = (torch.randn(300, d, generator=draws) for d in (8, 64))
    spaces = Euclidean(points), Euclidean(wide), OuterProduct(points, wide, True)
    for space, path in product(spaces, ("exact", "sparse", "sampled")):
        solve(space, 1, path=path)
        solve(space, 30, path=path)
        solve(space, 30, path=path, labels=torch.arange(300) % 3)
    _mark().parent.mkdir(parents=True, exist_ok=True)
    _mark().touch()
    return f"compiled the solver; noted in {_mark()}"


@functools.cache
def _mark() -> Path:
    """A file whose name says which code was compiled, by which numba, for which processor."""
    from llvmlite import binding

    home = Path(medoids.__path__[0])
    sources = [(f.name, f.stat().st_mtime_ns, f.stat().st_size) for f in sorted(home.glob("*.py"))]
    of = (version("numba"), binding.get_host_cpu_name(), sources)
    name = f"fedcore-{hashlib.sha256(repr(of).encode()).hexdigest()[:16]}.warm"
    return Path(os.environ.get("NUMBA_CACHE_DIR") or home / "__pycache__") / name


if __name__ == "__main__":
    print(warm())
