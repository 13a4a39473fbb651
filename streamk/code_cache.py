"""Where compiled code is kept between starts.

Numba keeps it beside the sources, in the user's cache directory, or in ``NUMBA_CACHE_DIR``. Where none of
them can be written, as in a container whose root file system is read-only, it refuses to import anything that
is to be kept. So importing this module gives it a temporary directory of this process instead, which its
children share.
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
    """Find a place for compiled code, and warn if it does not outlive this process."""
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
