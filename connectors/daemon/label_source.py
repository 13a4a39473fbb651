"""A source and the labels of its events, which come in separate records, as one source.

Each partition of events has a partition of labels. Their records are merged by time: a label comes before
the first event that is not earlier, as in a replay with ``--labels`` and ``--time``. So two logs have one
order, however fast either is read. While one of them has no record, the other waits until the first has been
read to its end, as it is once the record has come. A label that comes later than that is passed on when it
comes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from connectors.contract.records import (
    MARK_OF_LABELS,
    MOST,
    Assigned,
    Committed,
    LabelReader,
    Polled,
    Raw,
    RawBatch,
    Source,
    with_mark_of_labels,
)
from connectors.events.decoding import Decoder
from streamk.evaluation.label_delay import moment

_AHEAD = 5 * MOST  # events that wait for the labels before them, from which on few more are read


class Clock:
    """Returns the times of records.

    Parameters
    ----------
    decoder
        Returns the decoder of the records, which says in which field the time is; None if the times of the
        records count.

    Examples
    --------
    >>> Clock(None)(Raw(0, b"", timestamp=1500))
    1.5
    """

    def __init__(self, decoder: Callable[[], Decoder] | None) -> None:
        self._decoder = decoder
        self._copies: tuple[Decoder, Decoder] | None = None  # the decoder, and one that counts other misfits

    def __call__(self, raw: Raw) -> float | None:
        """Return the time of a record in seconds since 1970, None if it has none."""
        if self._decoder is None:
            return None if raw.timestamp is None else raw.timestamp / 1000.0
        decoder = self._decoder()
        if self._copies is None or self._copies[0] is not decoder:
            self._copies = decoder, Decoder(decoder.form, decoder.format, decoder.parse)
        try:
            return moment(self._copies[1].of_record(raw).time)
        except ValueError:
            return None  # the operator refuses it


@dataclass
class _Stream:
    """What was polled of a partition and not passed on yet.

    Attributes
    ----------
    partition, position
        Its name, and the position of the next record to pass on; None before it is read.
    after
        The position after what was polled.
    latest
        The time of the last record.
    """

    partition: str
    position: int | None = None
    after: int = 0
    latest: float = float("-inf")
    records: deque[tuple[float, Raw]] = field(default_factory=deque)

    def begin(self, position: int) -> None:
        """Read from a position on."""
        self.position = self.after = position
        self.records.clear()

    def add(self, batch: RawBatch, clock: Clock) -> None:
        """Take records; one without a time has that of the one before it."""
        for raw in batch.records:
            at = clock(raw)
            self.latest = self.latest if at is None else at
            self.records.append((self.latest, raw))
        self.after = batch.next

    def run(self, until: float, too: bool) -> RawBatch:
        """Return the records up to a time, with those of this time if ``too``, and remove them."""
        taken = []
        while self.records and (self.records[0][0] < until or (too and self.records[0][0] == until)):
            taken.append(self.records.popleft()[1])
        self.position = self.records[0][1].offset if self.records else self.after
        return RawBatch(taken, self.position)


class LabelledSource(Source):
    """The records of events and labels, in one order.

    Parameters
    ----------
    events, labels
        Open.
    clocks
        Of events and of labels.
    """

    def __init__(
        self,
        events: Source,
        labels: LabelReader,
        clocks: tuple[Clock, Clock],
    ) -> None:
        self.name = events.name
        self._events, self._labels, self._clocks = events, labels, clocks
        self._pairs: dict[str, tuple[_Stream, _Stream]] = {}  # events and labels, by partitions of events
        self._runs: deque[tuple[str, RawBatch]] = deque()

    @property
    def decoder(self) -> Decoder | None:
        """The decoder of the events."""
        return self._events.decoder

    @property
    def label_decoder(self) -> Decoder | None:
        """The decoder of the labels."""
        return self._labels.decoder

    def poll(self, seconds: float, most: int = MOST) -> Polled:
        """Return records of one partition."""
        if self._runs:
            return Polled(dict([self._runs.popleft()]))
        pairs = self._pairs.values()
        waits = any(events.records or labels.records for events, labels in pairs)
        ahead = any(len(events.records) > _AHEAD for events, _ in pairs)
        polled = self._events.poll(0.0 if waits else seconds, 1 if ahead else most)
        gone = [self._pairs.pop(name)[1].partition for name in polled.revoked if name in self._pairs]
        self._labels.release(gone)
        for name, batch in polled.batches.items():
            if name in self._pairs:
                self._pairs[name][0].add(batch, self._clocks[0])
        self._merge(seconds)
        assigned = [*polled.assigned, *self._unread_labels()]
        left = any(
            stream.position is None or stream.records for pair in self._pairs.values() for stream in pair
        )
        finished = polled.finished and not self._runs and not left and self._all_drained()
        batches = dict([self._runs.popleft()]) if self._runs else {}
        return Polled(batches, assigned, [*polled.revoked, *gone], finished, polled.standby)

    def _unread_labels(self) -> list[Assigned]:
        """Return the partitions of labels whose events are read, and which are not read themselves."""
        unread = [name for name, (_, labels) in self._pairs.items() if labels.position is None]
        described = [self._labels.labels_of(name) for name in unread]
        committed = self._events.committed([each.partition for each in described])
        return [each._replace(committed=committed.get(each.partition)) for each in described]

    def _all_drained(self) -> bool:
        names = [labels.partition for _, labels in self._pairs.values()]
        return set(self._labels.drained(names)) >= set(names)

    def _merge(self, seconds: float) -> None:
        """Pass on what is certainly next; wait so long at most for labels that decide it."""
        begun = {n: pair for n, pair in self._pairs.items() if pair[1].position is not None}
        self._read_labels(begun, 0.0)
        lone = [name for name, (events, labels) in begun.items() if labels.records and not events.records]
        done = set(self._events.drained(lone)) if lone else set()
        lone = [
            labels.partition for events, labels in begun.values() if events.records and not labels.records
        ]
        done |= set(self._labels.drained(lone)) if lone else set()
        if behind := {n: pair for n, pair in begun.items() if pair[1].partition in {*lone} - done}:
            self._read_labels(behind, seconds)
        for events, labels in begun.values():
            self._pass_on(events, labels, events.partition in done, labels.partition in done)

    def _read_labels(self, pairs: Mapping[str, tuple[_Stream, _Stream]], seconds: float) -> None:
        empty = {labels.partition: labels for _, labels in pairs.values() if not labels.records}
        if empty:
            for name, batch in self._labels.poll(seconds, empty).items():
                empty[name].add(batch, self._clocks[1])

    def _pass_on(self, events: _Stream, labels: _Stream, no_events: bool, no_labels: bool) -> None:
        """Append the runs of a pair; the flags say that there are no more of one kind than are here."""
        end = float("inf")
        while events.records and labels.records:
            if labels.records[0][0] <= events.records[0][0]:
                self._append(labels, labels.run(events.records[0][0], too=True))
            else:
                self._append(events, events.run(labels.records[0][0], too=False))
        if events.records and no_labels:
            self._append(events, events.run(end, too=True))
        elif labels.records and no_events:
            self._append(labels, labels.run(end, too=True))
        for stream in (events, labels):
            if not stream.records and stream.position != stream.after:  # no record, as a marker
                self._append(stream, stream.run(end, too=True))

    def _append(self, stream: _Stream, batch: RawBatch) -> None:
        self._runs.append((stream.partition, batch))

    def begin(self, partition: str, position: int) -> None:
        """Read a partition of events or labels from this position on."""
        for _, labels in self._pairs.values():
            if labels.partition == partition:
                self._labels.begin(partition, position)
                labels.begin(position)
                return
        self._events.begin(partition, position)
        self._pairs[partition] = _Stream(partition), _Stream(self._labels.labels_of(partition).partition)
        self._pairs[partition][0].begin(position)

    def committed(self, partitions: Collection[str]) -> Mapping[str, Committed]:
        """Return what the group has committed, for events and labels."""
        return self._events.committed(list(partitions))

    def commit(self, positions: Mapping[str, Committed]) -> bool:
        """Commit positions of events and labels."""
        return self._events.commit(positions)

    def partitions(self) -> list[str]:
        """Return the partitions of events."""
        return list(self._events.partitions())

    def alone(self) -> bool:
        """Return whether no other process reads the events."""
        return self._events.alone()

    def require_daemons(self) -> None:
        """Raise Failure if a program that is no daemon reads a part of the events."""
        self._events.require_daemons()

    def ends(self) -> Mapping[str, int] | None:
        """Return where each partition ends now, of events and labels."""
        events, labels = self._events.ends(), self._labels.ends()
        return None if events is None or labels is None else {**events, **labels}

    def uncommitted(self, ends: Mapping[str, int]) -> Mapping[str, int]:
        """Return how many offsets of events are hidden by open transactions."""
        ours = self._pairs.keys() & ends.keys()
        return self._events.uncommitted({name: ends[name] for name in ours})

    def confirm(self) -> None:
        """Raise Interruption if what has been read is no longer there."""
        self._events.confirm()

    def mark(self, positions: Mapping[str, int]) -> object:
        """Return what identifies the log of events and that of labels."""
        mark = self._events.mark(positions)
        return None if mark is None else with_mark_of_labels(mark, self._labels.mark(positions))

    def recognise(self, mark: object) -> None:
        """Raise Failure if events or labels are not those of the mark."""
        self._events.recognise(mark)
        if isinstance(mark, dict) and MARK_OF_LABELS in mark:
            self._labels.recognise(mark[MARK_OF_LABELS])

    def close(self, leaving: bool) -> None:
        """Close the connections."""
        self._labels.close()
        self._events.close(leaving)
