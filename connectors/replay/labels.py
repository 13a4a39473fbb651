"""Labels that are logged apart from their events, joined on a key."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from connectors.events import Record
from connectors.files.log import Log
from connectors.replay.reading import LOOK, interpret
from streamk.encoding.fields import Event
from streamk.prequential import Contest
from streamk.prequential.late import Refuse, fail, tell
from streamk.prequential.moments import moment


def labels_of(
    path: str, target: str, key: str, time: str | None, task: str | None = None
) -> Iterator[tuple[float, Hashable, Any]]:
    """Yield time (0 without a field of times), key and label of every record of a label log.

    Labels are read as the task needs them, and left as they are without one.

    Raises
    ------
    ValueError
        If a record lacks its key, its time or the target, or this is no number where one is needed; the line
        is named.
    """
    log = Log(path, target)
    for record in log:
        try:
            at = 0.0 if time is None else moment(record.fields.get(time))
        except ValueError as error:
            raise ValueError(f"{log.place(record.line)}: field {time!r}: {error}") from None
        if (found := record.fields.get(key)) is None:
            raise ValueError(f"{log.place(record.line)}: the key {key!r} is missing")
        yield at, found, record.target if task is None else interpret(record, log, task)[1]


class Joined:
    """A log whose targets are in another one, all of which is read first.

    Parameters
    ----------
    log
        Of events, which gives those without a target.
    path, key
        The label log, and the field that both have. It is taken out of the events.
    """

    def __init__(self, log: Any, path: str, key: str) -> None:
        self._log, self._key = log, key
        self.name, self.target, self.size = log.name, log.target, log.size
        self._labels = {found: label for _, found, label in labels_of(path, log.target, key, None)}
        self.unjoined = 0
        self.place = log.place

    @property
    def done(self) -> int:
        """How much has been read, of ``size``."""
        return int(self._log.done)

    @property
    def examples(self) -> list[str]:
        """The first few records that were left out."""
        return list(self._log.examples)

    @property
    def unreadable(self) -> int:
        """Records that could not be read."""
        return int(self._log.unreadable)

    @property
    def unlabelled(self) -> int:
        """Events without a label."""
        return self.unjoined

    def left_out(self) -> str:
        """Return what was left out, as a sentence; empty if nothing was."""
        told = [self._log.left_out()] if self._log.left_out() else []
        if self.unjoined:
            told.append(f"{self.unjoined:,} events have no label")
        return "; ".join(told)

    def __iter__(self) -> Iterator[Record]:
        for line, fields, _ in self._log:
            label = self._labels.get(fields.pop(self._key, None))
            if label is None:
                self.unjoined += 1
                continue
            yield Record(line, fields, label)


@dataclass
class ByLabels:
    """Targets come when a label log says: before the first event that is not earlier.

    A label that comes before its event is kept for it. Events must be in the order of their times, and so
    must labels.

    Parameters
    ----------
    path, target, key, time
        The label log, and the fields that say the label, what event it is of, and when it came; events have
        the last two, too, which are taken out of them.
    """

    path: str
    target: str
    key: str
    time: str
    task: str | None = None
    count: int = 0
    read: int = 0
    _early: dict[Hashable, Any] = field(default_factory=dict)
    _next: tuple[float, Hashable, Any] | None = None
    _stream: Any = None

    def __str__(self) -> str:
        return f"of {self.path}, joined by {self.key}, when they come by {self.time}"

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_stream": None}  # it is opened again, at the same record

    def look(self) -> list[Any]:
        """Return the first labels, from which the task is told."""
        stream = labels_of(self.path, self.target, self.key, self.time)
        return [label for _, _, label in islice(stream, LOOK)]

    def _upcoming(self) -> tuple[float, Hashable, Any] | None:
        """Return the next label, None if there is none."""
        if self._next is None:
            if self._stream is None:
                self._stream = labels_of(self.path, self.target, self.key, self.time, self.task)
                for _ in range(self.read):
                    next(self._stream, None)
            self._next = next(self._stream, None)
            self.read += self._next is not None
        return self._next

    def _bring(self, contest: Contest, until: float, refuse: Refuse) -> None:
        while (found := self._upcoming()) is not None and found[0] <= until:
            self._next = None
            _, key, label = found
            if key in contest.asked:
                tell(contest, key, label, refuse)
            else:
                self._early[key] = label

    def event(self, contest: Contest, x: Event, y: Any, refuse: Refuse = fail) -> None:
        """Bring the labels that have come by the time of an event, and ask for it."""
        fields = dict(x)
        key, now = fields.pop(self.key, None), moment(fields.pop(self.time, None))
        if key is None:
            raise ValueError(f"the key {self.key!r} is missing")
        self._bring(contest, now, refuse)
        early = (self._early.pop(key),) if key in self._early else ()
        contest.ask(key, fields)
        self.count += 1
        for label in early:
            tell(contest, key, label, refuse)

    def end(self, contest: Contest, refuse: Refuse = fail) -> None:
        """Bring all labels that are left."""
        self._bring(contest, float("inf"), refuse)
