"""Records and positions; sources, sinks and logs, which read and write them; operators, which process them.

A *partition* is a string: ``clicks-3`` for partition 3 of a topic, the name of the file for a log on disk. A
*position* is the offset of the next record: a Kafka offset, or a byte of the (uncompressed) log.

A session polls, hands records to the operator, writes its outputs, and has its state stored together with
the positions (:mod:`connectors.state.checkpoint`), as a whole or partition by partition; it depends on no
learner. The outputs and the state of an operator must depend on the records of each partition and their order
alone, not on how they were cut into batches. Records that a session sees again after a crash come to an
operator that was restored to where it was before them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import MappingProxyType
from typing import NamedTuple, Protocol, cast

from connectors.contract.errors import Failure
from connectors.contract.sections import Limits
from connectors.events.batches import EXAMPLES, ROWS, Broken, RecordBatch
from connectors.events.decoding import Decoder, EventFormat, Misfits, Record, skipped
from connectors.events.joining import CONTRADICTING
from connectors.events.model_files import Stored, stored_of
from streamk.arrays import Json
from streamk.encoding.calendar_inputs import read_iso

MOST = 2000  # records a poll
MARK_OF_LABELS = "labels"
PREDICTIONS, DEAD_LETTERS, SNAPSHOTS = "predictions", "dead_letters", "snapshots"
SENT, TRUNCATED, TOO_LARGE, OTHER = "sent", "truncated", "too large", "other"  # what became of dead letters


Headers = Sequence[tuple[str, bytes]]


class Raw(NamedTuple):
    """One record as it came; a record of kafka-python is one too."""

    offset: int
    value: bytes | None
    key: bytes | None = None
    timestamp: int | None = None  # milliseconds since the epoch
    headers: Headers = ()
    topic: str = ""


def read_bound(text: str) -> int | datetime:
    """Return an offset, or a time in ISO 8601, which is UTC unless it names another zone.

    >>> read_bound("1200"), read_bound("2026-11-21T08:00").isoformat()
    (1200, '2026-11-21T08:00:00+00:00')
    """
    if text.isdigit():
        return int(text)
    moment = read_iso(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


class RawBatch(NamedTuple):
    """Consecutive records of a partition, none perhaps, and the position after them.

    The source defines the position: behind the last record there may be others that are no events, as the
    markers of transactions.
    """

    records: Sequence[Raw]
    next: int


class Committed(NamedTuple):
    """What a group has committed for a partition: a position, and the metadata that goes with it."""

    position: int
    metadata: str = ""


class Assigned(NamedTuple):
    """A partition that this process is to read, what is committed for it, and what is there.

    Attributes
    ----------
    identity
        Of what the partition is a part of: another one if a topic is deleted and recreated. Empty if it has
        none.
    number, partition_count
        Which partition it is, counted from 0, and how many there are.
    added
        Whether its topic, which a pattern names, came after the group had started to read others.
    """

    partition: str
    committed: Committed | None
    first: int
    end: int
    identity: str = ""
    number: int = 0
    partition_count: int = 1
    added: bool = False


@dataclass
class Polled:
    """What a poll brought.

    Attributes
    ----------
    standby
        Whether this process is in the group and all partitions are assigned to others.
    """

    batches: Mapping[str, RawBatch] = field(default_factory=dict)
    assigned: Sequence[Assigned] = ()
    revoked: Sequence[str] = ()
    finished: bool = False
    standby: bool = False


class Source(Protocol):
    """Where records come from; the defaults are those of a source that has no group.

    Attributes
    ----------
    name
        Of the topic or log.
    """

    name: str

    def continues(self, source: str, partitions: Iterable[str]) -> bool:
        """Return whether it has a part of what another source of this name, with these partitions, had."""
        return source == self.name

    @property
    def decoder(self) -> Decoder | None:
        """The decoder of its records, None if the settings alone define it."""
        return None

    def poll(self, seconds: float, most: int = MOST) -> Polled:
        """Wait so long at most for so many records at most; they come in order, after :meth:`begin`."""

    @property
    def label_decoder(self) -> Decoder | None:
        """The decoder of the labels, if they are in separate records and their log decides it."""
        return None

    def begin(self, partition: str, position: int) -> None:
        """Read a partition that was assigned from this position on."""

    def drained(self, partitions: Collection[str]) -> Collection[str]:
        """Return those of these partitions of which all records have been polled that are there now."""
        return ()

    def committed(self, partitions: Sequence[str]) -> Mapping[str, Committed]:
        """Return what the group has committed, for those partitions for which it has."""
        return {}

    def commit(self, positions: Mapping[str, Committed]) -> bool:
        """Commit positions; False if the group is rebalancing, Interruption if this process is not in it."""
        return True

    def partitions(self) -> Sequence[str]:
        """Return all partitions, also those that other processes read."""

    def alone(self) -> bool:
        """Return whether no other process reads next to this one."""
        return True

    def require_daemons(self) -> None:
        """Raise Failure if a program that is no daemon reads a part of the source."""
        return

    def ends(self) -> Mapping[str, int] | None:
        """Return where each partition ends now, by a new request.

        None if no broker answers at once; Interruption if none has answered for a while.
        """

    def uncommitted(self, ends: Mapping[str, int]) -> Mapping[str, int]:
        """Return how many offsets after these ends are hidden by open transactions, where that is known."""
        return {}

    def confirm(self) -> None:
        """Raise Interruption if what has been read is no longer there: nothing of it counts."""
        return

    def mark(self, positions: Mapping[str, int]) -> object:
        """Return what a checkpoint stores of the source, to recognise it."""
        return None

    def recognise(self, mark: object) -> None:
        """Raise Failure if the source is not the one of the mark."""
        return

    def close(self, leaving: bool) -> None:
        """Close the connections; ``leaving`` says that this process will not return soon."""


def with_mark_of_labels(events: object, labels: object = None) -> Json:
    """Return the mark of a source with that of the labels of its events, if there is one."""
    return {**cast(Json, events), **({} if labels is None else {MARK_OF_LABELS: labels})}


class LabelReader(Protocol):
    """Reads the labels of a source's events, which are in other partitions."""

    @property
    def decoder(self) -> Decoder | None:
        """The decoder of its records, None if the settings alone define it."""
        return None

    def labels_of(self, partition: str) -> Assigned:
        """Return the partition that has the labels of a partition of events; nothing is committed for it."""

    def begin(self, partition: str, position: int) -> None:
        """Read a partition from this position on."""

    def poll(self, seconds: float, partitions: Collection[str]) -> Mapping[str, RawBatch]:
        """Wait so long at most for records of these partitions."""

    def drained(self, partitions: Collection[str]) -> Collection[str]:
        """Return those of these partitions of which all records have been polled that are there now."""

    def ends(self) -> Mapping[str, int] | None:
        """Return where each partition ends now; None if no broker answers at once."""

    def release(self, partitions: Collection[str]) -> None:
        """Read these partitions no more."""
        return

    def mark(self, positions: Mapping[str, int]) -> object:
        """Return what a checkpoint stores of the labels, to recognise them."""
        return None

    def recognise(self, mark: object) -> None:
        """Raise Failure if the labels are not those of the mark."""
        return

    def close(self) -> None:
        """Close the connections."""


