"""Who the clients are: how fast each is, and the deadline that makes s % of them stragglers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedcore.config import Experiment
from fedcore.errors import BadOption
from fedcore.records import RunKey
from fedcore.seeding import stream
from fedcore.sources.clients import ClientSizes
from fedcore.types import ClientId, ClientProfile


class Profiles(Mapping[ClientId, ClientProfile]):
    """Profiles made when asked for, from two arrays: a fleet may be large."""

    def __init__(
        self, sizes: ClientSizes, speeds: NDArray[np.float64], download: float, upload: float
    ) -> None:
        """Bind sizes and capabilities, which stand in the same order, and everybody's link."""
        self._sizes = sizes
        self._speeds = speeds
        self._link = (download, upload)

    def __getitem__(self, client: ClientId) -> ClientProfile:
        place = self._sizes.place(client)
        size, speed = int(self._sizes.counts[place]), float(self._speeds[place])
        return ClientProfile(size, speed, *self._link)

    def __iter__(self) -> Iterator[ClientId]:
        return iter(self._sizes)

    def __len__(self) -> int:
        return len(self._sizes)


@dataclass(frozen=True, slots=True)
class Fleet:
    """All clients of an experiment and the deadline τ of its rounds."""

    profiles: Mapping[ClientId, ClientProfile]
    deadline: float


def fleet_of(
    sizes: Mapping[ClientId, int], experiment: Experiment, run: RunKey, model_bytes: int = 0
) -> Fleet:
    """Give every client a capability, the same for all strategies, and set τ by the stragglers."""
    known = ClientSizes.of(sizes)
    speeds = _capabilities(known.counts.astype(float), experiment, run.seed)
    down, up = experiment.download or math.inf, experiment.upload or math.inf
    profiles = Profiles(known, speeds, down, up)
    return Fleet(profiles, deadline(profiles, run.stragglers, experiment.epochs, model_bytes))


def deadline(
    profiles: Mapping[ClientId, ClientProfile], stragglers: float, epochs: int, model_bytes: int = 0
) -> float:
    """τ: the (100 - s)-th percentile of E·m^i / c^i + transfer, so that the slowest s % miss it."""
    seconds = (c.seconds(epochs * c.num_samples, model_bytes) for c in profiles.values())
    full = np.fromiter(seconds, float, len(profiles))
    return float(np.percentile(full, 100 - stragglers))


def _capabilities(
    sizes: NDArray[np.float64], experiment: Experiment, seed: int
) -> NDArray[np.float64]:
    """Speeds c^i by one of three laws.

    ``normal``: c^i ~ N(1, std²), section 6.1, drawn again while below the floor, because a
    capability at or below zero has no meaning. The paper writes N(1, 0.25); as a variance, which
    is what the notation says, std = 0.5. ``size-linked``: c^i = 1 + std (m^i - mean m) / std m,
    the authors' code: no draw, and clients with more data are faster. ``equal``: c^i = 1.
    """
    std, floor = experiment.capability_std, experiment.capability_floor
    if experiment.capability == "equal":
        return np.ones(len(sizes))
    if experiment.capability == "size-linked":
        spread = sizes.std()
        linked = 1 + std * (sizes - sizes.mean()) / (spread if spread > 0 else 1.0)
        return np.asarray(np.maximum(linked, floor), dtype=np.float64)
    highest = 1 + 3 * std  # next to no draw is above it: one in 740
    if floor > highest:
        raise BadOption(
            f"capability_floor must be at most 1 + 3 capability_std = {highest:g}, "
            f"got {floor:g}; lower it"
        )
    generator = stream(seed, "capability")
    speeds = generator.normal(1.0, std, len(sizes))
    while (slow := speeds < floor).any():
        speeds[slow] = generator.normal(1.0, std, int(slow.sum()))
    return speeds
