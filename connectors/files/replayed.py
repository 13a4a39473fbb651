"""A log as it is replayed: files and pipes in order, read ahead in a thread."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from connectors.events import Decoder, left_out
from connectors.files.ahead import Ahead
from connectors.files.batches import EXAMPLES, Batch, Broken
from connectors.files.lines import Lines
from connectors.files.log import DecoderOf
from connectors.files.maps import Maps
from connectors.files.names import files_of
from connectors.files.opening import Opened, is_pipe, size_of
from connectors.files.row_groups import RowGroups
from connectors.values import MISSING, kind_of


class ReplayLog:
    r"""A log to be read in order, batch by batch.

    Each file is CSV, JSON lines, MessagePack or Parquet, plain, gzip or zstd, as its first bytes tell. A
    record that cannot be decoded is counted and left out, and so is one without a target.

    Parameters
    ----------
    files
        Names and patterns, in order (:func:`connectors.files.names.files_of`); ``-`` alone is standard input.
    target
        The field to predict.
    time
        A field that says when; it is no feature.
    ignore
        Other fields that are no features.
    form
        ``"csv"``, ``"json"``, ``"msgpack"`` or ``"parquet"``, if it is not to be told.
    delimiter, decimal, missing
        Of CSV: what is between values, ``.`` or ``,`` before fractions, and texts that are no value. ``None``
        and ``?`` are texts like any other; so is ``NA`` with ``missing=("",)``.
    strict
        Whether a record that cannot be decoded, or a file that is cut short, ends the reading.
    decoder
        Makes the decoder of the daemon's settings instead of all this; slower.

    Attributes
    ----------
    broken
        What was left out so far.
    said
        Sentences about how files are read, each once.
    records
        Events so far.
    done, size
        Bytes read of the files, and of all of them; 0 of pipes.

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
    >>> log.said
    ['read as CSV with semicolons between values and decimal commas; --delimiter and --decimal change that']
    """

    def __init__(
        self,
        files: str | Path | Sequence[str | Path],
        target: str,
        time: str | None = None,
        ignore: Sequence[str] = (),
        form: str | None = None,
        delimiter: str | None = None,
        decimal: str | None = None,
        missing: Sequence[str] = MISSING,
        strict: bool = False,
        decoder: DecoderOf | None = None,
    ) -> None:
        given = [str(file) for file in ([files] if isinstance(files, str | Path) else files)]
        self.name, self.target = " ".join(given), target
        self.paths = given if given == ["-"] else files_of(given)
        if "-" in self.paths and len(self.paths) > 1:
            raise ValueError("standard input, -, is read alone")
        self.size = sum(map(size_of, self.paths))
        self._time, self._ignore, self._form, self._decoder = time, tuple(ignore), form, decoder
        self._delimiter, self._decimal, self._missing = delimiter, decimal, missing
        self._strict = strict
        self.broken, self.said, self.records, self.done = Broken(), list[str](), 0, 0
        self._kind: list[str] = []  # of targets, and which file had it first
        self._file: Opened | None = None  # the thread's
        self._hashes: dict[str, tuple[int, str]] = {}
        self._before, self._stopped = ".", False

    def batches(self) -> Iterator[Batch]:
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
                self.records += len(batch)
                self.done = batch.done
                self.said += [sentence for sentence in batch.said if sentence not in self.said]
                yield batch

    def _check(self, batch: Batch, empty: bool) -> bool:
        """Check the targets of a batch; return whether no events have come so far."""
        if not len(batch):
            named = batch.form in ("csv", "parquet")  # the column is there, if without a value
            if empty and batch.broken.bare and not self.records and not named:
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
            file = self._file = Opened(path, self._form)
            try:
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
        try:
            source = self._source(file)
        except ValueError as error:
            raise ValueError(f"{file.name}: {error}") from None
        said = []
        if isinstance(source, Lines) and file.form == "csv":
            said = [f"read as {source.dialect}"]
            self._before = source.dialect.decimal
        for batch in source.batches():
            batch.name, batch.form, batch.said, said = file.name, file.form, said, []
            batch.done = done + min(file.position(), file.size)
            yield batch

    def _source(self, file: Opened) -> Any:
        if file.form == "parquet":
            return RowGroups(file, self.target, self._time, self._ignore)
        if file.form == "msgpack":
            decode = (
                Decoder("msgpack", self.target, time=self._time, ignore=self._ignore)
                if self._decoder is None
                else self._decoder("msgpack", None, "")
            )
            return Maps(file, decode, self.target, self._time is not None)
        return Lines(
            file, self.target, self._time, self._ignore, self._delimiter, self._decimal, self._missing,
            self._decoder, self._before,
        )  # fmt: skip

    @property
    def piped(self) -> bool:
        """Whether it reads a pipe, which may come slowly and for ever."""
        return self.paths == ["-"] or (self._file is not None and self._file.piped)

    def stop(self) -> None:
        """Let the reading of a pipe end with what has come."""
        self._stopped = True
        self._wake()

    @property
    def unreadable(self) -> int:
        """Records that cannot be decoded."""
        return self.broken.count

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

    def left_out(self) -> str:
        """Return what was left out, as a sentence; empty if nothing was."""
        return left_out(self.broken.count, self.broken.unlabelled)

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
