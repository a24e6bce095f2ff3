"""A fleet of the user's own: speeds and links of clients in a CSV file."""

import csv
import math
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedcore.errors import BadOption
from fedcore.sources.clients import ClientSizes
from fedcore.values import read_number

COLUMNS = ["client", "samples_per_second", "download", "upload"]  # the last two may be left out


def read_speeds(
    path: str, sizes: ClientSizes
) -> tuple[NDArray[np.float64], list[NDArray[np.float64]]]:
    """Speeds, and download and upload in bytes per second, of every client; empty: no limit."""
    try:
        lines = list(csv.reader(Path(path).expanduser().read_text("utf-8").splitlines()))
    except (OSError, ValueError, csv.Error) as error:
        raise BadOption(f"speeds {path!r} cannot be read: {error}") from None
    header = [name.strip() for name in lines[0]] if lines else []
    if header not in (COLUMNS, COLUMNS[:2]):
        found = ",".join(header) or "nothing"
        raise BadOption(f"speeds {path!r} must begin with {','.join(COLUMNS)}, got {found}")
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
        if client in known or client not in sizes:
            why = "stands there twice" if client in known else "is not in the data"
            raise BadOption(f"{where} names client {client}, who {why}; delete the line")
        known[client] = [*values, math.inf, math.inf][:3]
    if missing := [client for client in sizes if client not in known]:
        raise BadOption(f"speeds {path!r} has no line for client {missing[0]}; add one")
    speeds, *links = np.array([known[client] for client in sizes]).T
    return speeds, links
