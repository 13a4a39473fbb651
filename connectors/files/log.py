"""A log as it is replayed: files and pipes in order, prefetched in a thread."""

from __future__ import annotations

import contextlib
import glob
import hashlib
import re
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Generic, TypeVar

from connectors.contract.records import Log
from connectors.events.batches import Broken, RecordBatch, before_misfit
from connectors.events.decoding import EventFormat, Location, Misfits
from connectors.events.model_files import LearnedFields, Stored, stored_of
from connectors.events.names import near_file
from connectors.events.schema import LOOK, ColumnProfiles
from connectors.events.targets import sentence_about
from connectors.events.values import Fields, kind_of
from connectors.formats.addresses import expanded, is_address, local, shown
from connectors.formats.dialect import Dialect
from connectors.formats.lines import Lines
from connectors.formats.open_file import OpenFile, is_pipe, size_of
from connectors.formats.records import (
    Records,
    columns_of,
    missing_fields,
    noted,
    records_of,
    require_inputs,
    types_of,
)

_DEPTH, _BYTES = 4, 1 << 24  # items that wait, and their size
T = TypeVar("T")


class Prefetcher(Generic[T]):
    """An iterator whose items are made in a thread, in the same order; an exception comes in its place.

    Parameters
    ----------
    items
        What to take from; only the thread touches it, and closes it.
    size
        Of an item, in bytes.
    wake
        Ends a wait inside of ``items``, called from the consumer's thread.
    depth, most
        Items, and bytes, that may wait; one item may always.

    Examples
    --------
    >>> with Prefetcher(iter(range(5)), lambda item: 1) as ahead:
    ...     list(ahead)
    [0, 1, 2, 3, 4]
    """

    def __init__(
        self,
        items: Iterator[T],
        size: Callable[[T], int],
        wake: Callable[[], None] = lambda: None,
        depth: int = _DEPTH,
        most: int = _BYTES,
    ) -> None:
        self._items, self._size, self._wake = items, size, wake
        self._depth, self._most = depth, most
        self._waiting: deque[tuple[T, int]] = deque()
        self._bytes, self._stopped, self._ended = 0, False, False
        self._error: BaseException | None = None
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="streamk prefetch", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            for item in self._items:
                size = self._size(item)
                with self._changed:
                    self._changed.wait_for(partial(self._may_add, size))
                    if self._stopped:
                        break
                    self._waiting.append((item, size))
                    self._bytes += size
                    self._changed.notify_all()
        except BaseException as error:
            self._error = error
        finally:
            close = getattr(self._items, "close", None)
            try:
                if close is not None:
                    close()
            finally:
                with self._changed:
                    self._ended = True
                    self._changed.notify_all()

    def _may_add(self, size: int) -> bool:
        fits = len(self._waiting) < self._depth and self._bytes + size <= self._most
        return self._stopped or not self._waiting or fits

    def __iter__(self) -> Prefetcher[T]:
        return self

    def __next__(self) -> T:
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._ended)
            if self._waiting:
                item, size = self._waiting.popleft()
                self._bytes -= size
                self._changed.notify_all()
                return item
            error, self._error = self._error, None
        if error is not None and not self._stopped:
            raise error
        raise StopIteration

    def close(self) -> None:
        """End the thread, and wait until it has closed what it reads."""
        with self._changed:
            self._stopped = True
            self._waiting.clear()
            self._changed.notify_all()
        self._wake()
        self._thread.join()

    def __enter__(self) -> Prefetcher[T]:
        return self

    def __exit__(self, *details: object) -> None:
        self.close()


def files_of(patterns: Sequence[str]) -> list[str]:
    """Return the files that names and patterns stand for, in their order, each once.

    Those of one pattern are sorted by name, numbers in names by their value: ``log-2`` is before ``log-10``.

    Raises
    ------
    ValueError
        If a pattern stands for none.
    """
    files: dict[str, None] = {}
    for pattern in patterns:
        if is_address(pattern):
            several = sorted(expanded(pattern), key=_by_number) if "*" in pattern else [pattern]
            if not several:
                raise ValueError(f"{shown(pattern)}: there is no such file")
            files |= dict.fromkeys(several)
        elif not Path(pattern).exists() and glob.has_magic(pattern):
            matches = glob.glob(pattern, recursive=True)  # noqa: PTH207  # Path.glob takes no absolute ones
            paths = [path for path in matches if Path(path).is_file()]
            if not paths:
                raise ValueError(f"{pattern}: there is no such file")
            files |= dict.fromkeys(sorted(paths, key=_by_number))
        else:
            if Path(pattern).is_dir():
                raise ValueError(f"{pattern} is a directory; name its files, as {pattern.rstrip('/')}/*.csv")
            _require(Path(pattern))
            files[pattern] = None
    return list(files)


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


