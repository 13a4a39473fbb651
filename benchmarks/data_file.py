"""The data file of the board, which is also its cache: one JSON line a result, sorted.

A run appends each result as soon as it is measured, and sorts the file when it stops. A killed run leaves
an unsorted file, which reads the same.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

KEY = "stream", "peer", "memory", "protocol", "seed", "events"
Result = dict[str, Any]


class DataFile:
    """Results by stream, peer and setting; of each only the newest, with the version that it belongs to.

    The version is that of the peer's library; for streamk, a hash of the sources.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._found = read(path)

    def __iter__(self) -> Iterator[Result]:
        return iter(self._found.values())

    def newest(self, key: Mapping[str, Any]) -> Result | None:
        """Return the result of a key, of whatever version."""
        return self._found.get(_key(key))

    def get(self, key: Mapping[str, Any], budget: float) -> Result | None:
        """Return the result of a key and its version.

        None if it failed, or if a smaller budget, in seconds, stopped it: then it is measured again.
        """
        found = self.newest(key)
        if found is None or found["version"] != key["version"] or "failed" in found:
            return None
        stopped = found["done"] < found["events"]
        return None if stopped and found.get("budget", 0.0) < budget else found

    def put(self, result: Result) -> None:
        """Store a result in memory, and at the end of the file."""
        self._found[_key(result)] = result
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a+b") as file:
            whole = not file.tell() or self._ends_with_newline()
            file.write((b"" if whole else b"\n") + _line(result).encode())

    def sort(self) -> None:
        """Rewrite the file: the newest result of each key, sorted."""
        self._found = read(self._path)  # another process may have added results
        lines = [_line(self._found[key]) for key in sorted(self._found)]
        written = self._path.with_suffix(".new")
        written.write_text("".join(lines))
        written.replace(self._path)

    def _ends_with_newline(self) -> bool:
        with self._path.open("rb") as file:
            file.seek(-1, 2)
            return file.read(1) == b"\n"


def read(path: Path) -> dict[tuple[Any, ...], Result]:
    """Return the newest results of a file; a line that a killed run did not finish is skipped."""
    found: dict[tuple[Any, ...], Result] = {}
    for line in path.read_text().splitlines() if path.exists() else []:
        try:
            result = json.loads(line)
        except json.JSONDecodeError:
            continue
        found[_key(result)] = result
    return found


def _key(result: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(result[name] for name in KEY)


def _line(result: Result) -> str:
    """Return a result as a line: the key, then the other fields by name."""
    names = [*KEY, *sorted(result.keys() - set(KEY))]
    return json.dumps({name: result[name] for name in names}, ensure_ascii=False) + "\n"
