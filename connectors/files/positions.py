"""The positions of a log on disk, to look at and to set."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from connectors.errors import USAGE, Failure
from connectors.files.source import FileSource
from connectors.stream import Committed


class LogPositions:
    """Where a log can be read from.

    Parameters
    ----------
    path, form, follow
        As for :class:`connectors.files.source.FileSource`.
    """

    identity, siblings = "", 1

    def __init__(self, path: Path, form: str, follow: bool) -> None:
        self._source = FileSource(path, form, follow)

    def partitions(self) -> Sequence[str]:
        """Return the one partition."""
        return self._source.partitions()

    def committed(self, partition: str) -> Committed | None:
        """Return None: no group reads a log."""
        return None

    def range(self, partition: str) -> tuple[int, int]:
        """Return the byte of the first record, and the size, which a compressed log does not tell."""
        return self._source.begins, self._source.ends().get(partition, sys.maxsize)

    def at(self, partition: str, moment: datetime) -> int:
        """Raise Failure: a log has no times."""
        raise Failure(USAGE, "--to: the records of a log have no times; give a byte, earliest or latest")

    def mark(self, positions: Mapping[str, int]) -> Any:
        """Return what the log is known by."""
        return self._source.mark(positions)

    def commit(self, positions: Mapping[str, Committed]) -> None:
        """Do nothing: the checkpoint says it all."""

    def close(self) -> None:
        """Close the log."""
        self._source.close(True)

    def __enter__(self) -> LogPositions:
        return self

    def __exit__(self, *details: object) -> None:
        self.close()