class Positions(Protocol):
    """The positions of a source that no daemon reads; the defaults are those of a source without a group."""

    def partitions(self) -> Sequence[str]:
        """Return the names of the partitions, of events first, then of their labels."""

    def identity(self, partition: str) -> tuple[str, int]:
        """Return the identity and the number of partitions, as of :class:`Assigned`."""
        return "", 1

    def committed(self, partition: str) -> Committed | None:
        """Return what the group has committed, None if nothing or if there is no group."""
        return None

    def range(self, partition: str) -> tuple[int, int]:
        """Return the first position that is there, and the one after the last."""

    def at(self, partition: str, moment: datetime) -> int:
        """Return the position of the first record that is not before a time."""

    def mark(self, positions: Mapping[str, int]) -> object:
        """Return what a checkpoint stores of the source, to recognise it."""
        return None

    def commit(self, positions: Mapping[str, Committed]) -> None:
        """Set what the group has committed, if there is a group."""
        return

    def close(self) -> None:
        """Close the connections."""


class RecordRange(Protocol):
    """Records between two bounds, in the order of time."""

    size: int

    def __iter__(self) -> Iterator[tuple[str, Raw]]:
        """Yield each record after the name of its partition."""

    def close(self) -> None:
        """Close the connections."""


class Output(NamedTuple):
    """One line for a sink, of a kind: a prediction, a dead letter, or what else an operator makes."""

    kind: str
    partition: str
    raw: Raw
    body: bytes  # what is written; of a dead letter, the reason
    headers: Headers = ()  # of a prediction; the same for all outputs of a batch


