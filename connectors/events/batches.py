"""What is read of a log at once: events, targets, lines, and what is broken."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import Any

from connectors.events.decoding import (
    WITHOUT_INPUT,
    Decoder,
    Event,
    EventFormat,
    Misfits,
    Record,
    Rejected,
    rejected,
)
from connectors.events.values import Fields
from streamk.arrays import AnyArray, Array

ROWS = 1000  # records of a batch, at most
BYTES = 1 << 22  # of a batch, about, where records are large
EXAMPLES = 5  # of broken records


@dataclass
class Broken:
    """Records that cannot be taken.

    Attributes
    ----------
    count
        Those that cannot be decoded, or have a target and no input.
    unlabelled
        Those without a target.
    cut
        Whether a file ends early, since it is damaged or cannot be read further.
    examples, bare
        Places and reasons of the first of the one, and of the other.
    """

    count: int = 0
    unlabelled: int = 0
    cut: bool = False
    examples: list[Rejected] = field(default_factory=list)
    bare: list[Rejected] = field(default_factory=list)

    def add(self, other: Broken) -> None:
        """Count what another counted after it."""
        self.count += other.count
        self.unlabelled += other.unlabelled
        self.cut = self.cut or other.cut
        self.examples += other.examples[: EXAMPLES - len(self.examples)]
        self.bare += other.bare[: EXAMPLES - len(self.bare)]

    def reasons(self) -> list[tuple[int, str]]:
        """Return a line and a sentence for each record, in order; the last ones share a sentence."""
        known = sorted((each.line, str(each)) for each in [*self.examples, *self.bare])
        more = self.count + self.unlabelled - len(known)
        return [*known, *[known[-1]] * more] if known else []

    def note(self, place: object, reason: str, count: int = 1) -> None:
        """Count a record that cannot be decoded, or several for one reason."""
        self.count += count
        if len(self.examples) < EXAMPLES:
            self.examples.append(rejected(place, reason))

    def miss(self, place: object, target: str, fields: Iterable[object]) -> None:
        """Count a record without a target."""
        self.unlabelled += 1
        if len(self.bare) < EXAMPLES:
            there = ", ".join(map(str, islice(fields, 20))) or "none"
            self.bare.append(rejected(place, f"the target {target!r} is missing; there are {there}"))


@dataclass
class BatchBuilder:
    """Collects the events of consecutive records of a file, and counts those that are skipped.

    Parameters
    ----------
    target
        The field to predict.
    labelled
        Whether records without a target, or with one and no input, are skipped.
    timed
        Whether events have times.
    place
        Returns how messages name a line.
    """

    target: str
    labelled: bool
    timed: bool
    place: Callable[[int], object]
    lines: list[int] = field(default_factory=list)
    targets: list[object] = field(default_factory=list)
    events: list[Fields] = field(default_factory=list)
    times: list[object] = field(default_factory=list)
    ordinals: list[int] = field(default_factory=list)
    broken: Broken = field(default_factory=Broken)

    @classmethod
    def of(cls, format: EventFormat, place: Callable[[int], object]) -> BatchBuilder:
        """Return a builder for records of a format."""
        return cls(format.target or "", format.labelled, format.time is not None, place)

    def add(self, ordinal: int, line: int, event: Event | str) -> None:
        """Take the event of a record, or why it cannot be decoded."""
        if isinstance(event, str):
            self.broken.note(self.place(line), event)
            return
        if event.target is None and self.labelled:
            self.broken.miss(self.place(line), self.target, event.fields)
            return
        if self.labelled and not event.fields:
            self.broken.note(self.place(line), WITHOUT_INPUT)
            return
        self.lines.append(line)
        self.ordinals.append(ordinal)
        self.targets.append(event.target)
        self.events.append(event.fields)
        self.times.append(event.time)

    def decode(self, decoder: Decoder, lines: Sequence[int], values: Sequence[bytes]) -> None:
        """Take the records with these bytes, decoded together where that is possible."""
        if (decoded := decoder.plain(values)) is not None:
            events, targets = decoded
            if not self.labelled or (None not in targets and all(events)):
                self.lines += lines
                self.ordinals += range(len(lines))
                self.events += events
                self.targets += targets
                self.times += [None] * len(lines)
                return
            for ordinal, (line, fields, target) in enumerate(zip(lines, events, targets, strict=True)):
                self.add(ordinal, line, Event(fields, target, None, None, None))
            return
        for ordinal, (line, value) in enumerate(zip(lines, values, strict=True)):
            try:
                self.add(ordinal, line, decoder(value))
            except ValueError as error:
                self.add(ordinal, line, str(error))

    def batch(self) -> RecordBatch:
        """Return what was collected."""
        batch = RecordBatch(self.lines, self.targets, self.events, self.times if self.timed else None)
        batch.broken, batch.ordinals = self.broken, self.ordinals
        return batch


class RecordBatch:
    """Consecutive records.

    Parameters
    ----------
    lines
        Of each record, the last if it has several; in Parquet the row, from 1.
    targets
        As :class:`connectors.events.decoding.Record` has them.
    events
        The fields, or a function that makes them.
    times
        The values of the time column, as they are written; None without one.
    names, matrix
        The fields as columns, where all of all events are numbers: what a learner takes as an array. The
        events are the same, and are made only on request.
    numbers
        The targets, where all are numbers.
    name, form
        Of the file.
    broken
        What was skipped among them, or before them.
    notes
        Sentences about the file that they begin.
    done
        Bytes of the log, as it is on disk, that were read for them and those before.
    misfits
        Values that do not fit the types of their columns.
    ends
        Where each record of the file ends that was read for the batch, also those that were skipped.
    ordinals
        Which of these the events are.
    """

    def __init__(
        self,
        lines: Sequence[int],
        targets: Sequence[Any] | Callable[[], Sequence[Any]],
        events: list[Fields] | Callable[[], list[Fields]],
        times: Sequence[Any] | None = None,
        names: list[str] | None = None,
        matrix: Array | None = None,
    ) -> None:
        self.lines, self.times, self.size = lines, times, 0
        self.names, self.matrix = names, matrix
        self.numbers: Array | None = None
        self._events, self._targets = events, targets
        self.name = self.form = ""
        self.broken = Broken()
        self.notes, self.done = list[str](), 0
        self.misfits: dict[str, Misfits] = {}
        self.ends: Sequence[int] | AnyArray = ()
        self.ordinals: Sequence[int] = range(len(lines))

    def __len__(self) -> int:
        return len(self.lines)

    @cached_property
    def events(self) -> list[Fields]:
        """The fields of each event, without the target."""
        return self._events() if callable(self._events) else self._events

    @cached_property
    def targets(self) -> Sequence[Any]:
        """The targets; of CSV strings, one for a number however it is written."""
        return self._targets() if callable(self._targets) else self._targets

    @classmethod
    def cut_off(cls, place: object, reason: str) -> RecordBatch:
        """Return an empty batch, after which the file cannot be read further."""
        batch = cls([], [], [])
        batch.broken.note(place, reason)
        batch.broken.cut = True
        return batch

    def before_broken(self) -> RecordBatch:
        """Return the records before the first that is broken."""
        line = self.broken.examples[0].line
        count = bisect_left(self.lines, line) if line else len(self)
        kept = RecordBatch(self.lines[:count], self.targets[:count], self.events[:count])
        kept.name, kept.notes, kept.done = self.name, self.notes, self.done
        return kept

    def records(self) -> Iterator[Record]:
        """Yield them one by one."""
        return map(Record, self.lines, self.events, self.targets)


def before_misfit(batch: RecordBatch, types: Mapping[str, str]) -> tuple[RecordBatch, str]:
    """Return the records before the first that may have a value that does not fit, and a sentence."""
    name, misfits = next(iter(batch.misfits.items()))
    missing = [row for row, event in enumerate(batch.events) if event.get(name) is None]
    count = missing[0] if missing else 0
    kept = RecordBatch(batch.lines[:count], batch.targets[:count], batch.events[:count])
    kept.name, kept.notes, kept.done = batch.name, batch.notes, batch.done
    line = batch.lines[count] if len(batch) else 0
    return kept, (
        f"{batch.name}, line {line} or later: {misfits.example!r} in {name} does not fit "
        f'"{types.get(name, "its type")}"; --type {name}=TYPE sets the type'
    )
