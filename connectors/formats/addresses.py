"""Files at an address, as ``https://…`` and ``s3://…``: fsspec copies each once, and the copy is read.

Directories of checkpoints at an address have the methods of ``pathlib.Path`` that their users call.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import fnmatch
import functools
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path, PurePosixPath
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

    def cat_file(self, place: str) -> bytes:
        """Return what a file holds."""

    def exists(self, place: str) -> bool:
        """Return whether there is such a file."""

    def get_file(self, place: str, path: str) -> None:
        """Copy a file."""

    def glob(self, pattern: str) -> list[str]:
        """Return what a pattern stands for."""

    def invalidate_cache(self) -> None:
        """Forget what was listed."""

    def ls(self, place: str, detail: bool) -> list[str]:
        """Return what a directory holds."""

    def modified(self, place: str) -> datetime:
        """Return when a file was written."""

    def mv(self, place: str, to: str) -> None:
        """Copy a file, then remove it."""

    def pipe_file(self, place: str, value: bytes, mode: str) -> None:
        """Write a file whole."""

    def rm_file(self, place: str) -> None:
        """Remove a file."""

    def size(self, place: str) -> int:
        """Return how many bytes a file has."""

    def unstrip_protocol(self, place: str) -> str:
        """Return an address."""


def _located(path: str) -> tuple[_FileSystem, str]:
    """Return the file system of an address, and the place in it."""
    import fsspec

    options = dict[str, dict[str, object]]()
    if path.startswith("file://"):
        options["file"] = {"auto_mkdir": True}
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


@dataclass(frozen=True, order=True)
class RemotePath:
    """A file or a directory at an address; every failure of its file system is an ``OSError``.

    Parameters
    ----------
    address
        As fsspec reads it.
    """

    address: str

    @classmethod
    def of(cls, address: str) -> RemotePath:
        """Return the directory at an address.

        Raises
        ------
        ValueError
            If a library is missing, or the address is of none.
        """
        try:
            import fsspec

            fsspec.get_filesystem_class(address.partition("://")[0])
        except (ImportError, ValueError) as error:
            missing = isinstance(error, ModuleNotFoundError) and error.name == "fsspec"
            why = "pip install 'streamk[remote]' to use addresses" if missing else error
            raise ValueError(f"{shown(address)}: {why}") from None
        return cls(address.rstrip("/"))

    def __str__(self) -> str:
        return shown(self.address)

    def __truediv__(self, name: str) -> RemotePath:
        return RemotePath(f"{self.address}/{name}")

    @property
    def name(self) -> str:
        """What follows the last slash."""
        return self.address.rpartition("/")[2]

    @property
    def stem(self) -> str:
        """The name without its last suffix."""
        return PurePosixPath(self.name).stem

    @contextlib.contextmanager
    def _opened(self) -> Iterator[tuple[_FileSystem, str]]:
        """Open the file system, and turn what it raises into an ``OSError`` of one sentence."""
        try:
            yield _located(self.address)
        except Exception as error:  # of any library
            kinds = {
                FileNotFoundError: errno.ENOENT, FileExistsError: errno.EEXIST,
                NotADirectoryError: errno.ENOTDIR, PermissionError: errno.EACCES,
            }  # fmt: skip
            number = next((number for kind, number in kinds.items() if isinstance(error, kind)), errno.EIO)
            why = _SECRET.sub("", str(error).partition("\n")[0]) or type(error).__name__
            raise OSError(number, why, str(self)) from None

    def glob(self, pattern: str) -> list[RemotePath]:
        """Return the files whose names match; none if there is no such directory."""
        with contextlib.suppress(FileNotFoundError), self._opened() as (system, place):
            system.invalidate_cache()
            names = [each.rstrip("/").rpartition("/")[2] for each in system.ls(place, detail=False)]
            return [self / name for name in names if fnmatch.fnmatchcase(name, pattern)]
        return []

    def exists(self) -> bool:
        """Return whether there is such a file."""
        with self._opened() as (system, place):
            return system.exists(place)

    def read_bytes(self) -> bytes:
        """Return what the file holds."""
        with self._opened() as (system, place):
            return system.cat_file(place)

    def read_text(self) -> str:
        """Return what the file holds, as UTF-8."""
        return self.read_bytes().decode()

    def create(self, data: bytes) -> int:
        """Write the file whole, and return its size in bytes.

        Raises
        ------
        FileExistsError
            If it is there with other contents; the same contents are those of a repeated request.
        """
        try:
            with self._opened() as (system, place):
                system.invalidate_cache()
                if system.exists(place):  # not every file system regards the mode
                    raise FileExistsError
                system.pipe_file(place, data, mode="create")
        except FileExistsError:
            if self.read_bytes() != data:
                raise
        return len(data)

    def rename(self, name: str) -> None:
        """Copy the file to another name in its directory, then remove it."""
        with self._opened() as (system, place):
            system.mv(place, f"{place.removesuffix(self.name)}{name}")

    def unlink(self) -> None:
        """Remove the file."""
        with self._opened() as (system, place):
            system.rm_file(place)

    def stat(self) -> os.stat_result:
        """Return its size, and when it was written; all else is 0."""
        with self._opened() as (system, place):
            size, written = system.size(place), system.modified(place).timestamp()
        return os.stat_result((0, 0, 0, 0, 0, 0, size, 0, written, 0))


Place = Path | RemotePath


def place_of(path: str) -> Place:
    """Return the directory at an address or a path.

    Raises
    ------
    ValueError
        As of :meth:`RemotePath.of`.
    """
    return RemotePath.of(path) if is_address(path) else Path(path)
