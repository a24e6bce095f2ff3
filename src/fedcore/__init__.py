"""Federated learning whose rounds end on time: slow clients train on coresets.

Names are imported when somebody first asks for them, so that the command runs, and can be
interrupted, before torch is imported. ``__init__.pyi`` has them, for type checkers and for us.
"""

from importlib import import_module

__version__ = "0.1.0"
# There every name has a line of its own: from MODULE import NAME as NAME.
with open(f"{__file__}i", encoding="utf-8") as _stub:
    _HOMES = {words[3]: words[1] for words in map(str.split, _stub) if words[:1] == ["from"]}
# 'import *' needs no sklearn, and warns of nothing.
__all__ = [name for name in ("__version__", *_HOMES) if name != "CoresetSelector"]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'fedcore' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
