"""Who the clients are: how fast each is, and the deadline that makes s % of them stragglers."""

import csv
import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedcore.compression import upward_share
from fedcore.config import Experiment
from fedcore.errors import BadOption
from fedcore.seeding import stream
from fedcore.server.clock import Presence
from fedcore.server.method import full_seconds
from fedcore.sources.clients import ByClient, ClientSizes
from fedcore.types import ClientId, ClientProfile
from fedcore.values import read_number

Floats = NDArray[np.float64]
Speeds = tuple[Floats, list[Floats]]  # c^i, then both links
Known = Mapping[ClientId, ClientProfile]
Sizes = Mapping[ClientId, int]

# Of a file: links may be left out, and samples where there is data to count.
COLUMNS = ["client", "samples_per_second", "download", "upload", "samples"]
TRAINING = 3.0  # what a trained sample costs, in samples that only pass forward


class Profiles(ByClient[ClientProfile]):
    """Profiles made when asked for, from arrays: a fleet may be large."""

    def __init__(self, sizes: ClientSizes, *known: Floats) -> None:  # speed, download, upload
        self.ids, self._sizes, self._known = sizes.ids, sizes, np.stack(known, axis=1)

    def __getitem__(self, client: ClientId) -> ClientProfile:
        place = self._sizes.place(client)
        return ClientProfile(int(self._sizes.counts[place]), *self._known[place].tolist())


@dataclass(frozen=True, slots=True)
class Fleet:
    """All clients of an experiment and the deadline τ of its rounds."""

    profiles: Known
    deadline: float
    stragglers: float  # percentage of clients that cannot do E epochs on everything by then
    presence: Presence | None = None  # where clients come and go
    slow: frozenset[ClientId] = frozenset()  # who the stragglers are


def fleet_of(
    sizes: Sizes, experiment: Experiment, stragglers: float, seed: int, model_bytes: int = 0
) -> Fleet:
    """Give every client a capability, the same for all strategies; τ as given or by stragglers."""
    known = ClientSizes.of(sizes)
    speeds, links = _capabilities(known, experiment, seed)
    given = (experiment.download, experiment.upload)  # which hold for everybody
    links = [np.full_like(own, one) if one else own for own, one in zip(links, given, strict=True)]
    links[1] = links[1] / upward_share(experiment.compress, model_bytes)  # in models a second
    profiles = Profiles(known, speeds, *links)
    full = full_seconds(profiles, experiment.epochs, model_bytes)
    seconds = experiment.seconds or deadline(full, stragglers)
    on, off = experiment.mean_on * seconds, experiment.mean_off * seconds
    presence = Presence(known, on, off, seed) if off else None
    slow = frozenset(known.ids[place] for place in np.flatnonzero(full > seconds).tolist())
    return Fleet(profiles, seconds, 100 * len(slow) / len(full), presence, slow)


def deadline(full: Floats, stragglers: float) -> float:
    """τ: the (100 - s)-th percentile of whole rounds, so that the slowest s % miss it."""
    return float(np.percentile(full, 100 - stragglers))


