"""Logs at an address: of a web server, of a file system of fsspec, and in an archive."""

import functools
import hashlib
import http.server
import socket
import sys
import threading
import zipfile

import fsspec
import pytest

from connectors.files.log import files_of
from connectors.formats.addresses import local
from tests.connectors.reading import log_of

CSV = b"a,y\n" + b"".join(b"%d,%d\n" % (k, k % 2) for k in range(50))


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments):
        """Print nothing."""


@pytest.fixture
def site(tmp_path):
    """The address of a web server on loopback, and its directory."""
    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Quiet, directory=str(tmp_path))
    )
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", tmp_path
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def memory():
    system = fsspec.filesystem("memory")
    yield system
    system.store.clear()
    local.cache_clear()


def test_a_log_of_a_web_server_is_read_as_its_copy(site):
    address, directory = site
    (directory / "log.csv").write_bytes(CSV)
    log = log_of(f"{address}/log.csv?key=secret")
    assert len(list(log)) == 50
    assert log.done == log.size == len(CSV)
    assert log.name == f"{address}/log.csv"
    fingerprint = log.fingerprint()
    assert fingerprint["sha256"] == hashlib.sha256(CSV).hexdigest()
    assert fingerprint["files"] == [
        {"name": f"{address}/log.csv", "bytes": len(CSV), "sha256": fingerprint["sha256"]}
    ]


def test_what_a_web_server_does_not_have_is_a_sentence(site):
    with pytest.raises(ValueError, match=r"/none\.csv: there is no such file"):
        log_of(f"{site[0]}/none.csv")


def test_a_host_that_does_not_answer_is_a_sentence_without_the_login():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        with pytest.raises(ValueError, match="cannot be read") as raised:
            log_of(f"http://me:word@127.0.0.1:{port}/log.csv?key=secret")
    assert str(raised.value).startswith(f"http://127.0.0.1:{port}/log.csv cannot be read (")
    assert "word" not in str(raised.value)
    assert "secret" not in str(raised.value)


def test_files_of_other_systems_and_their_patterns(memory):
    for name in ("log-10", "log-9", "other"):
        memory.pipe(f"/logs/{name}.csv", CSV)
    assert files_of(["memory://logs/log-*.csv"]) == ["memory:///logs/log-9.csv", "memory:///logs/log-10.csv"]
    assert len(list(log_of("memory://logs/log-*.csv"))) == 100
    with pytest.raises(ValueError, match=r"memory://logs/none-\*\.csv: there is no such file"):
        log_of("memory://logs/none-*.csv")


def test_one_file_of_an_archive(tmp_path):
    with zipfile.ZipFile(tmp_path / "logs.zip", "w") as archive:
        archive.writestr("a.csv", CSV)
        archive.writestr("b.csv", CSV)
    assert len(list(log_of(f"zip://b.csv::{tmp_path}/logs.zip"))) == 50
    assert len(list(log_of(f"zip://*.csv::{tmp_path}/logs.zip"))) == 100


@pytest.mark.parametrize(
    ("address", "sentence"),
    [
        ("none://a/log.csv", r"none://a/log\.csv cannot be read \(Protocol not known: none\)"),
        ("memory://none.csv", r"memory://none\.csv: there is no such file"),
    ],
)
def test_other_failures_are_sentences(address, sentence):
    with pytest.raises(ValueError, match=sentence):
        log_of(address)


@pytest.mark.parametrize("name", ["fsspec", "aiohttp"])
def test_without_the_library_an_address_is_a_sentence(monkeypatch, name):
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ValueError, match=r"pip install 'streamk\[remote\]' to read addresses"):
        log_of("https://host.invalid/log.csv")
