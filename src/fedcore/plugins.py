"""Plug-ins by file name: a file in a plug-in folder is an entry of that kind.

``strategies/fed_prox.py`` would be the strategy ``fed-prox``: underscores in file names are
hyphens in names. A name that ends in ``.py`` is a path to a file of the user's own, so a new
method can be tried without touching the package. Files whose name starts with an underscore
are helpers. Nothing is imported until it is asked for by name.
"""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import pkgutil
import sys
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType

from fedcore.errors import UnknownPlugin

KINDS = {
    "strategy": "fedcore.strategies",
    "selector": "fedcore.coreset.selectors",
    "dataset": "fedcore.datasets",
    "model": "fedcore.models",
}


def names(kind: str) -> list[str]:
    """Names of all plug-ins of a kind, read from its folder."""
    package = importlib.import_module(KINDS[kind])
    found = (module.name for module in pkgutil.iter_modules(package.__path__))
    return sorted(name.replace("_", "-") for name in found if not name.startswith("_"))


def load(kind: str, name: str) -> ModuleType:
    """Import the plug-in ``name``, or the user's file when ``name`` ends in ``.py``."""
    if name.endswith(".py"):
        return _load_file(kind, Path(name))
    path = f"{KINDS[kind]}.{name.replace('-', '_')}"
    if path in sys.modules and "_" not in name:  # asked for before: no folder need be read
        return sys.modules[path]
    if name not in names(kind):
        raise UnknownPlugin(unknown(kind, name, names(kind)))
    return importlib.import_module(path)


def summary(kind: str, name: str) -> str:
    """The first sentence of a plug-in's documentation."""
    return (load(kind, name).__doc__ or "").strip().split("\n")[0]


def unknown(kind: str, name: str, known: Iterable[str], *, see: str = "fedcore list") -> str:
    """The one sentence for a name that does not exist, with the nearest that does.

    Args:
        kind: what it should have been the name of.
        name: what was given.
        known: the names there are.
        see: the command that lists them; empty where none does.
    """
    known = list(known)
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known)}"
    return f"no {kind} named {name!r}; {hint}" + (f" (see '{see}')" if see else "")


def _load_file(kind: str, path: Path) -> ModuleType:
    if not path.is_file():
        raise UnknownPlugin(f"no {kind} file at {str(path)!r}; check the path, or use a name")
    spec = importlib.util.spec_from_file_location(f"fedcore_user_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise UnknownPlugin(f"{str(path)!r} is not a Python file that can be imported")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        kind_of_error = type(error).__name__
        raise UnknownPlugin(
            f"{kind} file {str(path)!r} cannot be imported: {kind_of_error}: {error}"
        ) from error
    return module
