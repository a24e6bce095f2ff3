"""Fetch the files of a dataset from their public origins: checked, and put in place whole."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator
from http.client import HTTPException
from pathlib import Path
from urllib.parse import urlsplit

from fedcore.errors import BadData, DatasetUnavailable
from fedcore.sources.files import DataFile, Source, directories, find, read_checked

TIMEOUT = 30.0  # seconds without an answer
SLACK = 1 << 16  # bytes by which a file may be longer gzipped than not


def fetch(source: Source, data_dir: Path | None) -> Iterator[tuple[Path, bool]]:
    """Make sure that every file of ``source`` is there and is the right one.

    Args:
        source: which files.
        data_dir: the user's data directory, if named; files go to the first of ``directories``.

    Yields:
        For every file its path, and whether it had to be downloaded.
    """
    return (_provide(source, file, data_dir) for file in source.files)


def _provide(source: Source, file: DataFile, data_dir: Path | None) -> tuple[Path, bool]:
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
        download(file, target)
    except OSError as error:
        raise DatasetUnavailable(f"{str(target)!r} cannot be written: {error.strerror}") from None
    if present is not None and present != target and present.parent == target.parent:
        present.unlink()  # a damaged twin, gzipped or not, that would be found first
    return target, True


def download(file: DataFile, target: Path) -> None:
    """Download ``file`` to ``target`` from the first origin that serves it.

    ``target`` appears in one step, once size and checksum are right.
    """
    failure = ""
    for url in file.urls:
        try:
            request = urllib.request.Request(url, headers={"User-Agent": "fedcore"})
            with urllib.request.urlopen(request, timeout=TIMEOUT) as response:
                content = response.read(file.size + SLACK)  # tens of megabytes, held in memory
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
