"""Events and labels in two logs, joined by a key that is a string in both."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from connectors.events.batches import EXAMPLES
from connectors.events.decoding import EventFormat, Record, rejected, skipped
from connectors.events.targets import interpret
from connectors.files.log import ReplayLog
from streamk.evaluation.label_delay import moment

_EXACT = 2.0**53  # from here on, several whole numbers are one float


def key_text(value: object) -> str:
    """Return a key as the string by which events and labels are joined.

    Strings are unchanged and whole numbers become their digits, so ``12``, ``12.0`` and ``"12"`` of JSON are
    one key. CSV has only strings, so ``0012`` and ``12`` are two keys.

    Raises
    ------
    ValueError
        If it is missing, no string or number, or a float that may stand for several whole numbers.

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


class KeyedLog(ReplayLog):
    """A log on disk whose records have keys, which are read verbatim.

    Parameters
    ----------
    files, format, strict
        See :class:`connectors.files.log.ReplayLog`; ``verbatim`` of the format begins with the key.
    """

    def __init__(self, files: str | Sequence[str], format: EventFormat, strict: bool = False) -> None:
        super().__init__(files, format, strict=strict)
        self.key = format.verbatim[0]
        self.never_labelled = self.unclaimed = 0
        self._unclaimed: list[str] = []

    def never(self, events: int, labels: Sequence[str]) -> None:
        """Count events whose labels never came, and labels, by their places, that no event waited for."""
        self.never_labelled, self.unclaimed = events, len(labels)
        self._unclaimed = [f"{place}: no event of its key waited for it" for place in labels[:1]]

    @property
    def unlabelled(self) -> int:
        """Events whose labels never came."""
        return self.never_labelled

    @property
    def examples(self) -> list[str]:
        """The first few records that were skipped."""
        return [*super().examples, *self._unclaimed][:EXAMPLES]

    def left_out(self) -> str:
        """Return what was skipped, as a sentence; empty if nothing was."""
        sentences = [skipped(self.unreadable, 0)] if self.unreadable else []
        if self.never_labelled:
            sentences.append(
                f"{self.never_labelled:,} event{'s' * (self.never_labelled > 1)} whose label never came"
            )
        if self.unclaimed:
            sentences.append(f"{self.unclaimed:,} label{'s' * (self.unclaimed > 1)} that no event waited for")
        return "; ".join(sentences)


class Label(NamedTuple):
    """A record of a label log: its place, its time, the key of its event, and its label.

    ``wrong`` is the error of an invalid record, with its place; it is empty if the record is valid.
    """

    place: str
    time: float = 0.0
    key: str = ""
    label: object = None
    wrong: str = ""


def labels_of(path: str, format: EventFormat, time: str | None, task: str | None = None) -> Iterator[Label]:
    """Yield every record of a label log, with time 0 without a field of times.

    Labels are converted for the task, and unchanged without one. If the log cannot be read further, the last
    record holds the error.

    Parameters
    ----------
    path, time, task
        The log, the field of times, and the task.
    format
        Of labels; ``verbatim`` begins with the key.
    """
    try:
        log = KeyedLog(path, format)
        for batch in log.batches():
            reasons = batch.broken.reasons()
            for record in batch.records():
                while reasons and reasons[0][0] < record.line:
                    yield Label(path, wrong=reasons.pop(0)[1])
                yield _label(record, log, time, task)
            yield from (Label(path, wrong=sentence) for _, sentence in reasons)
    except ValueError as error:
        yield Label(path, wrong=str(error))


def _label(record: Record, log: KeyedLog, time: str | None, task: str | None) -> Label:
    place = log.place(record.line)
    try:
        at = 0.0 if time is None else moment(record.fields.get(time))
    except ValueError as error:
        return Label(str(place), wrong=rejected(place, f"field {time!r}: {error}"))
    try:
        key = key_text(record.fields.get(log.key))
    except ValueError as error:
        return Label(str(place), wrong=rejected(place, f"the key {log.key!r} {error}"))
    try:
        label = record.target if task is None else interpret(record, log, task)[1]
    except ValueError as error:
        return Label(str(place), wrong=str(error))
    return Label(str(place), at, key, label)
