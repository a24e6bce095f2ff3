"""Fetch the files of a dataset from their public origins: resumed, checked, put in place whole."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Callable
from http import HTTPStatus
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from urllib.parse import urlsplit

from fedcore.errors import BadData, DatasetUnavailable
from fedcore.sources.files import DataFile, Source, directories, find, md5, read_checked

TIMEOUT = 30.0  # seconds without an answer
CHUNK = 1 << 16

# Called as a download goes on: (name of the file, bytes there, bytes in all).
Report = Callable[[str, int, int], None]


def fetch(source: Source, data_dir: Path | None, report: Report) -> list[tuple[Path, bool]]:
    """Make sure that every file of ``source`` is there and is the right one.

    Args:
        source: which files.
        data_dir: the user's data directory, if named; files go to the first directory of
            ``_files.directories``.
        report: told how far each download is.

    Returns:
        For every file its path, and whether it had to be downloaded.
    """
    return [_provide(source, file, data_dir, report) for file in source.files]


def _provide(
    source: Source, file: DataFile, data_dir: Path | None, report: Report
) -> tuple[Path, bool]:
    present = find(source, file.name, data_dir)
    if present is not None and _is_good(present, file):
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

    What has arrived lies in ``target``.partial, where the next attempt goes on. ``target``
    itself appears in one step, once size and checksum are right.
    """
    failures: list[str] = []
    partial = target.with_name(f"{target.name}.partial")
    # What an earlier attempt left may be the start of another file: then once more from the start.
    for url in (file.urls[0], *file.urls) if partial.exists() else file.urls:
        try:
            _receive(url, file, partial, report)
        except (urllib.error.URLError, HTTPException, TimeoutError, ConnectionError) as error:
            if (
                isinstance(error, urllib.error.HTTPError)
                and error.code == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE
            ):
                partial.unlink(missing_ok=True)
            failures.append(f"{urlsplit(url).netloc}: {getattr(error, 'reason', None) or error}")
        except BadData as error:
            partial.unlink(missing_ok=True)
            failures.append(f"{urlsplit(url).netloc}: {error}")
        else:
            partial.replace(target)
            return
    raise DatasetUnavailable(
        f"{target.name} is missing and cannot be downloaded ({failures[-1]}); get it "
        f"elsewhere from {file.urls[0]} and place it as {str(target)!r}"
    )


def _receive(url: str, file: DataFile, partial: Path, report: Report) -> None:
    """Bring ``partial`` to its full size and check it."""
    expected = file.published
    have = partial.stat().st_size if partial.exists() else 0
    if have > expected.size:
        have = 0
    if have < expected.size:
        request = urllib.request.Request(url, headers={"User-Agent": "fedcore"})
        if have:
            request.add_header("Range", f"bytes={have}-")
        with urllib.request.urlopen(request, timeout=TIMEOUT) as response:
            have = _resume_at(response, have)
            _refuse_other_size(response, have, expected.size)
            _write(response, partial, have, lambda there: report(file.name, there, expected.size))
    content = partial.read_bytes()
    if len(content) < expected.size:
        raise ConnectionError(f"it stopped after {len(content):,} of {expected.size:,} bytes")
    if not expected.matches(content):
        raise BadData(f"what it serves has MD5 {md5(content)} instead of {expected.md5}")
    report(file.name, expected.size, expected.size)


def _resume_at(response: HTTPResponse, have: int) -> int:
    """Where the answer starts: servers may ignore that only the rest was asked for."""
    given = response.headers.get("Content-Range", "")
    return have if response.status == 206 and given.startswith(f"bytes {have}-") else 0


def _refuse_other_size(response: HTTPResponse, have: int, size: int) -> None:
    """Tell by the announced length that this is another file, before it is downloaded."""
    length = response.headers.get("Content-Length", "")
    if length.isdigit() and have + int(length) != size:
        raise BadData(f"what it serves has {have + int(length):,} bytes instead of {size:,}")


def _write(
    response: HTTPResponse, partial: Path, start: int, report: Callable[[int], None]
) -> None:
    with partial.open("r+b" if start else "wb") as file:
        file.seek(start)
        there = start
        report(there)
        while chunk := _read(response):
            file.write(chunk)
            there += len(chunk)
            report(there)


def _read(response: HTTPResponse) -> bytes:
    try:
        return response.read(CHUNK)
    except OSError as error:  # of the network, not of the disk
        raise ConnectionError(str(error)) from None


def _is_good(path: Path, file: DataFile) -> bool:
    try:
        read_checked(path, file)
    except BadData:
        return False
    return True
