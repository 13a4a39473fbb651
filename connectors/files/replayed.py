"""A log as it is replayed: files and pipes in order, read ahead in a thread."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import Any

from connectors.decoding import EventFormat, Misfits
from connectors.files.ahead import Ahead
from connectors.files.batches import EXAMPLES, Batch, Broken
from connectors.files.dialect import Dialect
from connectors.files.lines import Lines
from connectors.files.log import columns_of, noted, records_of, types_of
from connectors.files.names import files_of
from connectors.files.opening import Opened, is_pipe, size_of
from connectors.log import Log
from connectors.schema import LOOK, Column
from connectors.values import kind_of


class ReplayLog(Log):
    r"""A log to be read in order, batch by batch.

    Each file is CSV, JSON lines, MessagePack or Parquet, plain, gzip or zstd, as its first bytes tell. The
    types of fields are inferred from the first records of the first file that has any. Records that cannot
    be decoded are skipped and counted, and so are those without a target.

    Parameters
    ----------
    files
        Names and patterns, in order (:func:`connectors.files.names.files_of`); ``-`` alone is standard input.
    format
        Which field is what; a string is the field to predict.
    form
        ``"csv"``, ``"json"``, ``"msgpack"`` or ``"parquet"``, if it is known.
    strict
        Whether a record that cannot be decoded, or a file that is cut short, ends the reading.

    Attributes
    ----------
    broken
        What was skipped so far.
    notes
        Sentences about how files are read, each once.
    events
        How many there were so far.
    done, size
        Bytes read of the files, and of all of them; 0 of pipes.
    format
        With the types that were inferred, once reading has begun.
    columns, dialect
        What the first records say of each field, and of CSV how it is written.

    Raises
    ------
    ValueError
        If there is no such file.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile(suffix=".csv") as file:
    ...     _ = file.write(b"a;b;y\n3,14;NA;up\n2,7;x;down\n")
    ...     file.flush()
    ...     log = ReplayLog(file.name, "y")
    ...     for batch in log.batches():
    ...         print(batch.events, batch.targets)
    [{'a': 3.14, 'b': None}, {'a': 2.7, 'b': 'x'}] ['up', 'down']
    >>> log.notes
    ['read as CSV with semicolons between values and decimal commas; --delimiter and --decimal change that']
    """

    done: int = 0
    paths: Sequence[str] = ()

    def __init__(
        self,
        files: str | Path | Sequence[str | Path],
        format: EventFormat | str,
        form: str | None = None,
        strict: bool = False,
    ) -> None:
        given = [str(file) for file in ([files] if isinstance(files, str | Path) else files)]
        self.format = EventFormat(format) if isinstance(format, str) else format
        self.name, self.target = " ".join(given), self.format.target or ""
        self.paths = given if given == ["-"] else files_of(given)
        if "-" in self.paths and len(self.paths) > 1:
            raise ValueError("standard input, -, is read alone")
        self.size = sum(map(size_of, self.paths))
        self._form, self._strict = form, strict
        self.broken, self.notes, self.events, self.done = Broken(), list[str](), 0, 0
        self.columns: list[Column] = []
        self.dialect: Dialect | None = None
        self.misfits: dict[str, Misfits] = {}
        self._kind: list[str] = []  # of targets, and which file had it first
        self._file: Opened | None = None  # the thread's
        self._hashes: dict[str, tuple[int, str]] = {}
        self._before, self._stopped = ".", False

    def batches(self) -> Generator[Batch, None, None]:
        """Yield the batches; a thread reads ahead until the iterator is closed.

        Raises
        ------
        ValueError
            If none of the first 1,000 JSON lines or maps has a target; if all is empty, or a file has no
            header or no such column, or other targets than those before it; if ``strict``, with the place
            of a record that cannot be decoded.
        OSError
            If a file cannot be read.
        """
        with Ahead(self._read(), lambda batch: batch.size, self._wake) as ahead:
            empty = True
            for batch in ahead:
                if self._strict and batch.broken.count:
                    if len(kept := batch.before_broken()):
                        yield kept
                    raise ValueError(batch.broken.examples[0])
                empty = self._check(batch, empty)
                self.broken.add(batch.broken)
                self.events += len(batch)
                self.done = batch.done
                self.notes = [*self.notes, *(note for note in batch.notes if note not in self.notes)]
                for name, found in batch.misfits.items():
                    self.misfits.setdefault(name, Misfits()).add(found)
                yield batch

    def _check(self, batch: Batch, empty: bool) -> bool:
        """Check the targets of a batch; return whether no events have come so far."""
        if not len(batch):
            named = batch.form in ("csv", "parquet")  # the column is there, if without a value
            if empty and batch.broken.bare and not self.events and not named:
                raise ValueError(batch.broken.bare[0])
            return empty
        kind = kind_of(batch.targets[0])
        if self._kind and kind != self._kind[0] and batch.name != self._kind[1]:
            numbers = {kind_of(target) for target in batch.targets}
            if self._kind[0] not in numbers:
                raise ValueError(
                    f"{batch.name}: the target {self.target!r} is {kind}, and {self._kind[0]} in "
                    f"{self._kind[1]}; the files of a log must have the same"
                )
        self._kind = self._kind or [kind, batch.name]
        return False

    def _read(self) -> Iterator[Batch]:
        """Yield what is in the files; only the thread runs this."""
        there, done = False, 0
        for path in self.paths:
            if self._stopped:
                return
            file = self._file = Opened(path)
            try:
                file.look(self._form, self.format.encoding)
                if file.form:
                    yield from self._records(file, done)
                    there = True
                    seen, found = file.hash()
                    if file.piped or seen == file.size:
                        self._hashes[path] = seen, found
            finally:
                file.close()
            done += file.size
        if not there:
            raise ValueError(f"{self.name} is empty")

    def _records(self, file: Opened, done: int) -> Iterator[Batch]:
        source = records_of(file, self.format, self._before)
        notes: list[str] = []
        if not self.columns:
            self.columns = columns_of(source)
            self.format = self.format.with_types(types_of(self.columns, self.format))
            source.use(self.format)
            notes += noted(self.columns, self.format)
        if isinstance(source, Lines) and file.form == "csv":
            notes.insert(0, f"read as {source.dialect}")
            self._before = source.dialect.decimal
            self.dialect = self.dialect or source.dialect
        if file.encoding != "utf-8":
            notes.append(f"{file.name} is {file.encoding}")
        for batch in source.batches():
            batch.name, batch.form, batch.notes, notes = file.name, file.form, notes, []
            read = file.size if file.form == "parquet" else min(file.position(), file.size)
            batch.done = done + int(read * source.share)
            batch.misfits = source.decoder.take_misfits()
            yield batch

    def look(self) -> list[Any]:
        """Infer the types of fields, and return the first targets; events are then read from the beginning.

        Raises
        ------
        ValueError
            If there is no event; the sentence says why.
        """
        found: list[Any] = []
        log = ReplayLog(self.paths, self.format, self._form)
        with contextlib.closing(log.batches()) as batches:
            for batch in batches:
                found += batch.targets
                if len(found) >= LOOK:
                    break
        self.format, self.columns, self.notes, self.dialect = log.format, log.columns, log.notes, log.dialect
        if not found:
            raise ValueError(
                f"{self.name} holds no events" + (f": {log.examples[0]}" if log.examples else "")
            )
        return found[:LOOK]

    def takes(self, name: str) -> bool:
        """Return whether a field is an input."""
        return self.format.decoder("json").takes(name)

    def stop(self) -> bool:
        """End the reading of a pipe with what has come; a file is read on, since that does not wait."""
        if self.paths != ["-"] and (self._file is None or not self._file.piped):
            return False
        self._stopped = True
        self._wake()
        return True

    @property
    def unreadable(self) -> int:
        """Records that cannot be decoded."""
        return self.broken.count

    @property
    def cut(self) -> bool:
        """Whether a file was not read to its end."""
        return self.broken.cut

    @property
    def unlabelled(self) -> int:
        """Records without a target."""
        return self.broken.unlabelled

    @property
    def examples(self) -> list[str]:
        """The first few that were left out, each with its place and why."""
        return [*self.broken.examples, *self.broken.bare][:EXAMPLES]

    def _wake(self) -> None:
        if self._file is not None:
            self._file.stop()

    def place(self, line: int, name: str | None = None) -> str:
        """Return how messages name a line of a file, or of the log if it is one file."""
        return f"{name or self.name}, {'line' if line else 'before line'} {line}"

    def fingerprint(self) -> dict[str, Any]:
        """Return names, sizes and SHA-256 of the files, and one of the log.

        That of a log of one file is the file's, as ``sha256sum`` prints it; of several it is that of theirs,
        a line each, in order. Files are read again as far as they were not read from beginning to end. Of
        a pipe it is what was read, and None before its end.
        """
        files = []
        for path in self.paths:
            if path not in self._hashes and not is_pipe(path):
                with Path(path).open("rb") as file:
                    self._hashes[path] = (
                        Path(path).stat().st_size,
                        hashlib.file_digest(file, "sha256").hexdigest(),
                    )
            size, found = self._hashes.get(path, (None, None))
            files.append({"name": path, "bytes": size, "sha256": found})
        one: Any = files[0]["sha256"]
        if len(files) > 1:
            one = hashlib.sha256("".join(f"{file['sha256']}\n" for file in files).encode()).hexdigest()
        return {"sha256": one, "files": files}
