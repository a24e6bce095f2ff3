"""The nouns of the package; this module imports nothing of ours.

Symbols of the paper (section 3.1) and the words that stand for them here:

=========  =======================================================================
m^i        ``ClientProfile.num_samples``
c^i        ``ClientProfile.capability``, samples processed per second
τ          ``deadline``, seconds a round may last
E          ``epochs`` of local training a round asks for
b^i        ``CoresetSpec.budget``, the largest coreset that meets the deadline
S^i, δ^i   ``Coreset.indices``, ``Coreset.weights``
w          ``Params``
=========  =======================================================================
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from operator import length_hint
from typing import Any, Generic, Protocol

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset, Subset, WeightedRandomSampler
from typing_extensions import TypeVar

ClientId = int
Params = Mapping[str, Tensor]
Generator = np.random.Generator
Values = TypeVar("Values", default=Tensor)


class Weighting(StrEnum):
    """How coreset weights δ enter a mini-batch (docs/adr/0005-weights-in-a-batch.md)."""

    SCALED = "scaled"  # (b/m) δ_j / |B|: the expected step is the full-set step
    NORMALISED = "normalised"  # δ_j / Σ_B δ: what the authors' code does; biased
    PROPORTIONAL = "proportional"  # draw j with probability δ_j / m, plain mean


class Way(StrEnum):
    """Which way a client went through a round, as ``rounds.jsonl`` names it."""

    FULL = "full"  # E epochs on everything
    PARTIAL = "partial"  # fewer epochs, on everything
    CORESET = "coreset"  # one epoch on everything, the rest on a coreset
    STATIC_CORESET = "static-coreset"  # only a coreset, by inputs: not even one full pass fits
    FORWARD_CORESET = "forward-coreset"  # a forward pass on everything, then only a coreset
    RANDOM_SUBSET = "random-subset"  # what fits of one epoch: not even a forward pass would
    SAT_OUT = "sat-out"  # no work at all


@dataclass(frozen=True, slots=True)
class ClientProfile:
    """What the server knows of a client: how much data, how fast, over which link."""

    num_samples: int
    capability: float
    download: float = math.inf  # bytes per second
    upload: float = math.inf

    def transfer_seconds(self, model_bytes: int, sent_bytes: int | None = None) -> float:
        """Time to fetch a model and to send it back, or so many bytes of it."""
        back = model_bytes if sent_bytes is None else sent_bytes
        return model_bytes / self.download + back / self.upload

    def seconds(self, work: int, model_bytes: int = 0, sent_bytes: int | None = None) -> float:
        """Download, work / c^i (section 3.1), upload; who has no work to do fetches nothing."""
        transfer = self.transfer_seconds(model_bytes, sent_bytes) if work else 0.0
        return work / self.capability + transfer


@dataclass(frozen=True, slots=True)
class CoresetSpec:
    """What coreset to build; never which samples, since only the client may know those."""

    budget: int
    selector: str
    proxy: str
    weighting: Weighting = Weighting.SCALED
    price: float = 0.0  # of choosing it, in trained samples per sample it is chosen from
    options: tuple[tuple[str, Any], ...] = ()  # of the selector's own, by name


@dataclass(frozen=True, slots=True)
class Phase:
    """Some epochs on one set of samples."""

    epochs: int
    coreset: CoresetSpec | None = None  # None: on all of them
    forward_price: float | None = None  # only forward, each at that share of a trained one (4.4b)

    def trained(self, num_samples: int) -> int:
        """Samples that take part in its steps, on a client that holds ``num_samples``."""
        chosen = num_samples if self.coreset is None else self.coreset.budget
        return 0 if self.forward_price is not None else self.epochs * min(chosen, num_samples)

    def work(self, num_samples: int) -> int:
        """Samples that it costs: those, and what looking or choosing is priced at."""
        price = self.forward_price or (self.coreset.price if self.coreset else 0.0)
        return self.trained(num_samples) + math.ceil(price * num_samples)


@dataclass(frozen=True, slots=True)
class LocalPlan:
    """All a server tells a client to do in a round; no phases means: sit this one out."""

    phases: tuple[Phase, ...]
    path: Way
    prox_mu: float = 0.0
    step_scale: float = 1.0  # the loss of every step is multiplied by it
    trained_share: float = 1.0  # of the model's parameters: ``task.trained_names``

    def trained(self, num_samples: int) -> int:
        """Samples that take part in steps under this plan; those only looked at do not count."""
        return sum(phase.trained(num_samples) for phase in self.phases)

    def work(self, num_samples: int) -> int:
        """Samples processed under this plan, a share of the model's price each: what is charged."""
        return math.ceil(self.trained_share * sum(p.work(num_samples) for p in self.phases))