def _capabilities(sizes: ClientSizes, experiment: Experiment, seed: int) -> Speeds:
    """Speeds c^i and both links, out of a file or by one of four laws.

    ``normal``: c^i ~ N(1, std²), section 6.1, drawn again while below the floor; the paper's
    N(1, 0.25) is std = 0.5. ``phones``: docs/fleets.md. ``size-linked``, the authors' code:
    c^i = 1 + std (m^i - mean m) / std m, so who has more data is faster. ``equal``: c^i = 1.
    """
    counts = sizes.counts.astype(float)
    std, floor = experiment.capability_std, experiment.capability_floor
    speeds, links = np.ones(len(sizes)), [np.full(len(sizes), np.inf)] * 2
    generator = stream(seed, "capability")
    if experiment.speeds is not None:
        return read_speeds(experiment.speeds, sizes)
    if experiment.capability == "size-linked":
        speeds = np.maximum(1 + std * (counts - counts.mean()) / (counts.std() or 1.0), floor)
    elif experiment.capability == "normal":
        highest = 1 + 3 * std  # next to no draw is above it: one in 740
        if floor > highest:
            most = f"1 + 3 capability_std = {highest:g}"
            raise BadOption(f"capability_floor must be at most {most}, got {floor:g}; lower it")
        speeds = generator.normal(1.0, std, len(sizes))
        while (slow := speeds < floor).any():
            speeds[slow] = generator.normal(1.0, std, int(slow.sum()))
    elif experiment.capability == "phones":
        text = (files("fedcore.sim") / "phones.csv").read_text("utf-8")
        percentiles, *rows = np.loadtxt(text.splitlines(), delimiter=",", usecols=range(1, 102))
        shares = 100 * generator.random((2, len(sizes)))  # which phone, of 100, by either
        drawn = (np.interp(u, percentiles, row) for u, row in zip(shares, rows, strict=True))
        milliseconds, kilobits = drawn  # per sample, and a second
        speeds, links = 1000 / (TRAINING * milliseconds), [125 * kilobits] * 2
    if rho := experiment.speed_size_correlation:
        speeds = np.sort(speeds)[_ranks(counts, rho, stream(seed, "speed and size"))]
    return speeds, links


def _ranks(sizes: Floats, rho: float, generator: np.random.Generator) -> NDArray[np.int64]:
    """Rank of each client's speed, by a Gaussian copula: normals z with corr(z_size, z_speed) = ρ.

    z_speed = ρ z_size + √(1 - ρ²) ε, where z_size are normal draws in the order of the sizes.
    """
    ordered, noise = np.sort(generator.normal(size=len(sizes))), generator.normal(size=len(sizes))
    by_size = np.empty_like(ordered)
    by_size[np.lexsort((noise, sizes))] = ordered  # equal sizes in any order
    return np.argsort(np.argsort(rho * by_size + np.sqrt(1 - rho**2) * noise))


def read_speeds(path: str, sizes: ClientSizes) -> Speeds:
    """Speeds and both links of every client."""
    known = read_fleet(path, sizes)
    if missing := [client for client in sizes if client not in known]:
        raise BadOption(f"speeds {path!r} has no line for client {missing[0]}; add one")
    speeds, *links, _ = np.array([known[client] for client in sizes]).T
    return speeds, links


def read_fleet(path: str, among: Collection[ClientId] = ()) -> dict[ClientId, list[float]]:
    """Speed, download and upload in bytes per second, samples; empty links have no limit."""
    try:
        lines = list(csv.reader(Path(path).expanduser().read_text("utf-8-sig").splitlines()))
    except (OSError, ValueError, csv.Error) as error:
        raise BadOption(f"speeds {path!r} cannot be read: {error}") from None
    header = [name.strip() for name in lines[0]] if lines else []
    if header not in (COLUMNS, COLUMNS[:4], COLUMNS[:2]):
        found = ",".join(header) or "nothing"
        raise BadOption(f"speeds {path!r} must begin with {','.join(COLUMNS[:4])}, got {found}")
    known: dict[int, list[float]] = {}
    for number, line in enumerate(lines[1:], 2):
        where = f"line {number} of speeds {path!r}"
        if len(line) != len(header):
            raise BadOption(f"{where} must have {len(header)} fields, got {len(line)}")
        try:
            client = read_number(line[0].strip(), int)
            values = [read_number(cell.strip() or "inf", float) for cell in line[1:]]
        except ValueError as error:
            raise BadOption(f"{where} must hold numbers: {error}") from None
        if not (values[0] < math.inf and all(value > 0 for value in values)):
            raise BadOption(f"{where} must hold numbers above 0, got {','.join(line)}")
        if client in known or (among and client not in among):
            why = "stands there twice" if client in known else "is not in the data"
            raise BadOption(f"{where} names client {client}, who {why}; delete the line")
        known[client] = [*values, *[math.inf] * 3][:4]
    return known
