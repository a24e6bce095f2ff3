"""Who the clients are: how fast each is, and the deadline that makes s % of them stragglers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedcore.errors import BadOption
from fedcore.seeding import stream
from fedcore.sources.clients import ClientSizes
from fedcore.types import ClientId, ClientProfile
from fedcore.values import CAPABILITIES, one_of, percentages


@dataclass(frozen=True, slots=True)
class Link:
    """Bytes per second to and from a client, and how many a model has."""

    download: float = math.inf
    upload: float = math.inf
    model_bytes: int = 0


NO_LIMIT = Link()


class Profiles(Mapping[ClientId, ClientProfile]):
    """Profiles made when asked for, from two arrays: a fleet may be large."""

    def __init__(self, sizes: ClientSizes, speeds: NDArray[np.float64], link: Link) -> None:
        """Bind sizes and capabilities, which stand in the same order, and everybody's link."""
        self._sizes = sizes
        self._speeds = speeds
        self._link = link

    def __getitem__(self, client: ClientId) -> ClientProfile:
        place = self._sizes.place(client)
        size, speed = int(self._sizes.counts[place]), float(self._speeds[place])
        return ClientProfile(size, speed, self._link.download, self._link.upload)

    def __iter__(self) -> Iterator[ClientId]:
        return iter(self._sizes)

    def __len__(self) -> int:
        return len(self._sizes)


@dataclass(frozen=True, slots=True)
class Fleet:
    """All clients of an experiment and the deadline τ of its rounds."""

    profiles: Mapping[ClientId, ClientProfile]
    deadline: float


@dataclass(frozen=True, slots=True)
class CapabilityLaw:
    """How capabilities c^i come about.

    ``normal``: c^i ~ N(1, std²), section 6.1, drawn again while below ``floor``, because a
    capability at or below zero has no meaning. The paper writes N(1, 0.25); as a variance, which
    is what the notation says, std = 0.5. ``size-linked``: c^i = 1 + std (m^i - mean m) / std m,
    the authors' code: no draw, and clients with more data are faster. ``equal``: c^i = 1.
    """

    kind: str = "normal"
    std: float = 0.5
    floor: float = 0.1

    def __post_init__(self) -> None:
        """Refuse a floor that next to no draw reaches: one in 740 is above 1 + 3 std."""
        highest = 1 + 3 * self.std
        if self.kind == "normal" and self.floor > highest:
            raise BadOption(
                f"capability_floor must be at most 1 + 3 capability_std = {highest:g}, "
                f"got {self.floor:g}; lower it"
            )


def build_fleet(
    sizes: Mapping[ClientId, int],
    *,
    law: CapabilityLaw,
    stragglers: float,
    epochs: int,
    seed: int,
    link: Link = NO_LIMIT,
) -> Fleet:
    """Give every client a capability, and set τ by the share of stragglers."""
    known = ClientSizes.of(sizes)
    profiles = Profiles(known, _capabilities(known.counts.astype(float), law, seed), link)
    return Fleet(profiles, deadline(profiles, stragglers, epochs, link.model_bytes))


def deadline(
    profiles: Mapping[ClientId, ClientProfile],
    stragglers: float,
    epochs: int,
    model_bytes: int = 0,
) -> float:
    """τ: the (100 - s)-th percentile of E·m^i / c^i, so that the slowest s % miss it.

    Sending the model is part of a client's time, where links have a limit.
    """
    percentages("stragglers", (stragglers,))
    seconds = (c.seconds(epochs * c.num_samples, model_bytes) for c in profiles.values())
    full = np.fromiter(seconds, float, len(profiles))
    return float(np.percentile(full, 100 - stragglers))


def _capabilities(sizes: NDArray[np.float64], law: CapabilityLaw, seed: int) -> NDArray[np.float64]:
    one_of(*CAPABILITIES)("capability", law.kind)
    match law.kind:
        case "normal":
            return _truncated_normal(len(sizes), law, seed)
        case "size-linked":
            spread = sizes.std()
            linked = 1 + law.std * (sizes - sizes.mean()) / (spread if spread > 0 else 1.0)
            return np.asarray(np.maximum(linked, law.floor), dtype=np.float64)
        case _:
            return np.ones(len(sizes))


def _truncated_normal(count: int, law: CapabilityLaw, seed: int) -> NDArray[np.float64]:
    generator = stream(seed, "capability")
    speeds = generator.normal(1.0, law.std, count)
    while (slow := speeds < law.floor).any():
        speeds[slow] = generator.normal(1.0, law.std, int(slow.sum()))
    return speeds
