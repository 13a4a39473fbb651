"""Results on disk, one JSON line each: an interrupted run resumes, and a new learner costs minutes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

KEY = "stream", "peer", "memory", "delay", "seed", "events", "version"
Result = dict[str, Any]


class Cache:
    """Results by stream, peer, setting and version.

    The version is that of the peer's library; for streamk, a hash of the sources.
    """

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._path = directory / "results.jsonl"
        self._found: dict[tuple[Any, ...], Result] = {}
        if self._path.exists():
            for line in self._path.read_text().splitlines():
                try:
                    result = json.loads(line)
                except json.JSONDecodeError:  # the last line of a killed run
                    continue
                self._found[_key(result)] = result

    def get(self, key: Mapping[str, Any], budget: float) -> Result | None:
        """Return a result; None if a smaller budget, in seconds, stopped its measurement."""
        found = self._found.get(_key(key))
        if found is not None and found["done"] < found["events"] and found.get("budget", 0.0) < budget:
            return None
        return found

    def put(self, result: Result) -> None:
        """Store a result in memory and on disk."""
        self._found[_key(result)] = result
        whole = not self._path.exists() or not self._path.stat().st_size or self._ends_with_newline()
        with self._path.open("a") as file:
            file.write(("" if whole else "\n") + json.dumps(result) + "\n")

    def _ends_with_newline(self) -> bool:
        with self._path.open("rb") as file:
            file.seek(-1, 2)
            return file.read(1) == b"\n"


def _key(result: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(result[name] for name in KEY)
