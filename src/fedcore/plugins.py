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
import inspect
import pkgutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from fedcore.errors import BadOption, FedCoreError, UnknownPlugin

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
    if name not in names(kind):
        raise UnknownPlugin(unknown(kind, name, names(kind)))
    return importlib.import_module(f"{KINDS[kind]}.{name.replace('-', '_')}")


def title(name: str) -> str:
    """What a plug-in is called in results: a user's file goes by its name without folder."""
    return Path(name).stem if name.endswith(".py") else name


def function(kind: str, name: str, wanted: str) -> Callable[..., Any]:
    """The function ``wanted`` of a plug-in, which it must have."""
    found = getattr(load(kind, name), wanted, None)
    if not callable(found):
        raise BadOption(f"{kind} {name!r} has no function {wanted!r}; see docs/architecture.md")
    return cast(Callable[..., Any], found)


def options_of(made: Callable[..., Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """Those of ``options`` that a function names as keyword parameters; all where it has **own."""
    parameters = inspect.signature(made).parameters.values()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return dict(options)
    keywords = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    named = [parameter.name for parameter in parameters if parameter.kind in keywords]
    return {key: options[key] for key in named if key in options}


def build(kind: str, name: str, options: Mapping[str, Any], returns: Any, *arguments: Any) -> Any:
    """Call a plug-in's ``build`` with those of ``options`` that it names as parameters.

    Args:
        kind: one of ``KINDS``.
        name: of the plug-in, or the path of a file.
        options: of the experiment, and ``method``, by name.
        returns: the type of what is built.
        *arguments: what comes before options, such as a model's example.
    """
    make = function(kind, name, "build")
    try:
        built = make(*arguments, **options_of(make, options))
    except FedCoreError:
        raise
    except (TypeError, ValueError) as error:
        raise BadOption(
            f"{kind} {name!r} cannot be built: {error}; its own options go by --method KEY=VALUE"
        ) from error
    if not isinstance(built, returns):
        wanted = getattr(returns, "__name__", str(returns))
        raise BadOption(
            f"build of {kind} {name!r} must return a {wanted}, got a {type(built).__name__}"
        )
    return built


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
        why = f"{type(error).__name__}: {error}"
        if isinstance(error, ImportError) and (error.name or "").split(".")[0] == "fedcore":
            why += "; it was written for another version of fedcore, see examples/ for this one's"
        raise UnknownPlugin(f"{kind} file {str(path)!r} cannot be imported: {why}") from error
    return module
