import gzip
import hashlib
from pathlib import Path

import pytest

from fedcore.errors import BadData, DatasetUnavailable
from fedcore.sources import files as _files
from fedcore.sources.files import DataFile, Source

CONTENT = b"to be, or not to be\n" * 40
FILE = DataFile("text", len(CONTENT), hashlib.md5(CONTENT).hexdigest(), ("http://origin/text",))
SOURCE = Source("plays", (FILE,))


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "plays"
    folder.mkdir()
    return folder


def test_directories_are_searched_in_the_documented_order(monkeypatch):
    monkeypatch.setenv("FEDCORE_DATA", "/from/environment")
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    found = _files.directories(Path("/named"))
    assert found == [Path("/named"), Path("/from/environment"), Path("/cache/fedcore")]


def test_without_settings_the_cache_in_the_home_folder_is_searched(monkeypatch):
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/somebody")
    assert _files.directories(None) == [Path("/home/somebody/.cache/fedcore")]


def test_the_environment_is_searched_after_the_named_directory(tmp_path, folder, monkeypatch):
    (folder / "text").write_bytes(CONTENT)
    monkeypatch.setenv("FEDCORE_DATA", str(tmp_path))
    assert SOURCE.find(FILE, tmp_path / "empty") == folder / "text"


@pytest.mark.parametrize("level", [1, 9])
def test_a_file_is_read_as_it_is_or_gzipped_by_anybody(tmp_path, folder, level):
    (folder / "text.gz").write_bytes(gzip.compress(CONTENT, level))
    assert _files.read(SOURCE, "text", tmp_path) == CONTENT
    (folder / "text.gz").unlink()
    (folder / "text").write_bytes(CONTENT)
    assert _files.read(SOURCE, "text", tmp_path) == CONTENT


def test_a_missing_file_says_what_where_and_how(tmp_path):
    with pytest.raises(DatasetUnavailable) as refused:
        _files.read(SOURCE, "text", tmp_path)
    for part in ("text of plays is missing", "fedcore data fetch plays", "http://origin/text"):
        assert part in str(refused.value)
    assert str(tmp_path / "plays" / "text") in str(refused.value)


def test_a_missing_gzipped_file_is_named_as_published(tmp_path):
    packed = DataFile("text", FILE.size, FILE.md5, ("http://origin/text.gz",))
    with pytest.raises(DatasetUnavailable, match=r"text\.gz of plays is missing"):
        _files.read(Source("plays", (packed,)), "text", tmp_path)


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("text", CONTENT[:-1], r"should hold 800 bytes but holds 799"),
        ("text", CONTENT + b"!", r"should hold 800 bytes but holds more"),
        ("text", CONTENT[:-2] + b"!\n", r"should have MD5 \w+ but has \w+"),
        ("text.gz", gzip.compress(CONTENT, mtime=0)[:-9], "truncated or damaged"),
        ("text.gz", b"<html>not found</html>", "truncated or damaged"),
        ("text.gz", gzip.compress(CONTENT[:-2] + b"!\n", mtime=0), "should have MD5"),
        ("text.gz", gzip.compress(b"0" * 10**6, mtime=0), "holds more"),
        ("text", b"", "holds 0"),
    ],
)
def test_a_damaged_file_is_refused_by_name(tmp_path, folder, name, content, why):
    (folder / name).write_bytes(content)
    with pytest.raises(BadData, match=why) as refused:
        _files.read(SOURCE, "text", tmp_path)
    assert str(folder / name) in str(refused.value)
    assert "fedcore data fetch plays" in str(refused.value)


def test_damage_anywhere_in_a_gzipped_file_is_seen(tmp_path, folder):
    packed = bytearray(gzip.compress(CONTENT, mtime=0))
    packed[len(packed) // 2] ^= 0xFF
    (folder / "text.gz").write_bytes(bytes(packed))
    with pytest.raises(BadData, match=r"text\.gz"):
        _files.read(SOURCE, "text", tmp_path)


def test_a_file_that_cannot_be_opened_is_refused(tmp_path, folder):
    with pytest.raises(BadData, match="cannot be read"):
        _files.read_checked(folder, FILE)
