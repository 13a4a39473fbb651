"""The directory in which compiled code is cached between starts.

Numba's own cache checks the file of a function, but not the files of the functions it calls, and fails if a
type named in it no longer exists. Code of this distribution is therefore cached in a folder whose name is a
hash of the sources that it may call, those of its package and of the packages before it: in
``NUMBA_CACHE_DIR`` if it is set, else next to the sources, else in the user's cache directory. If none of
them is writable, as in a container with a read-only root file system, importing a cached function fails.
Importing this module then sets a temporary directory for this process and its
children.
"""

# mypy: disable-error-code="attr-defined, list-item, misc, no-untyped-call"
from __future__ import annotations

import atexit
import hashlib
import os
import shutil
import tempfile
import time
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numba
from numba.core.caching import CompileResultCacheImpl, InTreeCacheLocator
from numba.misc.appdirs import AppDirs

_SITE = Path(__file__).parent.parent
_PACKAGES = ("streamk", "connectors")  # each imports those before it
_KEPT = 4  # folders of other states of the sources
_IN_USE = 3600.0  # seconds after a start or a compilation in which no folder is removed


@cache
def _state(packages: tuple[str, ...]) -> str:
    """Return a hash of the sources of packages and of Numba's version."""
    found = hashlib.sha256(numba.__version__.encode())
    for package in packages:
        for directory, folders, names in os.walk(_SITE / package):
            folders[:] = sorted(set(folders) - {"__pycache__"})
            for name in sorted(names):
                if name.endswith(".py"):
                    found.update(name.encode())
                    found.update(Path(directory, name).read_bytes())
    return found.hexdigest()[:16]


@cache
def _folder(root: Path, packages: tuple[str, ...]) -> Path | None:
    """Return the folder of this state of the sources, or None if it is not writable."""
    folder = root / f"streamk-{_state(packages)}"
    new = not folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
        os.utime(folder)
    except OSError:
        return None
    if new:
        _remove_others(folder)
    return folder


def _remove_others(folder: Path) -> None:
    """Remove the folders of other states, except those used recently."""
    used = {}
    for other in folder.parent.glob("streamk-" + "?" * 16):
        try:
            used[other] = other.stat().st_mtime
        except OSError:  # another process removes it
            continue
    del used[folder]
    for other in sorted(used, key=lambda other: used[other])[:-_KEPT]:
        if used[other] < time.time() - _IN_USE:
            shutil.rmtree(other, ignore_errors=True)


class _Locator(InTreeCacheLocator):
    """The files of one function in the folder of this state of the sources."""

    def __init__(self, function: Callable[..., object], file: str, folder: Path) -> None:
        super().__init__(function, file)
        self._folder, self._cache_path = folder, str(folder / Path(file).parent.relative_to(_SITE))

    def ensure_cache_path(self) -> None:
        """Make the directory before a file is written to it."""
        super().ensure_cache_path()
        os.utime(self._folder)

    @classmethod
    def from_function(cls, function: Callable[..., object], file: str) -> _Locator | None:
        """Return the locator of a function of this distribution."""
        own = [k for k, package in enumerate(_PACKAGES, 1) if Path(file).is_relative_to(_SITE / package)]
        if not own:
            return None
        given = numba.config.CACHE_DIR
        user = AppDirs(appname="numba", appauthor=False).user_cache_dir
        roots = ([given] if given else []) + [_SITE / "streamk" / "__pycache__", user]
        folders = (_folder(Path(root), _PACKAGES[: own[0]]) for root in roots)
        found = next((folder for folder in folders if folder is not None), None)
        return None if found is None or not Path(file).exists() else cls(function, file, found)


def _ensure() -> None:
    """Find a directory for compiled code, and warn if it is temporary."""
    try:
        CompileResultCacheImpl(_ensure)
    except RuntimeError:
        pass
    else:
        return
    made = tempfile.mkdtemp(prefix="streamk-")
    atexit.register(_remove, made, os.getpid())
    os.environ["NUMBA_CACHE_DIR"] = numba.config.CACHE_DIR = made
    warnings.warn(
        "compiled code cannot be kept, so that every start compiles again for some seconds; "
        "set NUMBA_CACHE_DIR to a directory that can be written",
        RuntimeWarning,
        stacklevel=3,
    )


def _remove(directory: str, owner: int) -> None:
    if os.getpid() == owner:  # and not a child that was forked
        shutil.rmtree(directory, ignore_errors=True)


CompileResultCacheImpl._locator_classes = [_Locator, *CompileResultCacheImpl._locator_classes]
_ensure()
