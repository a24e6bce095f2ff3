"""FedCore on real machines: a Flower strategy and what its clients need; ``fedcore[flower]``."""

from importlib import import_module
from typing import Any

# No file may be called like what it holds: the file would be what a user gets.
HOMES = {"on_time": "loader", "fit": "exact", "deadline_mod": "mod"}


def __getattr__(name: str) -> Any:
    """Import a public name when it is asked for: who trains needs no server, and vice versa."""
    if name not in HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{HOMES[name]}"), name)
