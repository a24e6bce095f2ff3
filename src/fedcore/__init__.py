"""Federated learning whose rounds end on time: slow clients train on coresets.

Names are imported when somebody first asks for them, so that the command runs, and can be
interrupted, before torch is imported. ``__init__.pyi`` has them for type checkers.
"""

from importlib import import_module

__version__ = "0.1.0"
_PUBLIC = {
    "coreset.api": ("coreset_for", "select_coreset"),
    "coreset.estimator": ("CoresetSelector",),
    "coreset.metric": ("Euclidean", "OuterProduct"),
    "history": ("History",),
    "report.page.jobs": ("load",),
    "server.method": ("Pace", "Sampler", "Strategy"),
    "server.state": ("ServerState",),
    "cli.advise": ("advise",),
    "sim.simulate": ("simulate",),
    "sources.clients": ("LazyClients",),
    "sources.partitions": ("partition", "partitioned"),
    "types": (
        *("SIT_OUT", "ClientData", "ClientProfile", "Coreset", "CoresetSpec", "LocalPlan"),
        *("LocalUpdate", "Phase", "Way"),
    ),
}
_HOMES = {name: home for home, names in _PUBLIC.items() for name in names}
# 'import *' needs no sklearn, and warns of nothing.
__all__ = [name for name in ("__version__", *_HOMES) if name != "CoresetSelector"]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'fedcore' has no attribute {name!r}")
    return getattr(import_module(f"fedcore.{_HOMES[name]}"), name)
