"""Federated learning whose rounds end on time: slow clients train on coresets."""

from fedcore.cli.advise import advise as advise
from fedcore.coreset.api import coreset_for as coreset_for
from fedcore.coreset.api import select_coreset as select_coreset
from fedcore.coreset.estimator import CoresetSelector as CoresetSelector
from fedcore.coreset.metric import Euclidean as Euclidean
from fedcore.coreset.metric import OuterProduct as OuterProduct
from fedcore.history import History as History
from fedcore.report.page.jobs import load as load
from fedcore.server.method import Pace as Pace
from fedcore.server.method import Sampler as Sampler
from fedcore.server.method import Strategy as Strategy
from fedcore.server.state import ServerState as ServerState
from fedcore.sim.simulate import simulate as simulate
from fedcore.sources.clients import LazyClients as LazyClients
from fedcore.sources.partitions import partition as partition
from fedcore.sources.partitions import partitioned as partitioned
from fedcore.types import SIT_OUT as SIT_OUT
from fedcore.types import ClientData as ClientData
from fedcore.types import ClientProfile as ClientProfile
from fedcore.types import Coreset as Coreset
from fedcore.types import CoresetSpec as CoresetSpec
from fedcore.types import LocalPlan as LocalPlan
from fedcore.types import LocalUpdate as LocalUpdate
from fedcore.types import Phase as Phase
from fedcore.types import Way as Way

__version__: str