SIT_OUT = LocalPlan(phases=(), path=Way.SAT_OUT)


@dataclass(frozen=True, slots=True)
class Coreset(Generic[Values]):
    """A weighted subset of n samples, as tensors, or as NumPy arrays for who came with them."""

    indices: Values  # [b] sorted and unique
    weights: Values  # [b] positive, Σ = n
    objective: float | None = None  # Σ_j min_k d_jk of Eq. 5, where samples are assigned
    gradient_error: float | None = None  # ||Σ_j g_j - Σ_k δ_k g_k|| / ||Σ_j g_j||: ε, relative
    assignment: Values | None = None  # [n] position in ``indices`` of who stands for each
    fell_back: bool = False  # the selector failed, and a plain draw took the place of its choice
    sums_in_the_mean: bool = False  # over draws alone

    def subset(self, dataset: Dataset[Any]) -> Subset[Any]:
        """The chosen samples of a dataset; sample k of it weighs ``weights[k]``."""
        chosen = torch.as_tensor(self.indices).tolist()
        if length_hint(dataset) <= max(chosen):
            got = f"a {type(dataset).__name__} of {length_hint(dataset)}"
            raise ValueError(f"dataset must be what the coreset was chosen from, got {got} samples")
        return Subset(dataset, chosen)

    def sampler(self, num_samples: int | None = None, *, seed: int = 0) -> WeightedRandomSampler:
        """For a DataLoader of the *whole* dataset: draws with E[g] = Σ_k δ_k g_k / Σ_k δ_k."""
        chosen, weights = (torch.as_tensor(own).cpu() for own in (self.indices, self.weights))
        count = len(chosen) if num_samples is None else num_samples
        for name, own, least in (("num_samples", count, 1), ("seed", seed, 0)):
            if not (type(own) in (int, np.int64) and least <= own < 2**63):
                raise ValueError(f"{name} must be a whole number of at least {least}, got {own!r}")
        every = torch.zeros(int(chosen.max()) + 1, dtype=weights.dtype).scatter(0, chosen, weights)
        draws = torch.Generator().manual_seed(int(seed))
        return WeightedRandomSampler(every.tolist(), int(count), generator=draws)


@dataclass(frozen=True, slots=True)
class ClientData:
    """One client's samples: inputs ``x`` and labels or other targets ``y``, a row each.

    With ``rows`` [m], sample j is ``x[rows[j]]``, ``y[rows[j]]``, and ``x`` may be a view that is
    large if written out, such as all windows of a text. ``take`` and ``labels`` know about both.
    """

    x: Any  # a tensor, or a Bundle of several
    y: Tensor
    rows: Tensor | None = None

    def __len__(self) -> int:
        return len(self.y if self.rows is None else self.rows)

    @property
    def labels(self) -> Tensor:
        """Labels of all samples [m]."""
        return self.y if self.rows is None else self.y[self.rows]

    def take(self, index: Tensor | slice) -> tuple[Any, Tensor]:
        """Inputs and labels of some samples; a slice of samples without ``rows`` is a view."""
        chosen = index if self.rows is None else self.rows[index]
        return self.x[chosen], self.y[chosen]

    def to(self, device: torch.device) -> "ClientData":
        """The same samples on another device; there, each is written out."""
        if self.y.device == device:
            return self
        x, y = self.take(slice(None))
        return ClientData(x.to(device), y.to(device))


