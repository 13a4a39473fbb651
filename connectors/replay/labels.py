"""Labels in a separate log, joined to events by a key that is a string in both."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

from connectors.contract.records import Log
from connectors.events.batches import EXAMPLES
from connectors.events.decoding import EventFormat, Record, rejected, skipped
from connectors.events.joining import Joining, StoredLabel, key_text
from connectors.events.model_files import Stored
from connectors.events.targets import LOOK, InferredLabels, TaskError, interpret
from connectors.files.log import ReplayLog
from streamk.arrays import Json
from streamk.encoding.fields import Event
from streamk.evaluation import Contest
from streamk.evaluation.contest import RefusedError
from streamk.evaluation.label_delay import Refuse, fail, moment


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


class Joined(Log):
    """A log whose targets are in a label log, which is read completely first.

    Parameters
    ----------
    log
        Of events.
    path, format
        The label log, and its fields. The key is removed from the events.
    strict
        Whether an invalid label raises a ValueError. Otherwise invalid labels, and all labels of a key after
        the first, are counted and skipped.
    """

    done: int = 0

    def __init__(self, log: Log, path: str, format: EventFormat, strict: bool = False) -> None:
        self._log, self._path, self._key, self._strict = log, path, format.verbatim[0], strict
        self.name, self.target, self.size, self.format = log.name, log.target, log.size, log.format
        self.misfits = log.misfits
        self._labels: Json = {}
        self._examples: list[str] = []
        self.wrong = self.unjoined = 0
        for label in labels_of(path, format, None):
            if label.wrong or label.key in self._labels:
                self._leave_out(label.wrong or again(label))
                self.wrong += 1
            else:
                self._labels[label.key] = label.label
        if not self._labels:
            raise ValueError(self._examples[0] if self._examples else f"{path} holds no labels")

    def place(self, line: int) -> object:
        """Return what names a line of the events in messages."""
        return self._log.place(line)

    @property
    def paths(self) -> Sequence[str]:
        """Names of the files of events."""
        return self._log.paths

    @property
    def cut(self) -> bool:
        """Whether a file of events was not read to its end."""
        return self._log.cut

    def stored(self) -> Stored:
        """Return what a model file stores of how events are read."""
        return self._log.stored()

    def fingerprint(self) -> Json:
        """Return what identifies the files of events."""
        return self._log.fingerprint()

    def _leave_out(self, sentence: str) -> None:
        if self._strict:
            raise ValueError(sentence)
        if len(self._examples) < EXAMPLES:
            self._examples.append(sentence)

    @property
    def examples(self) -> list[str]:
        """The first few records that were skipped."""
        return [*self._examples, *self._log.examples][:EXAMPLES]

    @property
    def unreadable(self) -> int:
        """Records that could not be read, or taken as labels."""
        return self._log.unreadable + self.wrong

    @property
    def unlabelled(self) -> int:
        """Events without a label."""
        return self.unjoined

    def left_out(self) -> str:
        """Return a sentence about skipped records; empty if there are none."""
        sentences = [sentence] if (sentence := self._log.left_out()) else []
        if self.wrong:
            sentences.append(f"{self.wrong:,} record{'s' * (self.wrong > 1)} of the label log skipped")
        if self.unjoined:
            sentences.append(f"{self.unjoined:,} events have no label")
        return "; ".join(sentences)

    def _events(self) -> Iterator[Record]:
        """Yield the events, and count the part of ``size`` up to each."""
        for batch in self._log.batches():
            before = self.done
            for number, record in enumerate(batch.records(), 1):
                self.done = before + (batch.done - before) * number // len(batch)
                yield record

    def __iter__(self) -> Iterator[Record]:
        joined, other = 0, ""
        for line, fields, _ in self._events():
            try:
                key = key_text(fields.pop(self._key, None))
            except ValueError as error:
                self._leave_out(f"{self.place(line)}: the key {self._key!r} {error}")
                self.unjoined += 1
                continue
            label = self._labels.get(key)
            if label is None:
                self.unjoined += 1
                other = other or key
                continue
            joined += 1
            self.format, self.notes = self._log.format, self._log.notes
            yield Record(line, fields, label)
        if other and not joined:
            raise ValueError(
                f"--key {self._key}: no event of {self.name} has a key of {self._path}; its first key is "
                f"{other!r}, and that of the labels is {next(iter(self._labels))!r}"
            )


def again(label: Label) -> str:
    """Return the error of a label whose key has a label already."""
    return f"{label.place}: the key {label.key!r} has a label already"


@dataclass
class ByLabels:
    """Targets come at the times of a label log: before the first event that is not earlier.

    A label that comes before its event is stored until then. Events must be sorted by time, and so must
    labels. Of several labels of a key the first counts. Invalid labels are rejected with their lines; no
    other event is affected.

    Parameters
    ----------
    path, format, time
        The label log, its fields, and the field with the time of a label. Events have the key and the time,
        too; both are removed from them.
    """

    path: str
    format: EventFormat
    time: str
    task: str | None = None
    inferred: InferredLabels | None = None
    count: int = 0
    read: int = 0
    _joining: Joining = field(default_factory=Joining)
    _next: Label | None = None
    _stream: Iterator[Label] | None = None

    def __str__(self) -> str:
        return f"from {self.path}, joined by {self.key}, at the times of {self.time}"

    @property
    def key(self) -> str:
        """The field that joins events and labels."""
        return self.format.verbatim[0]

    def __getstate__(self) -> Json:
        return {**self.__dict__, "_stream": None}  # it is opened again, at the same record

    def look(self) -> list[object]:
        """Return the first labels, from which the task is inferred.

        Raises
        ------
        ValueError
            If there is none.
        """
        records = list(islice(labels_of(self.path, self.format, self.time), LOOK))
        labels = [each.label for each in records if not each.wrong]
        if not labels:
            raise ValueError(records[0].wrong if records else f"{self.path} holds no labels")
        return labels

    @property
    def early(self) -> list[str]:
        """The places of labels for which no event is waiting."""
        return [held.place for held in self._joining.early.values()]

    def _upcoming(self, refuse: Refuse) -> Label | None:
        """Return the next label, None if there is none."""
        while self._next is None:
            if self._stream is None:
                self._stream = labels_of(self.path, self.format, self.time, self.task)
                for _ in range(self.read):
                    next(self._stream, None)
            label = next(self._stream, None)
            if label is None:
                return None
            self.read += 1
            if label.wrong:
                refuse(ValueError(label.wrong))
            elif self.inferred is not None and self.inferred.first_wrong([label.label]) is not None:
                refuse(TaskError(f"{label.place}: {self.inferred.sentence(label.label)}"))
            else:
                self._next = label
        return self._next

    def _bring(self, contest: Contest, until: float, refuse: Refuse) -> None:
        while (label := self._upcoming(refuse)) is not None and label.time <= until:
            self._next = None
            held = StoredLabel(label.time, label.label, label.place)
            if label.key in contest.asked:
                self._tell(contest, label.key, held, refuse)
            elif self._joining.hold(label.key, held):
                refuse(ValueError(again(label)))

    def event(self, contest: Contest, x: Event, y: object, refuse: Refuse = fail) -> None:
        """Add the labels that have come by the time of an event, and predict it."""
        fields = dict(x)
        raw_key, now = fields.pop(self.key, None), moment(fields.pop(self.time, None))
        try:
            key = key_text(raw_key)
        except ValueError as error:
            raise ValueError(f"the key {self.key!r} {error}") from None
        self._bring(contest, now, refuse)
        contest.ask(key, fields, now)
        held = self._joining.of_event(key)
        self.count += 1
        if held is not None:
            self._tell(contest, key, held, refuse)

    def end(self, contest: Contest, refuse: Refuse = fail) -> None:
        """Bring all labels that are left."""
        self._bring(contest, float("inf"), refuse)

    def _tell(self, contest: Contest, key: str, held: StoredLabel, refuse: Refuse) -> None:
        try:
            contest.tell(key, held.label)
        except RefusedError as error:
            refuse(ValueError(f"{held.place}: {error.reason}"))
        else:
            self._joining.learn(key, held)
