"""Compiled code between starts: the directory in which it is cached, and the code that a wheel ships.

Numba's cache checks the file of a function, but not the files of the functions it calls, and fails if a
type named in it no longer exists. Code of this distribution is therefore cached in a folder whose name is a
hash of the sources that it may call, those of its package and of the packages before it: in
``NUMBA_CACHE_DIR`` if it is set, else next to the sources, else in the user's cache directory. If none of
them is writable, as in a container with a read-only root file system, importing a cached function fails.
Importing this module then sets a temporary directory for this process and its children.

A wheel for one version of Python has such folders in ``streamk/compiled``, made by ``make release`` for
processors with the instructions of x86-64-v3. They are read first, and nothing is written to them. Code that
they lack, or that is for another platform, state of the sources or version of Numba, is compiled for the
processor of this machine and cached as above. The processor's name is only looked up, not set, so that other
code of the process is compiled as before. Without v3, or with ``NUMBA_CPU_NAME`` or ``NUMBA_CPU_FEATURES``,
the folders are ignored.
"""

# mypy: disable-error-code="assignment, attr-defined, list-item, method-assign, misc, no-untyped-call"
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

import llvmlite
import numba
from numba.core.base import BaseContext
from numba.core.caching import CompileResultCacheImpl, FunctionCache, IndexDataCacheFile, InTreeCacheLocator
from numba.core.codegen import get_host_cpu_features
from numba.misc.appdirs import AppDirs

_SITE = Path(__file__).parent.parent
_PACKAGES = ("streamk", "connectors")  # each imports those before it
_SHIPPED = _SITE / "streamk" / "compiled"
PROCESSOR, FEATURES = "x86-64-v3", "+avx,+avx2,+bmi,+bmi2,+f16c,+fma,+lzcnt,+movbe"  # of shipped code
_KEPT = 4  # folders of other states of the sources
_IN_USE = 3600.0  # seconds after a start or a compilation in which no folder is removed


@cache
def _state(packages: tuple[str, ...]) -> str:
    """Return a hash of the sources of packages and of the compiler's version."""
    digest = hashlib.sha256(f"{numba.__version__} {llvmlite.__version__}".encode())
    for package in packages:
        for directory, folders, names in os.walk(_SITE / package):
            folders[:] = sorted(set(folders) - {"__pycache__"})
            for name in sorted(names):
                if name.endswith(".py"):
                    digest.update(name.encode())
                    digest.update(Path(directory, name).read_bytes())
    return digest.hexdigest()[:16]


@cache
def _is_writable(root: Path, packages: tuple[str, ...]) -> bool:
    """Return whether the folder of this state of the sources can be written, and make it."""
    folder = root / f"streamk-{_state(packages)}"
    new = not folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
        os.utime(folder)
    except OSError:
        return False
    if new:
        _remove_others(folder)
    return True


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

    def __init__(
        self, function: Callable[..., object], file: str, root: Path, packages: tuple[str, ...]
    ) -> None:
        super().__init__(function, file)
        place, state = Path(file).parent.relative_to(_SITE), f"streamk-{_state(packages)}"
        self._folder, self._cache_path = root / state, str(root / state / place)
        self.shipped = _SHIPPED / state / place

    def ensure_cache_path(self) -> None:
        """Make the directory before a file is written to it, and warn if it is temporary."""
        super().ensure_cache_path()
        os.utime(self._folder)
        if _temporary:
            _warn()

    @classmethod
    def from_function(cls, function: Callable[..., object], file: str) -> _Locator | None:
        """Return the locator of a function of this distribution."""
        places = [k for k, package in enumerate(_PACKAGES, 1) if Path(file).is_relative_to(_SITE / package)]
        if not places or not Path(file).exists():
            return None
        configured, packages = numba.config.CACHE_DIR, _PACKAGES[: places[0]]
        user = AppDirs(appname="numba", appauthor=False).user_cache_dir
        roots = ([configured] if configured else []) + [_SITE / "streamk" / "__pycache__", user]
        directory = next((Path(root) for root in roots if _is_writable(Path(root), packages)), None)
        return None if directory is None else cls(function, file, directory, packages)


@cache
def _reads_shipped() -> bool:
    """Return whether the shipped code is for this processor, and no variable names another."""
    features = set(get_host_cpu_features().split(","))
    named = numba.config.CPU_NAME is not None or numba.config.CPU_FEATURES is not None
    return _SHIPPED.is_dir() and not named and features.issuperset(FEATURES.split(","))


def _load_overload(self: FunctionCache, signature: object, context: BaseContext) -> object:
    """Load compiled code that was shipped, or else that of this machine."""
    locator = self._impl.locator
    if isinstance(locator, _Locator) and locator.shipped.is_dir() and _reads_shipped():
        file = IndexDataCacheFile(locator.shipped, self._impl.filename_base, locator.get_source_stamp())
        called, (triple, *_), code = self._index_key(signature, context.codegen())
        try:
            compiled = file.load((called, (triple, PROCESSOR, FEATURES), code))
        except Exception:  # a damaged file raises what pickle does
            compiled = None
        if compiled is not None:
            return self._impl.rebuild(context, compiled)
    return _load_cached(self, signature, context)


def _ensure() -> None:
    """Find a directory for compiled code, if need be a temporary one."""
    global _temporary
    try:
        CompileResultCacheImpl(_ensure)
    except RuntimeError:
        _temporary = tempfile.mkdtemp(prefix="streamk-")
        atexit.register(_remove, _temporary, os.getpid())
        os.environ["NUMBA_CACHE_DIR"] = numba.config.CACHE_DIR = _temporary


@cache
def _warn() -> None:
    warnings.warn(
        "compiled code cannot be kept, so that every start compiles again for some seconds; "
        "set NUMBA_CACHE_DIR to a directory that can be written",
        RuntimeWarning,
        stacklevel=3,
    )


def _remove(directory: str, owner: int) -> None:
    if os.getpid() == owner:  # and not a child that was forked
        shutil.rmtree(directory, ignore_errors=True)


_temporary = ""
CompileResultCacheImpl._locator_classes = [_Locator, *CompileResultCacheImpl._locator_classes]
_load_cached, FunctionCache._load_overload = FunctionCache._load_overload, _load_overload
_ensure()
