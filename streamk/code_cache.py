"""The directory in which compiled code is cached between starts.

Numba stores it next to the sources, in the user's cache directory, or in ``NUMBA_CACHE_DIR``. If none of them
is writable, as in a container with a read-only root file system, importing a cached function fails. Importing
this module then sets a temporary directory for this process and its children.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import warnings

import numba
from numba.core.caching import CompileResultCacheImpl


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
    os.environ["NUMBA_CACHE_DIR"] = numba.config.CACHE_DIR = made  # type: ignore[attr-defined]
    warnings.warn(
        "compiled code cannot be kept, so that every start compiles again for some seconds; "
        "set NUMBA_CACHE_DIR to a directory that can be written",
        RuntimeWarning,
        stacklevel=3,
    )


def _remove(directory: str, owner: int) -> None:
    if os.getpid() == owner:  # and not a child that was forked
        shutil.rmtree(directory, ignore_errors=True)


_ensure()
