"""Events that wait for their labels on disk, beyond those that a learner holds in memory.

They are rows of an SQLite file next to the checkpoints. Each row has the first checkpoint that includes it,
and the first that does not any more; rows are removed once no checkpoint that is there needs them. So a
restart from any of these checkpoints has the events that waited when it was written. Only what has changed is
written, before the checkpoint.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple

from connectors.contract.errors import CHECKPOINT, Failure
from connectors.formats.addresses import Place, RemotePath
from connectors.state.disk import CheckpointStore

FILE = "waiting.sqlite"
# pages with several events each
_MODE = "PRAGMA page_size = 16384; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;"
_TABLES = """
CREATE TABLE IF NOT EXISTS waiting (
    number INTEGER PRIMARY KEY, key TEXT, time REAL, known BLOB, event BLOB, born INTEGER, gone INTEGER
);
CREATE INDEX IF NOT EXISTS by_key ON waiting (key) WHERE gone IS NULL;
CREATE INDEX IF NOT EXISTS by_number ON waiting (number) WHERE gone IS NULL;
CREATE INDEX IF NOT EXISTS by_end ON waiting (gone) WHERE gone IS NOT NULL;
"""


@contextlib.contextmanager
def explained(path: Path) -> Iterator[None]:
    """Raise Failure in place of an error of SQLite, with the file and what to do."""
    try:
        yield
    except sqlite3.Error as error:
        raise Failure(
            CHECKPOINT, f"{path}: {error}; free space, or put back a copy of this file and of the checkpoints"
        ) from None


class Row(NamedTuple):
    """An event: its key, its time in seconds, what the daemon stores of it, and what the learner does."""

    key: str
    time: float
    known: bytes
    event: bytes


def waiting_on_disk(directory: Place) -> int:
    """Return how many events wait in a directory of checkpoints, for messages of commands."""
    path = directory / FILE
    if isinstance(path, RemotePath) or not path.exists():
        return 0
    with explained(path), contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as file:
        (count,) = file.execute("SELECT count(*) FROM waiting WHERE gone IS NULL").fetchone()
    return int(count)


class AsideStore:
    """Rows by key, the oldest first; those of a checkpoint that is restored, and the changes since.

    Parameters
    ----------
    store
        The checkpoints. The file is made with the first row.
    """

    def __init__(self, store: CheckpointStore) -> None:
        self._path, self._store = store.local / FILE, store
        self._file: sqlite3.Connection | None = None
        self._checkpoint, self._count = 0, 0
        self._restored = False

    def __len__(self) -> int:
        return self._count

    def __contains__(self, key: str) -> bool:
        if not self._count:
            return False
        there = self._run("SELECT 1 FROM waiting WHERE key = ? AND gone IS NULL", key)
        return there.fetchone() is not None

    def _open(self) -> sqlite3.Connection:
        if self._file is None:
            self._file = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
            self._file.executescript(_MODE + _TABLES)
        if not self._file.in_transaction:
            self._file.execute("BEGIN IMMEDIATE")
        return self._file

    def _explained(self) -> AbstractContextManager[None]:
        return explained(self._path)

    def _run(self, statement: str, *values: object) -> sqlite3.Cursor:
        with self._explained():
            return self._open().execute(statement, values)

    def put(self, rows: Iterable[Row]) -> None:
        """Add rows, after those that are there."""
        self._begin()
        with self._explained():
            many = [(*row, self._checkpoint + 1) for row in rows]
            statement = "INSERT INTO waiting (key, time, known, event, born) VALUES (?, ?, ?, ?, ?)"
            self._open().executemany(statement, many)
        self._count += len(many)

    def oldest(self) -> Row | None:
        """Return the oldest row, None if there is none."""
        statement = "SELECT key, time, known, event FROM waiting WHERE gone IS NULL ORDER BY number LIMIT 1"
        return Row(*self._run(statement).fetchone()) if self._count else None

    def take(self, key: str) -> Row | None:
        """Return the row of a key, which waits no longer; None if there is none."""
        if not self._count:
            return None
        statement = "SELECT key, time, known, event, number FROM waiting WHERE key = ? AND gone IS NULL"
        row = self._run(statement, key).fetchone()
        if row is None:
            return None
        self._run("UPDATE waiting SET gone = ? WHERE number = ?", self._checkpoint + 1, row[-1])
        self._count -= 1
        return Row(*row[:-1])

    def save(self) -> tuple[int, int]:
        """Write the changes for the next checkpoint; return its number and the number of rows."""
        self._begin()
        self._checkpoint += 1
        if self._file is not None and self._file.in_transaction:
            paths = self._store.paths()[:1]
            oldest = min([self._checkpoint - self._store.keep, *(int(each.stem) for each in paths)])
            self._run("DELETE FROM waiting WHERE gone <= ?", oldest)
            self._run("COMMIT")
        return self._checkpoint, self._count

    def _begin(self) -> None:
        """Forget what is left of other checkpoints, unless one was restored."""
        if not self._restored:
            self.restore(0, 0)

    def restore(self, checkpoint: int, count: int) -> None:
        """Return to the rows of a checkpoint; there are none before the first, with number 0.

        Raises
        ------
        ValueError
            If its rows are not there.
        """
        self._checkpoint, self._count, self._restored = checkpoint, count, True
        if self._file is None and not self._path.exists():
            there = 0
        else:
            with self._explained():
                if self._file is not None and self._file.in_transaction:
                    self._file.execute("ROLLBACK")
            self._run("DELETE FROM waiting WHERE born > ?", checkpoint)
            self._run("UPDATE waiting SET gone = NULL WHERE gone > ?", checkpoint)
            (there,) = self._run("SELECT COUNT(*) FROM waiting WHERE gone IS NULL").fetchone()
            self._run("COMMIT")
        if there != count:
            raise ValueError(
                f"needs {count} events that wait in {self._path}, and {there} are there; put that file back"
            )
