"""FedCore on real machines: a Flower strategy and what its clients need; ``fedcore[flower]``."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fedcore.flower.strategy import FedCore as FedCore

_HOMES = {"FedCore": "strategy"}  # imported when somebody asks: a client needs no server
__all__ = list(_HOMES)


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'fedcore.flower' has no attribute {name!r}")
    return getattr(import_module(f"fedcore.flower.{_HOMES[name]}"), name)
