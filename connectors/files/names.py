"""The files that names and patterns stand for."""

from __future__ import annotations

import glob
from collections.abc import Sequence
from pathlib import Path


def files_of(patterns: Sequence[str]) -> list[str]:
    """Return the files that names and patterns stand for, sorted by name, each once.

    Raises
    ------
    ValueError
        If a pattern stands for none.
    """
    found: set[str] = set()
    for pattern in patterns:
        if not Path(pattern).exists() and glob.has_magic(pattern):
            matches = glob.glob(pattern, recursive=True)  # noqa: PTH207  # Path.glob takes no absolute ones
            paths = [path for path in matches if Path(path).is_file()]
            if not paths:
                raise ValueError(f"{pattern}: there is no such file")
            found.update(paths)
        else:
            if Path(pattern).is_dir():
                raise ValueError(f"{pattern} is a directory; name its files, as {pattern.rstrip('/')}/*.csv")
            found.add(pattern)
    return sorted(found)
