"""One compilation for all processes of a test run.

Processes that share Numba's cache compile the same function at the same time, each for itself, and two that
save at the same time lose an entry of the index. After :func:`share`, the first process that wants a function
for a signature compiles it, and the others wait and load it. Locks end with their process, however it ends.
"""

import contextlib
import fcntl
import functools
import hashlib
import os
from pathlib import Path

import numba
from numba.core.caching import Cache, NullCache
from numba.core.compiler_lock import global_compiler_lock
from numba.core.dispatcher import Dispatcher


@functools.cache
def _file():
    directory = Path(numba.config.CACHE_DIR)
    directory.mkdir(parents=True, exist_ok=True)
    return os.open(directory / "lock", os.O_RDWR | os.O_CREAT)


@contextlib.contextmanager
def _locked(name):
    """Hold the byte of the lock file that stands for a name."""
    place = int.from_bytes(hashlib.sha256(name.encode()).digest()[:7])
    fcntl.lockf(_file(), fcntl.LOCK_EX, 1, place)
    try:
        yield
    finally:
        fcntl.lockf(_file(), fcntl.LOCK_UN, 1, place)


def _name(cache):
    return cache._cache_file._index_path


def share():
    """Make this process, and those forked from it, wait for each other's compilations."""
    if not numba.config.CACHE_DIR or Dispatcher.compile.__module__ == __name__:
        return
    compile_, save = Dispatcher.compile, Cache.save_overload

    @functools.wraps(compile_, assigned=())
    def compile_once(self, sig):
        if isinstance(self._cache, NullCache):
            return compile_(self, sig)
        with global_compiler_lock, _locked(f"{_name(self._cache)} {sig}"):
            return compile_(self, sig)

    @functools.wraps(save, assigned=())
    def save_alone(self, sig, data):
        with _locked(_name(self)):
            save(self, sig, data)

    Dispatcher.compile, Cache.save_overload = compile_once, save_alone
