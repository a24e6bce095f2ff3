"""Federated learning whose rounds end on time: slow clients train on coresets."""

from fedcore.cli.advise import advise
from fedcore.coreset.api import coreset_for, select_coreset
from fedcore.coreset.estimator import CoresetSelector as CoresetSelector
from fedcore.coreset.metric import Euclidean, OuterProduct
from fedcore.history import History
from fedcore.report.page.jobs import load
from fedcore.server.method import Pace, Sampler, Strategy
from fedcore.server.state import ServerState
from fedcore.sim.simulate import simulate
from fedcore.sources.clients import LazyClients
from fedcore.sources.partitions import partition, partitioned
from fedcore.types import (
    SIT_OUT,
    ClientData,
    ClientProfile,
    Coreset,
    CoresetSpec,
    LocalPlan,
    LocalUpdate,
    Phase,
    Way,
)

__version__: str

__all__ = [
    "SIT_OUT",
    "ClientData",
    "ClientProfile",
    "Coreset",
    "CoresetSpec",
    "Euclidean",
    "History",
    "LazyClients",
    "LocalPlan",
    "LocalUpdate",
    "OuterProduct",
    "Pace",
    "Phase",
    "Sampler",
    "ServerState",
    "Strategy",
    "Way",
    "__version__",
    "advise",
    "coreset_for",
    "load",
    "partition",
    "partitioned",
    "select_coreset",
    "simulate",
]
