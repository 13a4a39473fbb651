"""A log on disk as events to replay, read and decoded as by the daemon."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from connectors.events import Decoder, Record, left_out
from connectors.files.reader import DamagedError, Reader
from connectors.stream import Raw

SHOWN = 5  # records left out of which it is said why
DecoderOf = Callable[[str, list[str] | None, str], Decoder]  # of a form, columns and what is between values


class Log:
    """A log to be read once, in order.

    Parameters
    ----------
    path
        The file, or ``-`` for standard input.
    target
        The field to predict; it is taken out of the events.
    decoder
        Makes the decoder, if not every other field is a feature; a record that it refuses, or that has no
        target, is then left out and counted, and else ends the reading.
    form
        ``"json"`` or ``"csv"``; told from the first line if it is None.
    lenient
        Whether a record that cannot be taken is counted and left out. Then, and of what a decoder refuses,
        ``examples`` holds the first few as sentences.
    labelled
        Whether every record must have a target; else it is None where there is none.
    """

    def __init__(
        self,
        path: str | Path,
        target: str,
        decoder: DecoderOf | None = None,
        form: str | None = None,
        lenient: bool = False,
        labelled: bool = True,
    ) -> None:
        self.name, self.target = str(path), target
        self._decoder, self._form = decoder, form
        self._lenient, self._labelled = lenient or decoder is not None, labelled
        self.examples: list[str] = []
        self._raw: BinaryIO | None = None
        self._shown = "standard input" if self.name == "-" else self.name
        self.size = 0 if self.name == "-" else Path(path).stat().st_size
        self.unreadable = self.unlabelled = 0

    def left_out(self) -> str:
        """Return what was left out, as a sentence; empty if nothing was."""
        return left_out(self.unreadable, self.unlabelled)

    @property
    def done(self) -> int:
        """Return how many bytes of the file have been read."""
        if self._raw is None:
            return 0
        if self._raw.closed:
            return self.size
        return self._raw.tell() if self._raw.seekable() else 0

    def __iter__(self) -> Iterator[Record]:
        name = self._shown
        with sys.stdin.buffer if self.name == "-" else Path(self.name).open("rb") as raw:
            self._raw = raw
            try:
                reader = Reader(raw, name, self._form)
            except DamagedError as error:
                raise ValueError(f"{name}, after line 0: {error}") from None
            try:
                decode = self.decoder_of(reader)
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from None
            try:
                for record in reader.records():
                    if (found := self.record(reader.line, record, decode)) is not None:
                        yield found
            except DamagedError as error:
                raise ValueError(f"{name}, after line {reader.line}: {error}") from None

    def decoder_of(self, reader: Reader) -> Decoder:
        """Return the decoder of the records of a file."""
        if self._decoder is not None:
            return self._decoder(reader.form, reader.columns, reader.delimiter)
        return Decoder(reader.form, self.target, columns=reader.columns, delimiter=reader.delimiter)

    def record(self, line: int, record: Raw, decode: Decoder) -> Record | None:
        """Return the event of a record, None if it is left out."""
        try:
            event = decode(record.value or b"")
        except ValueError as error:
            self._leave_out(f"{self.place(line)}: {error}")
            self.unreadable += 1
            return None
        if event.target is None and self._labelled:
            there = ", ".join(map(str, event.fields)) or "none"
            self._leave_out(f"{self.place(line)}: the target {self.target!r} is missing; there are {there}")
            self.unlabelled += 1
            return None
        return Record(line, event.fields, event.target)

    def _leave_out(self, sentence: str) -> None:
        """Raise a ValueError, or keep the sentence as one of the first."""
        if not self._lenient:
            raise ValueError(sentence)
        if len(self.examples) < SHOWN:
            self.examples.append(sentence)

    def place(self, line: int) -> str:
        """Return how messages name a line of this log."""
        return f"{self._shown}, line {line}"
