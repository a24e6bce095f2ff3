"""Where the files of a dataset are, and whether they are the right ones.

A data directory holds one folder per dataset (``mnist/``, ``shakespeare/``, ...). Files lie there
as they are or gzipped. Directories are tried in this order: the one the user names, the one in
``$FEDCORE_DATA``, the user's cache. Nothing is parsed before its checksum is right.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import shlex
import zlib
from dataclasses import dataclass
from pathlib import Path

from fedcore.errors import BadData, DatasetUnavailable

ENVIRONMENT = "FEDCORE_DATA"


@dataclass(frozen=True, slots=True)
class Digest:
    """What identifies a file's bytes; MD5, since that is what publishers of datasets give."""

    size: int
    md5: str

    def matches(self, content: bytes) -> bool:
        """Whether ``content`` is the file that was meant."""
        return len(content) == self.size and md5(content) == self.md5


@dataclass(frozen=True, slots=True)
class DataFile:
    """One file of a dataset.

    Attributes:
        name: its name, without ``.gz``.
        raw: the file itself.
        packed: the file as its publisher gzips it; None where the publisher does not.
        urls: public origins of the packed file if there is one, else of the raw file.
    """

    name: str
    raw: Digest
    packed: Digest | None
    urls: tuple[str, ...]

    @property
    def published_name(self) -> str:
        """The name of what the origins serve."""
        return self.name if self.packed is None else f"{self.name}.gz"

    @property
    def published(self) -> Digest:
        """What the origins serve."""
        return self.raw if self.packed is None else self.packed


@dataclass(frozen=True, slots=True)
class Source:
    """The files a dataset is made from, and the folder that holds them."""

    folder: str
    files: tuple[DataFile, ...]

    def file(self, name: str) -> DataFile:
        """The file called ``name``."""
        return next(file for file in self.files if file.name == name)


def md5(content: bytes) -> str:
    """The MD5 of some bytes, in hexadecimal."""
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


def directories(data_dir: Path | None) -> list[Path]:
    """Data directories in the order in which they are searched."""
    named = [data_dir] if data_dir is not None else []
    if variable := os.environ.get(ENVIRONMENT):
        named.append(Path(variable))
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return [directory.expanduser() for directory in (*named, Path(cache) / "fedcore")]


def find(source: Source, name: str, data_dir: Path | None) -> Path | None:
    """The first place where a file lies, gzipped or not; its content is not looked at."""
    for directory in directories(data_dir):
        for spelling in (name, f"{name}.gz"):
            path = directory / source.folder / spelling
            if path.is_file():
                return path
    return None


def read(source: Source, name: str, data_dir: Path | None) -> bytes:
    """The content of a file, unpacked; only ever whole and with the right checksum."""
    path = find(source, name, data_dir)
    if path is None:
        raise DatasetUnavailable(missing(source, name, data_dir))
    return read_checked(path, source.file(name))


def read_checked(path: Path, file: DataFile) -> bytes:
    """The unpacked content of ``path``, which must be ``file``, gzipped by anybody or not."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise BadData(f"{str(path)!r} cannot be read: {error.strerror}") from None
    if path.suffix == ".gz":
        content = _unpack(path, content, file.raw.size + 1)
    if file.raw.matches(content):
        return content
    if len(content) != file.raw.size:
        found = "more" if len(content) > file.raw.size else f"{len(content):,}"
        raise _refusal(path, f"should hold {file.raw.size:,} bytes but holds {found}")
    raise _refusal(path, f"should have MD5 {file.raw.md5} but has {md5(content)}")


def _unpack(path: Path, content: bytes, most: int) -> bytes:
    """Unpack at most ``most`` bytes: no more than it takes to see that a file is too long."""
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(content)) as file:
            return file.read(most)
    except (OSError, EOFError, zlib.error):
        raise _refusal(path, "is truncated or damaged and cannot be unpacked") from None


def _refusal(path: Path, why: str) -> BadData:
    return BadData(
        f"{str(path)!r} {why}; delete it and run 'fedcore data fetch {path.parent.name}'"
    )


def missing(source: Source, name: str, data_dir: Path | None) -> str:
    """The one sentence for a file that is nowhere."""
    file = source.file(name)
    target = directories(data_dir)[0] / source.folder / file.published_name
    where = f" --data-dir {shlex.quote(str(data_dir))}" if data_dir is not None else ""
    return (
        f"{file.published_name} of {source.folder} is missing; run 'fedcore data fetch "
        f"{source.folder}{where}', or place it by hand as {str(target)!r} (it is at {file.urls[0]})"
    )
