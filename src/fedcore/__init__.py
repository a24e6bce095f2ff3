"""Federated learning whose rounds end on time: slow clients train on coresets."""

from fedcore.version import __version__

__all__ = ["__version__"]
