"""FedCore on real machines: a Flower strategy and what its clients need; ``fedcore[flower]``."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fedcore.flower.loader import fit as fit
    from fedcore.flower.loader import on_time as on_time
    from fedcore.flower.strategy import FedCore as FedCore
    from fedcore.flower.turn import deadline_mod as deadline_mod

_HOMES = {"FedCore": "strategy", "on_time": "loader", "fit": "loader", "deadline_mod": "turn"}
__all__ = list(_HOMES)


def __getattr__(name: str) -> object:  # a client needs no server, so nothing is imported unasked
    if name not in _HOMES:
        raise AttributeError(f"module 'fedcore.flower' has no attribute {name!r}")
    return getattr(import_module(f"fedcore.flower.{_HOMES[name]}"), name)