@dataclass(frozen=True, slots=True)
class FederatedDataset:
    """Training data per client, and held-out data that no client trains on."""

    clients: Mapping[ClientId, ClientData]
    test: ClientData | None
    num_classes: int
    sizes: Sequence[int] = ()  # samples per client with its test samples, where they are known


@dataclass(frozen=True, slots=True)
class TrainingSettings:
    """How a local step is taken: η, clip, λ and opt of the rule in ``client/step.py``."""

    learning_rate: float
    batch_size: int
    measure_full_gradient: bool = False  # compare coreset and full-set gradients of the model
    schedule: Callable[[int], float] | None = None  # version -> factor of η (``rates``)
    momentum: float = 0.0
    adam: bool = False
    weight_decay: float = 0.0
    clip_norm: float = 0.0  # 0: gradients of any length

    @property
    def plain(self) -> bool:
        """Whether d = s g + μ (w - anchor) + shift and opt(d) = d."""
        return not (self.momentum or self.adam or self.weight_decay or self.clip_norm)

    def learning_rate_at(self, version: int) -> float:
        """η of every job that starts from a version, for clients and for strategies."""
        return self.learning_rate * (1.0 if self.schedule is None else self.schedule(version))


@dataclass(frozen=True, slots=True)
class Assignment:
    """What one client is asked to do: all that crosses the network beside the model."""

    client_id: ClientId
    plan: LocalPlan
    base_version: int  # of the model it starts from: how many merges made it
    seed: int
    repeat: int = 0  # how often this client started from that version before
    shift: Params | None = None  # a vector that is added to every gradient of the job

    def path(self, *purpose: str | int) -> tuple[str | int, ...]:
        """The name of a random stream of this job: (purpose, base version + 1, client, ...)."""
        kind, *rest = purpose
        again = ("again", self.repeat) if self.repeat else ()
        return (kind, self.base_version + 1, self.client_id, *rest, *again)


@dataclass(frozen=True, slots=True)
class LocalUpdate:
    """What one client answers; holds no data, labels or sample indices."""

    client_id: ClientId
    params: Params
    num_samples: int
    copies: int = 1  # how often the cohort drew this client (selection with replacement)
    base_version: int = 0  # of the model that training started from
    steps: int = 0
    loss_sum: float = 0.0  # Σ_j L_j of every sample, at the first step that met it
    loss_square_sum: float = 0.0  # Σ_j L_j²
    loss_count: int = 0  # how many samples the two sums are over
    seconds: float | None = None  # that the job took; None: the clock computes them
    payload: Params | None = None  # what a method of one's own sends beside the parameters
    fell_back: bool = False  # its selector failed, and a plain draw took the place of the choice
    coreset_size: int | None = None
    gradient_error: float | None = None  # of its coreset, in proxy space
    full_gradient_error: float | None = None  # the same on the whole model, where asked for
    path: Way | None = None  # what it did, where that need not be what it was told
    work: int | None = None  # likewise, in samples


@dataclass(slots=True)
class SelectionTime:
    """Seconds of real time that choosing coresets took, summed over rounds."""

    work: float = 0.0  # of all cores
    waited: float = 0.0  # that a client's training stood still


class Executor(Protocol):
    """Runs assignments; data is bound at construction, since a real server never has it."""

    memory: dict[ClientId, Tensor]  # what clients keep of their samples from job to job

    @property
    def selection(self) -> SelectionTime:
        """What choosing coresets took so far."""

    def expect(self, assignments: Sequence[Assignment]) -> None:
        """Prepare for what a later round will ask; it changes the time, never an answer."""

    def run(self, params: Params, assignments: Sequence[Assignment]) -> list[LocalUpdate]:
        """Train each from ``params``, and answer in order, on its device; no client comes twice."""

    def close(self) -> None:
        """Drop what has not begun, and wait for nothing; no more is asked after this."""
