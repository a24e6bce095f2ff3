"""Fetch the files of a dataset from their public origins: checked, and put in place whole."""

from __future__ import annotations

import urllib.request
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path
from urllib.parse import urlsplit

from fedcore.errors import BadData, DatasetUnavailable
from fedcore.sources.files import DataFile, Source, directories, find, read_checked

TIMEOUT = 30.0  # seconds without an answer
CHUNK = 1 << 16

# Called as a download goes on: (name of the file, bytes there, bytes in all).
Report = Callable[[str, int, int], None]


def fetch(source: Source, data_dir: Path | None, report: Report) -> list[tuple[Path, bool]]:
    """Make sure that every file of ``source`` is there and is the right one.

    Args:
        source: which files.
        data_dir: the user's data directory, if named; files go to the first of ``directories``.
        report: told how far each download is.

    Returns:
        For every file its path, and whether it had to be downloaded.
    """
    return [_provide(source, file, data_dir, report) for file in source.files]


def _provide(
    source: Source, file: DataFile, data_dir: Path | None, report: Report
) -> tuple[Path, bool]:
    present = find(source, file.name, data_dir)
    if present is not None:
        try:
            read_checked(present, file)
        except BadData:
            pass
        else:
            return present, False
    target = directories(data_dir)[0] / source.folder / file.published_name
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        download(file, target, report)
    except OSError as error:
        raise DatasetUnavailable(f"{str(target)!r} cannot be written: {error.strerror}") from None
    if present is not None and present != target and present.parent == target.parent:
        present.unlink()  # a damaged twin, gzipped or not, that would be found first
    return target, True


def download(file: DataFile, target: Path, report: Report) -> None:
    """Download ``file`` to ``target`` from the first origin that serves it.

    ``target`` appears in one step, once size and checksum are right.
    """
    failure = ""
    for url in file.urls:
        try:
            content = _receive(url, file, report)
            file.check(content, packed=target.suffix == ".gz")
        # An OSError here is one of the network, such as a time limit: nothing is written yet.
        except (OSError, HTTPException) as error:
            failure = f"{urlsplit(url).netloc}: {getattr(error, 'reason', None) or error}"
        except ValueError as why:
            failure = f"{urlsplit(url).netloc}: what it serves {why}"
        else:
            partial = target.with_name(f"{target.name}.partial")
            partial.write_bytes(content)
            partial.replace(target)
            return
    raise DatasetUnavailable(
        f"{target.name} is missing and cannot be downloaded ({failure}); get it "
        f"elsewhere from {file.urls[0]} and place it as {str(target)!r}"
    )


def _receive(url: str, file: DataFile, report: Report) -> bytes:
    """What ``url`` serves, unless it is far too long: tens of megabytes, held in memory."""
    request = urllib.request.Request(url, headers={"User-Agent": "fedcore"})
    content = bytearray()
    with urllib.request.urlopen(request, timeout=TIMEOUT) as response:
        total = int(response.headers.get("Content-Length") or file.size)
        report(file.name, 0, total)
        while (chunk := response.read(CHUNK)) and len(content) <= file.size:
            content += chunk
            report(file.name, len(content), total)
    return bytes(content)
