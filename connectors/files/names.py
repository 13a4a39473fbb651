"""The files that names and patterns stand for."""

from __future__ import annotations

import glob
import re
from collections.abc import Sequence
from pathlib import Path

from connectors.near_names import near_file


def files_of(patterns: Sequence[str]) -> list[str]:
    """Return the files that names and patterns stand for, in the order in which they are given, each once.

    Those of one pattern are sorted by name, numbers in names by their value: ``log-2`` is before ``log-10``.

    Raises
    ------
    ValueError
        If a pattern stands for none.
    """
    found: dict[str, None] = {}
    for pattern in patterns:
        if not Path(pattern).exists() and glob.has_magic(pattern):
            matches = glob.glob(pattern, recursive=True)  # noqa: PTH207  # Path.glob takes no absolute ones
            paths = [path for path in matches if Path(path).is_file()]
            if not paths:
                raise ValueError(f"{pattern}: there is no such file")
            found |= dict.fromkeys(sorted(paths, key=_by_number))
        else:
            if Path(pattern).is_dir():
                raise ValueError(f"{pattern} is a directory; name its files, as {pattern.rstrip('/')}/*.csv")
            _require(Path(pattern))
            found[pattern] = None
    return list(found)


def _require(path: Path) -> None:
    """Raise a ValueError if a named file is not there."""
    if str(path) == "-" or path.exists():
        return
    raise ValueError(f"{path}: No such file or directory{near_file(path)}")


def _by_number(name: str) -> tuple[list[str | int], str]:
    """Return what sorts names by the numbers in them.

    >>> sorted(["b1", "a-10.csv", "a-9.csv", "a-09.csv"], key=_by_number)
    ['a-09.csv', 'a-9.csv', 'a-10.csv', 'b1']
    """
    parts = re.split(r"([0-9]+)", name)  # text and numbers in turns
    return [int(part) if k % 2 else part for k, part in enumerate(parts)], name
