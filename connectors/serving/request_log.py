"""The log of requests that teach: what is in it is learned, once, in its order, also after a crash.

It is an SQLite file next to the checkpoints. A request is answered after it is in the log and on disk. A
checkpoint stores up to which request its model has learned; a start learns those after it again.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple

from connectors.contract.records import Raw
from connectors.state.aside import explained

FILE = "requests.sqlite"
EVENTS, LABELS = "events-0", "labels-0"  # the partitions that requests stand for
_KEPT = 2**20  # requests by whose keys repeated ones are known
_MODE = "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;"
_TABLES = """
CREATE TABLE IF NOT EXISTS requests (
    offset INTEGER PRIMARY KEY AUTOINCREMENT, partition TEXT, key TEXT, value BLOB, time INTEGER
);
CREATE UNIQUE INDEX IF NOT EXISTS by_key ON requests (key)
WHERE key IS NOT NULL AND partition = 'events-0';
"""
_ADD = "INSERT OR IGNORE INTO requests (partition, key, value, time) VALUES (?, ?, ?, ?)"


class Request(NamedTuple):
    """An event or a label to learn, under the key of its event, if it has one."""

    key: str | None
    value: bytes


class RequestLog:
    """Requests in order.

    Parameters
    ----------
    directory
        Of the checkpoints; the file is made if it is not there.

    Raises
    ------
    Failure
        If the file cannot be read or written; so every method.
    """

    def __init__(self, directory: Path) -> None:
        self._path = directory / FILE
        with self._explained():
            self._file = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
            self._file.executescript(_MODE + _TABLES)
            (last,) = self._file.execute("SELECT MAX(time) FROM requests").fetchone()
        self._time = last or 0

    def _explained(self) -> AbstractContextManager[None]:
        return explained(self._path)

    def append(self, partition: str, requests: Sequence[Request], time: int) -> list[Raw | None]:
        """Write requests and sync them to disk; return their records, None for an event that came before.

        ``time`` is in milliseconds since the epoch; where it goes back, the last one holds.
        """
        self._time = max(self._time, time)
        records: list[Raw | None] = []
        with self._explained():
            self._file.execute("BEGIN IMMEDIATE")
            try:
                for key, value in requests:
                    added = self._file.execute(_ADD, (partition, key, value, self._time))
                    known = None if key is None else key.encode()
                    new = added.rowcount == 1 and added.lastrowid is not None
                    records.append(Raw(int(added.lastrowid or 0), value, known, self._time) if new else None)
                self._file.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):
                    self._file.execute("ROLLBACK")
                raise
        return records

    def after(self, position: int) -> Iterator[tuple[str, Raw]]:
        """Yield the partition and the record of every request from a position on."""
        statement = (
            "SELECT partition, offset, value, key, time FROM requests WHERE offset >= ? ORDER BY offset"
        )
        with self._explained():
            for partition, offset, value, key, time in self._file.execute(statement, (position,)):
                yield partition, Raw(offset, value, None if key is None else key.encode(), time)

    def prune(self, position: int) -> None:
        """Forget what requests before a position hold, and all of those long before it but the newest."""
        with self._explained():
            self._file.execute(
                "UPDATE requests SET value = NULL WHERE offset < ? AND value IS NOT NULL", (position,)
            )
            self._file.execute("DELETE FROM requests WHERE offset < ?", (position - _KEPT,))

    def close(self) -> None:
        """Close the file."""
        self._file.close()
