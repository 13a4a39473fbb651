"""Files at an address, as ``https://…`` and ``s3://…``: fsspec copies each once, and the copy is read."""

from __future__ import annotations

import atexit
import contextlib
import functools
import re
import shutil
import tempfile
from collections.abc import Iterator
from typing import Protocol

_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]+://", re.IGNORECASE)
_SECRET = re.compile(r"(?<=://)[^/@]*@|\?.*")
_CONNECT, _READ = 30, 60  # seconds to wait for a web server


def is_address(path: str) -> bool:
    """Return whether a name of a log is an address.

    >>> is_address("s3://bucket/log.csv"), is_address("log.csv")
    (True, False)
    """
    return _ADDRESS.match(path) is not None


def shown(path: str) -> str:
    """Return an address without what may be secret: login and query.

    >>> shown("https://me:word@host/log.csv?signature=1")
    'https://host/log.csv'
    """
    return _SECRET.sub("", path) if is_address(path) else path


@functools.cache
def local(path: str) -> str:
    """Return the copy of a file at an address, which the end of the process removes; any other path as it is.

    Raises
    ------
    ValueError
        If it cannot be read; the sentence names the address.
    """
    if not is_address(path):
        return path
    with _explained(path), tempfile.NamedTemporaryFile(dir=_directory(), delete=False) as copy:
        system, place = _located(path)
        system.get_file(place, copy.name)
    return copy.name


def expanded(pattern: str) -> list[str]:
    """Return the addresses that a pattern with ``*`` stands for.

    Raises
    ------
    ValueError
        If they cannot be listed.
    """
    with _explained(pattern):
        system, place = _located(pattern)
        inside = "::" + pattern.partition("::")[2] if "::" in pattern else ""
        return [system.unstrip_protocol(each) + inside for each in system.glob(place)]


class _FileSystem(Protocol):
    """What is used of a file system of fsspec."""

    def get_file(self, place: str, path: str) -> None:
        """Copy a file."""

    def glob(self, pattern: str) -> list[str]:
        """Return what a pattern stands for."""

    def unstrip_protocol(self, place: str) -> str:
        """Return an address."""


def _located(path: str) -> tuple[_FileSystem, str]:
    """Return the file system of an address, and the place in it."""
    import fsspec

    options = {}
    for name in ("http", "https"):
        if f"{name}://" in path:
            import aiohttp

            timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT, sock_read=_READ)
            options[name] = {"client_kwargs": {"timeout": timeout}}
    located: tuple[_FileSystem, str] = fsspec.core.url_to_fs(path, **options)
    return located


@functools.cache
def _directory() -> str:
    """Return a directory for copies, which the end of the process removes."""
    directory = tempfile.mkdtemp(prefix="streamk-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return directory


@contextlib.contextmanager
def _explained(path: str) -> Iterator[None]:
    """Turn what any file system raises into a sentence."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name in ("fsspec", "aiohttp"):
            raise ValueError(f"{shown(path)}: pip install 'streamk[remote]' to read addresses") from None
        raise ValueError(f"{shown(path)}: {error}") from None
    except FileNotFoundError:
        raise ValueError(f"{shown(path)}: there is no such file") from None
    except Exception as error:  # of any library
        why = _SECRET.sub("", str(error).partition("\n")[0]) or type(error).__name__
        raise ValueError(f"{shown(path)} cannot be read ({why})") from None
