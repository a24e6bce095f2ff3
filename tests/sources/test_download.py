import gzip
import hashlib
import threading
import urllib.error
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from fedcore.errors import DatasetUnavailable
from fedcore.sources import files as _files
from fedcore.sources.files import DataFile, Source

CONTENT = bytes(range(256)) * 1000


def fetched(source, data_dir):
    return (_files.fetch(source, file, data_dir) for file in source.files)


def made(*urls: str) -> DataFile:
    return DataFile("text", len(CONTENT), hashlib.md5(CONTENT).hexdigest(), urls)


class Origin(ThreadingHTTPServer):
    """Serves files from memory; notes what was asked for; misbehaves on request."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, bytes] = {}
        self.asked = 0
        self.stop_after: int | None = None  # bytes, then the connection is cut

    def url(self, name: str) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/{name}"


class Handler(BaseHTTPRequestHandler):
    server: Origin

    def do_GET(self):
        self.server.asked += 1
        content = self.server.files.get(self.path[1:])
        if content is None:
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[: self.server.stop_after])

    def log_message(self, *_):
        pass


@pytest.fixture
def origin():
    server = Origin()
    server.files["text"] = CONTENT
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join(5)


@pytest.fixture
def file(origin):
    return made(origin.url("text"))


def test_a_file_is_fetched_whole_and_nothing_else_is_left(file, tmp_path):
    source = Source("plays", (file,))
    done = list(fetched(source, tmp_path))
    target = tmp_path / "plays" / "text"
    assert done == [(target, True)]
    assert target.read_bytes() == CONTENT
    assert list(target.parent.iterdir()) == [target]
    assert _files.read(source, "text", tmp_path) == CONTENT


def test_a_gzipped_file_is_fetched_as_published(origin, tmp_path):
    packed = gzip.compress(CONTENT, mtime=0)
    origin.files["text.gz"] = packed
    file = made(origin.url("text.gz"))
    source = Source("plays", (file,))
    [(path, _)] = list(fetched(source, tmp_path))
    assert path.name == "text.gz"
    assert _files.read(source, "text", tmp_path) == CONTENT


def test_what_is_there_is_not_fetched_again(origin, file, tmp_path):
    source = Source("plays", (file,))
    list(fetched(source, tmp_path))
    assert list(fetched(source, tmp_path)) == [(tmp_path / "plays" / "text", False)]
    assert origin.asked == 1


def test_a_damaged_file_is_replaced(file, tmp_path):
    folder = tmp_path / "plays"
    folder.mkdir()
    (folder / "text").write_bytes(b"damaged")
    assert list(fetched(Source("plays", (file,)), tmp_path)) == [(folder / "text", True)]
    assert (folder / "text").read_bytes() == CONTENT


def test_a_damaged_twin_goes_when_the_published_form_has_come(origin, tmp_path):
    packed = gzip.compress(CONTENT, mtime=0)
    origin.files["text.gz"] = packed
    file = made(origin.url("text.gz"))
    (tmp_path / "plays").mkdir()
    (tmp_path / "plays" / "text").write_bytes(b"damaged")
    list(fetched(Source("plays", (file,)), tmp_path))
    assert _files.read(Source("plays", (file,)), "text", tmp_path) == CONTENT


def test_a_download_that_stops_leaves_nothing_and_the_next_one_is_whole(origin, file, tmp_path):
    target = tmp_path / "text"
    origin.stop_after = 100_000
    with pytest.raises(DatasetUnavailable, match="should hold 256,000 bytes but holds 100,000"):
        _files.download(file, target)
    assert list(tmp_path.iterdir()) == []
    origin.stop_after = None
    target.with_name("text.partial").write_bytes(b"of an earlier version")
    _files.download(file, target)
    assert target.read_bytes() == CONTENT
    assert list(tmp_path.iterdir()) == [target]


def test_a_wrong_checksum_is_refused_and_leaves_nothing(origin, file, tmp_path):
    origin.files["text"] = CONTENT[:-1] + b"!"
    with pytest.raises(DatasetUnavailable, match=r"what it serves should have MD5 \w+ but has \w+"):
        _files.download(file, tmp_path / "text")
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_too_long_is_refused(origin, file, tmp_path):
    origin.files["text"] = CONTENT * 2
    with pytest.raises(DatasetUnavailable, match="should hold 256,000 bytes but holds more"):
        _files.download(file, tmp_path / "text")
    assert list(tmp_path.iterdir()) == []


def test_the_next_origin_is_tried(origin, tmp_path):
    urls = (origin.url("nowhere"), origin.url("text"))
    _files.download(made(*urls), tmp_path / "text")
    assert (tmp_path / "text").read_bytes() == CONTENT


def test_without_a_network_one_sentence_says_what_where_and_how(tmp_path, monkeypatch):
    def no_network(*_, **__):
        raise urllib.error.URLError("no route to host")

    monkeypatch.setattr(_files.urllib.request, "urlopen", no_network)
    file = made("https://origin.example/text")
    with pytest.raises(DatasetUnavailable) as refused:
        list(fetched(Source("plays", (file,)), tmp_path))
    message = str(refused.value)
    assert message.startswith("text is missing and cannot be downloaded (origin.example: no route")
    assert message.endswith(
        f"get it elsewhere from https://origin.example/text and place it as "
        f"{str(tmp_path / 'plays' / 'text')!r}"
    )
    assert "\n" not in message


def test_a_connection_that_breaks_is_no_fault_of_the_disk(file, tmp_path, monkeypatch):
    def broken(*_):
        raise OSError("connection lost")

    monkeypatch.setattr("http.client.HTTPResponse.read", broken)
    with pytest.raises(DatasetUnavailable, match=r"127.0.0.1:\d+: connection lost"):
        _files.download(file, tmp_path / "text")


def test_a_directory_that_cannot_be_written_is_named(file, tmp_path):
    (tmp_path / "plays").write_bytes(b"a file in the way")
    with pytest.raises(DatasetUnavailable, match="cannot be written"):
        list(fetched(Source("plays", (file,)), tmp_path))
