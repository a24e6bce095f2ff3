"""Plug-ins by file name: a file in a plug-in folder is an entry of that kind.

``strategies/fed_prox.py`` would be the strategy ``fed-prox``: underscores in file names are
hyphens in names, and in front a helper's. A name that ends in ``.py`` is a path to a file of the
user's own. Nothing is imported until it is asked for by name.
"""

import difflib
import functools
import importlib
import importlib.util
import inspect
import pkgutil
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from fedcore.errors import BadOption, FedCoreError, UnknownPlugin
from fedcore.values import convert

Options = Mapping[str, Any]
NONE: Options = {}
Takers = Iterable[tuple[str, str]]  # kinds and names
KINDS = {"strategy": "fedcore.strategies", "selector": "fedcore.coreset.selectors"}
KINDS |= {"sampler": "fedcore.server.samplers", "dataset": "fedcore.datasets"}
KINDS |= {"model": "fedcore.models", "deadline": "fedcore.deadlines"}
# What a run tells a method and nobody sets: all options, the step size, fleet and model.
TOLD = {"options", "method", "step_size", "num_clients", "model_bytes", "around"}
OWN = "fedcore_user_"  # modules of users' files are called so, and their name
# What other libraries call our options, where ours is not the nearest name anyway.
USUAL = {"lr": "learning_rate", "mu": "fedprox_mu", "wd": "weight_decay", "dataset": "benchmark"}
USUAL |= dict.fromkeys(("num_clients", "cohort_size", "sample_clients"), "clients_per_round")
USUAL |= dict.fromkeys(("gradient_accumulation_steps", "accumulate_grad_batches"), "batch_size")
USUAL |= {"bs": "batch_size", "seeds": "seed", "max_grad_norm": "clip_norm", "sampler": "selection"}
TRUTHS = {"true": True, "1": True, "false": False, "0": False}


def names(kind: str) -> list[str]:
    """Names of all plug-ins of a kind, read from its folder."""
    package = importlib.import_module(KINDS[kind])
    found = (module.name for module in pkgutil.iter_modules(package.__path__))
    return sorted(name.replace("_", "-") for name in found if not name.startswith("_"))


def load(kind: str, name: str) -> ModuleType:
    """Import the plug-in ``name``, or the user's file when ``name`` ends in ``.py``."""
    if name.endswith(".py"):
        file = Path(name)
        kept = kind == "selector" and file.is_file()  # others begin anew with every run
        return _selector(file, file.read_bytes()) if kept else _load_file(kind, file)
    path = f"{KINDS[kind]}.{name.replace('-', '_')}"
    # One that was asked for before needs no look at the folder.
    if ("_" in name or path not in sys.modules) and name not in names(kind):
        raise UnknownPlugin(unknown(kind, name, names(kind)))
    return importlib.import_module(path)  # which waits where another thread is importing it


def title(name: str) -> str:
    """What a plug-in is called in results: a user's file goes by its name without folder."""
    return Path(name).stem if name.endswith(".py") else name


def function(kind: str, name: str, wanted: str) -> Callable[..., Any]:
    """The function ``wanted`` of a plug-in, which it must have."""
    found = getattr(load(kind, name), wanted, None)
    if not callable(found):
        raise BadOption(f"{kind} file {name!r} has no function {wanted!r}; see examples/")
    return cast(Callable[..., Any], found)


def keywords(made: Callable[..., Any]) -> list[str]:
    """A function's keyword parameters by name; one that takes any others is ``**name``."""
    found = inspect.signature(made).parameters.values()
    unnamed = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.VAR_POSITIONAL)
    return [str(p) if p.kind is p.VAR_KEYWORD else p.name for p in found if p.kind not in unnamed]


def taken(made: Callable[..., Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """Those of ``options`` that a function takes; text is refused where it says ``float``."""
    names, known = keywords(made), inspect.signature(made).parameters
    every = any(name.startswith("**") for name in names)
    own = {key: value for key, value in options.items() if every or key in names}
    for key in own.keys() & known.keys():
        kind = getattr(known[key].annotation, "__name__", known[key].annotation)
        if kind == "bool":
            own[key] = convert(key, TRUTHS.get(str(own[key]).lower(), own[key]), bool)
        elif kind in ("int", "float"):
            convert(key, own[key], int if kind == "int" and isinstance(own[key], str) else float)
    return own


def build(
    kind: str, name: str, returns: Any, *given: Any, options: Options = NONE, method: Options = NONE
) -> Any:
    """What a plug-in's ``build`` makes of what is ``given`` and the options that it takes."""
    make = function(kind, name, "build")
    named = {key: value for key, value in options.items() if key in keywords(make)}
    try:
        built = make(*given, **named, **taken(make, method))
    except FedCoreError:
        raise
    except (TypeError, ValueError) as error:
        what = f"{kind} {name!r} cannot be built: {str(error).splitlines()[0]}; see examples/"
        raise BadOption(f"{what}, and --method KEY=VALUE for options of its own") from error
    if not isinstance(built, returns):
        got = f"a {returns.__name__}, got a {type(built).__name__}"
        raise BadOption(f"build of {kind} {name!r} must return {got}")
    return built


def check_taken(method: Options, takers: Takers, reserved: Iterable[str] = ()) -> None:
    """Refuse an option of ``method`` that no taker has; ``reserved`` ones are nobody's own."""
    makers = [one.build for one in (load(*taker) for taker in takers) if hasattr(one, "build")]
    for key in method:
        if key in TOLD or not any(taken(make, {key: 0}) for make in makers):
            found = (p for make in makers for p in inspect.signature(make).parameters.values())
            known = {p.name for p in found if p.default is not p.empty} - TOLD - set(reserved)
            raise BadOption(unknown("method option", key, sorted(known), see=""))


def summary(kind: str, name: str) -> str:
    """The first sentence of a plug-in's documentation."""
    return (load(kind, name).__doc__ or "").strip().split("\n")[0]


def unknown(kind: str, name: str, known: Iterable[str], *, see: str = "fedcore list") -> str:
    """The sentence for a name that does not exist: the nearest ``known``, what to ``see``."""
    known = list(known)
    usual = USUAL.get(name.replace("-", "_"))
    near = [usual] if usual in known else difflib.get_close_matches(name, known, 1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known) or 'none'}"
    return f"no {kind} named {name!r}; {hint}" + (f" (see '{see}')" if see else "")


@functools.cache  # every coreset asks for it, and what it compiles or reads takes a while
def _selector(path: Path, content: bytes) -> ModuleType:
    return _load_file("selector", path)


def _load_file(kind: str, path: Path) -> ModuleType:
    if not path.is_file():
        raise UnknownPlugin(f"no {kind} file at {str(path)!r}; check the path, or use a name")
    spec = importlib.util.spec_from_file_location(OWN + path.stem, path)
    assert spec is not None and spec.loader is not None  # noqa: PT018 - of any file ending in .py
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look for what annotations name
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        why = f"{type(error).__name__}: {error}; see examples/"
        raise UnknownPlugin(f"{kind} file {str(path)!r} cannot be imported: {why}") from error
    finally:
        sys.modules.pop(spec.name, None)  # Ray's workers get whole what is in no module there
    return module
