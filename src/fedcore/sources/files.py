"""Where the files of a dataset are, whether they are the right ones, and how to get them.

A data directory holds one folder per dataset, with files as they are or gzipped. Tried are the one
that the user names, ``$FEDCORE_DATA``, the user's cache. Nothing is parsed before it is checked.
"""

import gzip
import hashlib
import io
import os
import shlex
import urllib.request
import zlib
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from urllib.parse import urlsplit

from fedcore.errors import BadData, DatasetUnavailable

DataDir = Path | None  # what the user names, if anything
TIMEOUT = 30.0  # seconds without an answer


@dataclass(frozen=True, slots=True)
class DataFile:
    """One file of a dataset, with the size and MD5 that publishers give: unpacked or not."""

    name: str  # without .gz
    size: int
    md5: str
    urls: tuple[str, ...]  # public origins, of the file or of one that is gzipped
    unpacked: bool = True  # else it is an archive, to be kept as it is

    @property
    def published_name(self) -> str:
        """The name of what the origins serve."""
        return f"{self.name}.gz" if self.urls[0].endswith(".gz") and self.unpacked else self.name

    def check(self, content: bytes, *, packed: bool) -> bytes:
        """The unpacked ``content``, gzipped by anybody or not; a ValueError if it is not this."""
        if packed and self.unpacked:
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

    def target(self, file: DataFile, data_dir: DataDir) -> Path:
        """Where a file is put."""
        return directories(data_dir)[0] / self.folder / file.published_name

    def find(self, file: DataFile, data_dir: DataDir) -> Path | None:
        """The first place where a file lies, gzipped or not; its content is not looked at."""
        folders, names = directories(data_dir), (file.name, f"{file.name}.gz")
        paths = (folder / self.folder / name for folder in folders for name in names)
        return next(filter(Path.is_file, paths), None)


def directories(data_dir: DataDir) -> list[Path]:
    """Data directories in the order in which they are searched."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fedcore"
    every = data_dir, os.environ.get("FEDCORE_DATA"), cache
    return [Path(directory).expanduser() for directory in every if directory]


def read(source: Source, name: str, data_dir: DataDir) -> bytes:
    """The content of a file, unpacked; only ever whole and with the right checksum."""
    file = next(file for file in source.files if file.name == name)
    path = source.find(file, data_dir)
    if path is not None:
        return read_checked(path, file)
    where = f" --data-dir {shlex.quote(str(data_dir))}" if data_dir is not None else ""
    target = str(source.target(file, data_dir))
    by_hand = f"place it by hand as {target!r} (it is at {file.urls[0]})"
    run = f"run 'fedcore data fetch {source.folder}{where}', or {by_hand}"
    raise DatasetUnavailable(f"{file.published_name} of {source.folder} is missing; {run}")


def read_checked(path: Path, file: DataFile) -> bytes:
    """The unpacked content of ``path``, which must be ``file``."""
    try:
        return file.check(path.read_bytes(), packed=path.suffix == ".gz")
    except OSError as error:
        raise BadData(f"{str(path)!r} cannot be read: {error.strerror}") from None
    except ValueError as why:
        again = f"delete it and run 'fedcore data fetch {path.parent.name}'"
        raise BadData(f"{str(path)!r} {why}; {again}") from None


def fetch(source: Source, file: DataFile, data_dir: DataDir) -> tuple[Path, bool]:
    """The path of a file that is there and right, and whether it had to be downloaded."""
    present = source.find(file, data_dir)
    if present is not None:
        with suppress(BadData):
            read_checked(present, file)
            return present, False
    target = source.target(file, data_dir)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        download(file, target)
    except OSError as error:
        raise DatasetUnavailable(f"{str(target)!r} cannot be written: {error.strerror}") from None
    if present is not None and present != target and present.parent == target.parent:
        present.unlink()  # a damaged twin, gzipped or not, that would be found first
    return target, True


def download(file: DataFile, target: Path) -> None:
    """Put ``file`` at ``target`` in one step, from the first origin that serves what is right."""
    failure = ""
    for url in file.urls:
        try:
            request = urllib.request.Request(url, headers={"User-Agent": "fedcore"})
            with urllib.request.urlopen(request, timeout=TIMEOUT) as response:
                content = response.read(file.size + 65_536)  # gzipped, it may be longer
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
    what = f"{target.name} is missing and cannot be downloaded ({failure})"
    instead = f"get it elsewhere from {file.urls[0]} and place it as {str(target)!r}"
    raise DatasetUnavailable(f"{what}; {instead}")
