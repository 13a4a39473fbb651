"""Events and labels in two logs, joined by a key that is a text in both."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from connectors.events import Decoder, Event, Record, left_out
from connectors.files.log import SHOWN, Log
from connectors.files.reader import Reader
from connectors.replay.reading import interpret
from connectors.stream import Raw
from streamk.prequential.moments import moment

_EXACT = 2.0**53  # from here on, several whole numbers are one float


def key_text(value: Any) -> str:
    """Return a key as the text by which events and labels are joined.

    Texts are as they are written, whole numbers are their digits, so ``12``, ``12.0`` and ``"12"`` of JSON
    are one key. CSV has only texts (:class:`KeyedLog`), in which ``0012`` and ``12`` are two.

    Raises
    ------
    ValueError
        If it is missing, no text or number, or a float that may stand for several whole numbers.

    Examples
    --------
    >>> [key_text(value) for value in ("0012", 12, 12.0, 1.5, 1234567890123456789)]
    ['0012', '12', '12', '1.5', '1234567890123456789']
    """
    if isinstance(value, str) and value:
        return value
    if isinstance(value, float) and abs(value) < _EXACT:
        return str(int(value)) if value.is_integer() else repr(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if value is None or value == "":
        raise ValueError("is missing")
    if isinstance(value, float):
        raise ValueError(f"is {value!r}, which is no exact number; write it as a text")
    raise ValueError(f"is {str(value)[:40]}; a key is a text or a whole number")


class _AsWritten(Decoder):
    """It leaves one column of CSV as it is written."""

    def __init__(self, target: str | None, key: str, columns: list[str], delimiter: str) -> None:
        super().__init__("csv", target, columns=columns, delimiter=delimiter)
        self._named, self._at, self._delimiter = key, columns.index(key), delimiter

    def __call__(self, value: bytes) -> Event:
        event = super().__call__(value)
        event.fields[self._named] = next(csv.reader([value.decode()], delimiter=self._delimiter))[self._at]
        return event


class KeyedLog(Log):
    """A log on disk whose records have keys, which stay as they are written.

    Parameters
    ----------
    path, target, lenient
        See :class:`connectors.files.log.Log`.
    key
        The field of keys.
    labelled
        Whether it is one of labels; else CSV needs no column of the target.
    """

    def __init__(
        self, path: str | Path, target: str, key: str, lenient: bool = False, labelled: bool = False
    ) -> None:
        super().__init__(path, target, lenient=lenient, labelled=labelled)
        self.key = key
        self.unclaimed = 0

    def never(self, events: int, labels: Sequence[str]) -> None:
        """Count events whose labels never came, and labels, by their places, that no event waited for."""
        self.unlabelled, self.unclaimed = events, len(labels)
        if labels and len(self.examples) < SHOWN:
            self.examples.append(f"{labels[0]}: no event of its key waited for it")

    def left_out(self) -> str:
        """Return what was left out, as a sentence; empty if nothing was."""
        told = [left_out(self.unreadable, 0)] if self.unreadable else []
        if self.unlabelled:
            told.append(f"{self.unlabelled:,} event{'s' * (self.unlabelled > 1)} whose label never came")
        if self.unclaimed:
            told.append(f"{self.unclaimed:,} label{'s' * (self.unclaimed > 1)} that no event waited for")
        return "; ".join(told)

    def decoder_of(self, reader: Reader) -> Decoder:
        """Return the decoder of the records of a file."""
        if reader.columns is None:
            return super().decoder_of(reader)
        if self.key not in reader.columns:
            raise ValueError(f"there is no column {self.key!r}; there are {', '.join(reader.columns)}")
        target = self.target if self._labelled or self.target in reader.columns else None
        return _AsWritten(target, self.key, reader.columns, reader.delimiter)


class Label(NamedTuple):
    """A record of a label log: where it is, when it came, of what event it is, and what it says.

    ``wrong`` says why it cannot be taken, its place included; it is empty if it can be.
    """

    place: str
    time: float = 0.0
    key: str = ""
    label: Any = None
    wrong: str = ""


class _LabelLog(KeyedLog):
    """A log of labels, which goes on after records that cannot be read, and gives them with the reason."""

    def record(self, line: int, record: Raw, decode: Decoder) -> Record | None:
        """Return the label of a record; its target is the error if there is one."""
        try:
            return super().record(line, record, decode)
        except ValueError as error:
            return Record(line, {}, error)


def labels_of(path: str, target: str, key: str, time: str | None, task: str | None = None) -> Iterator[Label]:
    """Yield every record of a label log, with time 0 where no field of times is given.

    Labels are read as the task needs them, and left as they are without one. Where the log cannot be read
    further, that is the last record.
    """
    log = _LabelLog(path, target, key, labelled=True)
    try:
        for record in log:
            yield _label(record, log, time, task)
    except ValueError as error:
        yield Label(path, wrong=str(error))


def _label(record: Record, log: KeyedLog, time: str | None, task: str | None) -> Label:
    place = log.place(record.line)
    if isinstance(record.target, ValueError):
        return Label(place, wrong=str(record.target))
    try:
        at = 0.0 if time is None else moment(record.fields.get(time))
    except ValueError as error:
        return Label(place, wrong=f"{place}: field {time!r}: {error}")
    try:
        key = key_text(record.fields.get(log.key))
    except ValueError as error:
        return Label(place, wrong=f"{place}: the key {log.key!r} {error}")
    try:
        label = record.target if task is None else interpret(record, log, task)[1]
    except ValueError as error:
        return Label(place, wrong=str(error))
    return Label(place, at, key, label)