class Sink(Protocol):
    """Where predictions and dead letters go."""

    def restore(self, mark: object) -> None:
        """Find what has been written since a mark (None: since ever)."""
        return

    def begin(self, partition: str, emitted: int, recreated: bool = False) -> None:
        """Take that a partition's outputs below this offset were committed with their positions.

        ``recreated`` says that it is another one than that whose outputs are here: its topic was recreated.
        """

    def write(self, outputs: Sequence[Output]) -> int:
        """Take the outputs that belong here and are not written yet; return how many had to be truncated."""

    def commit(self, positions: Mapping[str, Committed]) -> bool:
        """Make everything written visible; return whether the positions were committed with it."""

    def mark(self) -> object:
        """Make everything committed safe, and return what a checkpoint stores of the sink."""
        return None

    def close(self) -> None:
        """Discard what was not committed."""


class Endpoints(NamedTuple):
    """Where the records of a session come from, and where its outputs go, by name."""

    source: Source
    sinks: Mapping[str, Sink]


class DeadLetter(NamedTuple):
    """A record that was refused.

    Attributes
    ----------
    partition, offset
        Its place in the source.
    reason
        Why it was refused.
    key, value
        Its bytes; the value is cut if ``truncated``.
    size
        Bytes of the whole value.
    truncated
        Whether it was too large for its topic, so that only a stub is there.
    """

    partition: str
    offset: int
    reason: str
    key: bytes | None
    value: bytes
    size: int
    truncated: bool


class Retried(NamedTuple):
    """What became of dead letters.

    Attributes
    ----------
    counts
        Dead letters by what became of them: ``sent``, ``truncated``, ``too large`` (for the source), or
        ``other`` (of another source, or written by others).
    group
        In which the position is committed.
    resumed
        Whether the group had a position. Otherwise everything was read from the oldest dead letter on.
    """

    counts: Counter[str]
    group: str
    resumed: bool


class Log:
    """A bounded log, which replays, tuning and training read from start to end.

    A subclass defines ``__iter__``, or :meth:`batches` if it reads many records at once.

    Attributes
    ----------
    name, target
        How messages name it, and the field to predict.
    format
        Which field is what, with the types that were inferred once reading has begun.
    size, done
        How much there is to read, and how much was read, in one unit; ``size`` is 0 where it is not known.
    notes
        Sentences about how it is read.
    examples
        The first few records that were skipped, each with its place and the reason.
    unreadable, unlabelled
        Skipped records: those that cannot be decoded, and those without a target.
    cut
        Whether a part of it could not be read to its end.
    broken
        Of what was skipped so far.
    misfits
        Values that do not fit the types of their fields, which are missing.
    paths
        Names of its files, or its name.
    """

    name: str
    target: str
    format: EventFormat
    size: int = 0
    notes: Sequence[str] = ()
    broken: Broken = Broken()  # a log that skips records has another
    misfits: Mapping[str, Misfits] = MappingProxyType({})

    @property
    def done(self) -> int:
        """How much was read, of ``size``."""
        return 0

    @property
    def unreadable(self) -> int:
        """Records that cannot be decoded."""
        return self.broken.count

    @property
    def unlabelled(self) -> int:
        """Records without a target."""
        return self.broken.unlabelled

    @property
    def cut(self) -> bool:
        """Whether a part of it could not be read to its end."""
        return self.broken.cut

    @property
    def examples(self) -> Sequence[str]:
        """The first few records that were skipped."""
        return [*self.broken.examples, *self.broken.bare][:EXAMPLES]

    @property
    def paths(self) -> Sequence[str]:
        """Names of its files, or its name."""
        return [self.name]

    def place(self, line: int) -> object:
        """Return what names a line in messages that was read recently."""
        raise NotImplementedError

    def __iter__(self) -> Iterator[Record]:
        for batch in self.batches():
            yield from batch.records()

    def batches(self) -> Iterator[RecordBatch]:
        """Yield the records in batches; those before an interruption or an error are yielded first.

        Raises
        ------
        ValueError
            If it cannot be read, or read further; the sentence says why.
        """
        records = iter(self)
        error: BaseException | None = None
        while error is None:
            chunk: list[Record] = []
            try:
                while len(chunk) < ROWS and (record := next(records, None)) is not None:
                    chunk.append(record)
            except (KeyboardInterrupt, ValueError) as stopped:
                error = stopped
            if chunk:
                lines, events, targets = zip(*chunk, strict=True)
                batch = RecordBatch(lines, targets, list(events))
                batch.done = self.done
                yield batch
            elif error is None:
                return
        if isinstance(error, ValueError):
            raise error

    def stop(self) -> bool:
        """End a wait for the next record, from a signal handler; return whether more events follow.

        Raises
        ------
        KeyboardInterrupt
            If only that ends the wait.
        """
        raise KeyboardInterrupt

    def left_out(self) -> str:
        """Return how many records were skipped, as a sentence; empty if none were."""
        return skipped(self.unreadable, self.unlabelled, f"`{self.target}`")

    def stored(self) -> Stored:
        """Return what a model file stores of how this log is read."""
        return stored_of(self.format)

    def fingerprint(self) -> Json:
        """Return the names of its files and, where they have them, sizes and SHA-256."""
        return {"files": [{"name": path} for path in self.paths]}