class ReplayLog(Log):
    r"""A log to be read in order, batch by batch.

    Each file is CSV, JSON lines, MessagePack or Parquet, plain or compressed, by its first bytes. The
    types of fields are inferred from the first records of the first file that has any. Records that cannot
    be decoded are skipped and counted, and so are those without a target.

    Parameters
    ----------
    files
        Names and patterns, in order (:func:`connectors.files.log.files_of`); ``-`` alone is standard input.
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
    learned
        The fields that a model has learned, which those of each file are compared with.

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
        names = [str(file) for file in ([files] if isinstance(files, str | Path) else files)]
        self.format = EventFormat(format) if isinstance(format, str) else format
        self.name, self.target = " ".join(map(shown, names)), self.format.target or ""
        self.paths = names if names == ["-"] else files_of(names)
        if "-" in self.paths and len(self.paths) > 1:
            raise ValueError("standard input, -, is read alone")
        self.size = sum(map(size_of, self.paths))
        self._form, self._strict = form, strict
        self.broken, self.notes, self.events, self.done = Broken(), list[str](), 0, 0
        self.columns = ColumnProfiles()
        self.dialect: Dialect | None = None
        self.learned: LearnedFields | None = None
        self.misfits: dict[str, Misfits] = {}
        self._kind: list[str] = []  # of targets, and which file had it first
        self._file: OpenFile | None = None  # the thread's
        self._hashes: dict[str, tuple[int, str]] = {}
        self._before: str | None = None  # the decimal mark of the file before
        self._stopped = False

    def batches(self) -> Generator[RecordBatch, None, None]:
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
        with Prefetcher(self._read(), lambda batch: batch.size, self._wake) as ahead:
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
                for name, misfits in batch.misfits.items():
                    self.misfits.setdefault(name, Misfits()).add(misfits)
                if self._strict and batch.misfits:
                    kept, sentence = before_misfit(batch, self.format.types)
                    if len(kept):
                        yield kept
                    raise ValueError(sentence)
                yield batch

    def _check(self, batch: RecordBatch, empty: bool) -> bool:
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

    def _read(self) -> Iterator[RecordBatch]:
        """Yield what is in the files; only the thread runs this."""
        there, done = False, 0
        for path in self.paths:
            if self._stopped:
                return
            file = self._file = OpenFile(path)
            try:
                file.look(self._form, self.format)
                if file.form:
                    yield from self._records(file, done)
                    there = True
                    seen, digest = file.hash()
                    if file.piped or seen == file.size:
                        self._hashes[path] = seen, digest
            finally:
                file.close()
            done += file.size
        if not there:
            raise ValueError(f"{self.name} is empty")

    def _records(self, file: OpenFile, done: int) -> Iterator[RecordBatch]:
        source = records_of(file, self.format, self._before)
        notes: list[str] = []
        if not self.columns:
            self.columns = columns_of(source)
            require_inputs(self.columns, self.format)
            stored = () if self.learned is None else self.learned.read
            notes += missing_fields(self.columns, self.format, stored)
            known = self.format.types
            self.format = self.format.with_types(types_of(self.columns, self.format))
            source.use(self.format)
            types = self.format.types
            inferred = [each for each in self.columns if known.get(each.name) != types.get(each.name)]
            notes += [*noted(inferred, self.format), *self.columns.notes]
        if isinstance(source, Lines) and file.form == "csv":
            self._before = source.dialect.decimal
            self.dialect = self.dialect or source.dialect
            notes[:0] = self._of_dialect(source.dialect, file)
        if self.learned is not None:
            notes += self._compared(self.learned, source, file)
        if file.encoding != "utf-8":
            notes.append(f"{file.name} is {file.encoding}")
        notes = [*file.notes, *notes]
        for batch in source.batches():
            batch.name, batch.form, batch.notes, notes = file.name, file.form, notes + source.notes, []
            source.notes = []
            read = file.size if file.form == "parquet" else min(file.position(), file.size)
            batch.done = done + int(read * source.share)
            batch.misfits = source.decoder.take_misfits()
            yield batch

    def _of_dialect(self, dialect: Dialect, file: OpenFile) -> list[str]:
        """Return sentences on a dialect that was inferred, if it is not the one that a model has learned."""
        format = self.format
        if format.delimiter and format.decimal:
            return []
        learned = None if format.dialect is None else Dialect(*format.dialect)
        if dialect == learned:
            return []
        return [
            *([f"read as {dialect}"] if file.delimiter is None else []),
            *([f"the model has learned {learned}"] if learned is not None else []),
        ]

    def _compared(self, learned: LearnedFields, source: Records, file: OpenFile) -> list[str]:
        """Return sentences on the fields of a file that a model has not learned, or misses."""
        names = [column.name for column in columns_of(source)]
        format, nested = self.format, file.form not in ("csv", "parquet")
        gone = {*format.roles, *format.verbatim}
        new = [name for name in names if name not in gone and source.decoder.takes(name)]
        return learned.compare(file.name, names, new, nested) if names else []

    @property
    def inputs(self) -> list[str]:
        """The fields of the first records that are inputs."""
        gone = {*self.format.roles, *self.format.verbatim}
        takes = self.format.decoder("json").takes
        return [column.name for column in self.columns if column.name not in gone and takes(column.name)]

    def stored(self) -> Stored:
        """Return what a model file stores of how this log is read."""
        format = self.format
        dialect = format.dialect if self.dialect is None else list(self.dialect)
        return stored_of(replace(format, dialect=dialect), self.inputs)

    def look(self) -> list[object]:
        """Infer the types of fields, and return the first targets; events are then read from the start.

        Raises
        ------
        ValueError
            If there is no event; the sentence says why.
        """
        targets: list[object] = []
        log = ReplayLog(self.paths, self.format, self._form)
        log.learned = self.learned
        with contextlib.closing(log.batches()) as batches:
            for batch in batches:
                targets += batch.targets
                if len(targets) > LOOK:
                    break
        self.format, self.columns, self.notes, self.dialect = log.format, log.columns, log.notes, log.dialect
        if not targets:
            raise ValueError(
                f"{self.name} holds no events" + (f": {log.examples[0]}" if log.examples else "")
            )
        if log.unreadable:
            what = f"{log.unreadable:,} of the first {log.events + log.unreadable:,} records cannot be read"
            self.notes = [*self.notes, f"{what}: {log.examples[0]}"]
        known = [target for target in targets[:LOOK] if target is not None]
        if sentence := sentence_about(known, self.target, more=len(targets) > LOOK):
            self.notes = [*self.notes, sentence]
        return targets[:LOOK]

    def stop(self) -> bool:
        """End the reading of a pipe with what has come; a file is read on, since that does not wait."""
        if self.paths != ["-"] and (self._file is None or not self._file.piped):
            return False
        self._stopped = True
        self._wake()
        return True

    def _wake(self) -> None:
        if self._file is not None:
            self._file.stop()

    def place(self, line: int, name: str | None = None) -> Location:
        """Return what names a line of a file in messages, or of the log if it is one file."""
        return Location(name or self.name, line)

    def fingerprint(self) -> Fields:
        """Return names, sizes and SHA-256 of the files, and one of the log.

        That of a log of one file is the file's, as ``sha256sum`` prints it; of several it is that of theirs,
        a line each, in order. Files are read again as far as they were not read from start to end. Of
        a pipe it is what was read, and None before its end.
        """
        files = []
        for path in self.paths:
            if path not in self._hashes and not is_pipe(path):
                with Path(local(path)).open("rb") as file:
                    self._hashes[path] = size_of(path), hashlib.file_digest(file, "sha256").hexdigest()
            size, digest = self._hashes.get(path, (None, None))
            files.append({"name": shown(path), "bytes": size, "sha256": digest})
        one: object = files[0]["sha256"]
        if len(files) > 1:
            one = hashlib.sha256("".join(f"{file['sha256']}\n" for file in files).encode()).hexdigest()
        return {"sha256": one, "files": files}
