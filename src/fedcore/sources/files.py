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
class DataFile:
    """One file of a dataset.

    Attributes:
        name: its name, without ``.gz``.
        size: bytes of it, unpacked.
        md5: of the same; not a safer sum, since this is what publishers of datasets give.
        urls: public origins, of the file or of one that is gzipped.
    """

    name: str
    size: int
    md5: str
    urls: tuple[str, ...]

    @property
    def published_name(self) -> str:
        """The name of what the origins serve."""
        return f"{self.name}.gz" if self.urls[0].endswith(".gz") else self.name

    def check(self, content: bytes, *, packed: bool) -> bytes:
        """The unpacked ``content``, gzipped by anybody or not, if it is this file.

        Raises:
            ValueError: If it is not; the message says why.
        """
        if packed:
            try:
                with gzip.GzipFile(fileobj=io.BytesIO(content)) as file:
                    content = file.read(self.size + 1)  # enough to see that it is too long
            except (OSError, EOFError, zlib.error):
                raise ValueError("is truncated or damaged and cannot be unpacked") from None
        if len(content) != self.size:
            found = "more" if len(content) > self.size else f"{len(content):,}"
            raise ValueError(f"should hold {self.size:,} bytes but holds {found}")
        if (found := hashlib.md5(content, usedforsecurity=False).hexdigest()) != self.md5:
            raise ValueError(f"should have MD5 {self.md5} but has {found}")
        return content


@dataclass(frozen=True, slots=True)
class Source:
    """The files a dataset is made from, and the folder that holds them."""

    folder: str
    files: tuple[DataFile, ...]

    def file(self, name: str) -> DataFile:
        """The file called ``name``."""
        return next(file for file in self.files if file.name == name)


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
    """The unpacked content of ``path``, which must be ``file``."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise BadData(f"{str(path)!r} cannot be read: {error.strerror}") from None
    try:
        return file.check(content, packed=path.suffix == ".gz")
    except ValueError as why:
        raise BadData(
            f"{str(path)!r} {why}; delete it and run 'fedcore data fetch {path.parent.name}'"
        ) from None


def missing(source: Source, name: str, data_dir: Path | None) -> str:
    """The one sentence for a file that is nowhere."""
    file = source.file(name)
    target = directories(data_dir)[0] / source.folder / file.published_name
    where = f" --data-dir {shlex.quote(str(data_dir))}" if data_dir is not None else ""
    return (
        f"{file.published_name} of {source.folder} is missing; run 'fedcore data fetch "
        f"{source.folder}{where}', or place it by hand as {str(target)!r} (it is at {file.urls[0]})"
    )