class Tally(NamedTuple):
    """How many records were learned, predicted only (no target, or no weight), refused, skipped, repeated."""

    learned: int = 0
    predicted: int = 0
    refused: int = 0
    skipped: int = 0
    repeated: int = 0


UNDECODABLE, NO_INPUT, BY_LEARNER, BY_LIMITS = "undecodable", "no_input", "learner", "limits"
CAUSES = UNDECODABLE, NO_INPUT, BY_LEARNER, BY_LIMITS, CONTRADICTING


class Processed(NamedTuple):
    """The result of processing records.

    Attributes
    ----------
    outputs
        For the sinks, in order.
    tally
        Of the records that count as done.
    done
        How many of the records those are: all of them, or those before the one that ends the run.
    failure
        Why the run must end after them; None if it continues.
    causes
        Of the refused records that count as done: how many were refused for each of ``CAUSES``.
    fates
        What became of labels in separate records: how many have each of ``FATES``.
    """

    outputs: Sequence[Output]
    tally: Tally
    done: int
    failure: Failure | None = None
    causes: Mapping[str, int] = MappingProxyType({})
    fates: Mapping[str, int] = MappingProxyType({})


class Processor(Protocol):
    """Turns records into outputs, and may learn from them."""

    def process(self, partition: str, records: Sequence[Raw]) -> Processed:
        """Process consecutive records of a partition."""

    def adjust(self, limits: Limits) -> None:
        """Take limits that have changed, for the records to come."""


class Operator(Processor, Protocol):
    """A processor whose state is stored as a whole."""

    def snapshot(self) -> Mapping[str, bytes]:
        """Return its state, as named parts."""

    def restore(self, parts: Mapping[str, bytes]) -> None:
        """Restore the state of these parts.

        Raises
        ------
        ValueError
            If they are those of another operator; the sentence continues "checkpoint 7 in /data …".
        """


class PartitionedOperator(Processor, Protocol):
    """A processor with a state for every partition, which can move with the partition."""

    def begin(self, partition: str, parts: Mapping[str, bytes] | None) -> None:
        """Restore the state of a partition from these parts; start with none if there are none.

        Raises
        ------
        ValueError
            If they are those of another operator; the sentence continues "the snapshot of clicks-3 …".
        """

    def snapshot(self, partition: str) -> Mapping[str, bytes]:
        """Return the state of a partition, as named parts."""

    def release(self, partition: str) -> None:
        """Forget a partition that goes to another process."""

    def events_of(self, partition: str) -> str | None:
        """Return the partition of events whose labels are in a partition, None if it has no labels."""
        return None
