"""Events that wait for labels in separate records, and what becomes of these labels.

An event is predicted when it comes, and waits under its key in the learner (``ask_one``). Once its label is
there, it is learned as it was predicted (``tell_one``). What becomes of a label is decided as in a replay
with ``--labels`` (:mod:`connectors.events.joining`). Where many events wait, the oldest are on disk
(:mod:`connectors.state.aside`).
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from itertools import islice
from math import inf
from typing import cast

import msgspec

from connectors.contract.records import BY_LEARNER, Raw
from connectors.contract.sections import LabelSection
from connectors.events.decoding import Decoder, Event
from connectors.events.joining import (
    CONTRADICTING,
    EXPIRED,
    LEARNED,
    REFUSED,
    UNKNOWN,
    Joining,
    StoredLabel,
    key_text,
)
from connectors.events.learners import Model
from connectors.events.values import Target
from connectors.operators.challengers import Challengers
from connectors.operators.outputs import Outcome, Prediction, key_of
from connectors.operators.waiting import WaitingEvent, ask, shortened
from connectors.settings.tables import Settings
from connectors.state.aside import AsideStore, Row
from streamk.encoding.rows import RowError
from streamk.evaluation.label_delay import moment

log = logging.getLogger(__name__)
_IN_MEMORY = 2**14  # events that wait there, if others can wait on disk
_TOGETHER = 256  # events set aside together
_MOST_ASIDE = 2**22  # events that wait on disk
_LOOK = 1000  # labels after which a warning says that no event has their keys
_SENTENCES = {
    EXPIRED: "%s: the label of the event %r has not come",
    UNKNOWN: "%s: no event has come for the label of %r",
    REFUSED: "%s: the label of %r, which came before its event, is refused",
}
Check = Callable[[Target], object]


class LateLabels:
    """Joins labels with events, for one model.

    Parameters
    ----------
    section
        Of the settings.
    decoder
        Of the labels.
    event_time
        The field of an event with its time; None if that of the record counts.
    aside
        Where the oldest events wait; without it, they expire if the learner holds too many.

    Attributes
    ----------
    others
        Challengers of the model, if any.
    in_memory
        The events that wait in memory, by their keys, the oldest first.
    fates
        What became of labels since :meth:`take_fates`.
    """

    def __init__(
        self,
        section: LabelSection,
        decoder: Decoder,
        event_time: str | None,
        aside: AsideStore | None = None,
    ) -> None:
        self._aside = aside
        self.others: Challengers | None = None
        self.wait = inf if section.wait is None else section.wait
        self.decoder, self._event_time = decoder, event_time
        self.in_memory: dict[str, WaitingEvent] = {}
        self.joining = Joining(self.wait)
        self.fates: Counter[str] = Counter()
        self._reported: set[str] = set()  # fates that are in the log
        self._unjoined: int | None = 0  # labels so far, none of which was of an event; None after one was

    def take_fates(self) -> Counter[str]:
        """Return what became of labels since the last call."""
        fates, self.fates = self.fates, Counter()
        return fates

    @property
    def waiting(self) -> int:
        """How many events wait."""
        return len(self.in_memory) + (len(self._aside) if self._aside is not None else 0)

    def refuse(self) -> None:
        """Count a record that is no label."""
        self.fates[REFUSED] += 1

    def ask(self, learner: Model, raw: Raw, event: Event, check: Check) -> tuple[Prediction, Target]:
        """Return the prediction of an event, which then waits, and its label if that has come before.

        ``check`` raises the error of a label that may not be learned.

        Raises
        ------
        RowError
            If the event cannot wait: it has no key or no time, or one of its key waits, or the learner
            refuses it.
        """
        try:
            key, now = _key(event, raw), self._time(event, raw)
            self._expire(learner, now, raw)
            if self._aside is not None and key in self._aside:
                raise ValueError(f"an event of key {key!r} waits for its label already; use another key")
            self._make_room(learner)
            prediction = ask(learner, key, event.fields)
        except ValueError as error:
            raise RowError(0, str(error)) from None
        weight = 1.0 if event.weight is None else event.weight
        others = {} if self.others is None else self.others.ask(key, event.fields)
        self.in_memory[key] = WaitingEvent(now, weight, shortened(prediction), others)
        while len(self.in_memory) > len(learner.waiting):  # which has let the oldest go
            self._let_go(next(iter(self.in_memory)), raw)
        held = self.joining.of_event(key)
        if held is None:
            return prediction, None
        try:
            check(cast(Target, held.label))
            self._tell(learner, key, held)
        except ValueError:
            self._report(REFUSED, held.place, key)
            return prediction, None
        return prediction, cast(Target, held.label)

    def label(self, learner: Model, partition: str, raw: Raw, check: Check) -> Outcome | None:
        """Learn the event of a label, or hold the label; None if nothing was learned and nothing refused.

        ``check`` raises the error of a label that may not be learned.

        Raises
        ------
        ValueError
            If the record is no label, or may not be learned; the sentence says why.
        """
        record = self.decoder.of_record(raw)
        key = _key(record, raw)
        if record.target is None:
            raise ValueError(f"it has no label: the field {self.decoder.format.target!r} is missing")
        place = f"{partition}, offset {raw.offset}"
        held = StoredLabel(self._time(record, raw), record.target, place)
        event = self._event_of(learner, key)
        if event is None:
            fate = self.joining.hold(key, held)
            if fate:
                self.fates[fate] += 1
            self._note_unjoined(key)
            if fate != CONTRADICTING:
                return None
            reason = f"the label of {key!r} is {record.target!r}, and it was another one before"
            return Outcome(raw, None, None, reason, CONTRADICTING)
        check(record.target)
        try:
            self._tell(learner, key, held)
        except ValueError as error:
            self.fates[REFUSED] += 1
            return Outcome(raw, None, None, str(error), BY_LEARNER)
        return Outcome(raw, Event({}, record.target, event.weight, None, None), event.prediction, "")

    def _event_of(self, learner: Model, key: str) -> WaitingEvent | None:
        """Return what is known of an event that waits, which is in memory then; None if none waits."""
        row = self._aside.take(key) if self._aside is not None and key not in self.in_memory else None
        if row is not None:
            learner.take_back(key, row.event)
            event = msgspec.msgpack.decode(row.known, type=WaitingEvent)
            if self.others is not None:
                self.others.take_back(key, event.aside)
            self.in_memory[key] = event._replace(aside={})
        return self.in_memory.get(key)

    def _make_room(self, learner: Model) -> None:
        """Set the oldest events aside if too many wait in memory."""
        if self._aside is None or not (learner.waiting_is_full or len(self.in_memory) >= _IN_MEMORY):
            return
        rows = []
        for key in list(islice(self.in_memory, _TOGETHER)):
            event = self.in_memory.pop(key)
            if self.others is not None:
                event = event._replace(aside=self.others.set_aside(key))
            rows.append(Row(key, event.time, msgspec.msgpack.encode(event), learner.set_aside(key)))
        self._aside.put(rows)

    def _tell(self, learner: Model, key: str, held: StoredLabel) -> None:
        learner.tell_one(key, held.label, self.in_memory[key].weight)
        event = self.in_memory.pop(key)
        if self.others is not None:
            self.others.tell(key, cast(Target, held.label), event)
        self.joining.learn(key, held)
        self.fates[LEARNED] += 1
        self._unjoined = None

    def _time(self, record: Event, raw: Raw) -> float:
        """Return the time of an event or a label in seconds."""
        if self._event_time is None:
            return 0.0 if raw.timestamp is None else raw.timestamp / 1000.0
        try:
            return moment(record.time)
        except ValueError as error:
            raise ValueError(f"its time: {error}") from None

    def _expire(self, learner: Model, now: float, raw: Raw) -> None:
        """Let go of what has waited for too long."""
        aside = self._aside
        while aside is not None and (self.wait < inf or len(aside) >= _MOST_ASIDE):
            row = aside.oldest()
            if row is None or (row.time + self.wait >= now and len(aside) < _MOST_ASIDE):
                break
            self._event_of(learner, row.key)
            self._forget(learner, row.key)
            self._let_go(row.key, raw)
        while self.in_memory:
            key = next(iter(self.in_memory))
            if self.in_memory[key].time + self.wait >= now:
                break
            self._forget(learner, key)
            self._let_go(key, raw)
        for key, held in self.joining.unknown(now):
            self._report(UNKNOWN, held.place, key)

    def _forget(self, learner: Model, key: str) -> None:
        learner.tell_one(key, None)
        if self.others is not None:
            self.others.tell(key, None)

    def _let_go(self, key: str, raw: Raw) -> None:
        """Forget an event that waits."""
        del self.in_memory[key]
        self._report(EXPIRED, f"before offset {raw.offset}", key)

    def _report(self, fate: str, place: str, key: str) -> None:
        """Count a fate, and name the first of its kind in the log."""
        self.fates[fate] += 1
        if fate not in self._reported:
            self._reported.add(fate)
            sentence = f"{_SENTENCES[fate]}; streamk_labels_total counts those that follow"
            log.warning(sentence, place, key)

    def _note_unjoined(self, key: str) -> None:
        if self._unjoined is None:
            return
        self._unjoined += 1
        if self._unjoined == _LOOK and self.in_memory:
            log.warning(
                "none of the first %d labels is of an event that waits: the last label has the key %r, the "
                "oldest event %r; are labels.key and events.key the same?",
                _LOOK, key, next(iter(self.in_memory)),
            )  # fmt: skip

    def to_bytes(self) -> bytes:
        """Return what a checkpoint stores."""
        checkpoint, count = (0, 0) if self._aside is None else self._aside.save()
        early, learned = self.joining.early, self.joining.learned
        return msgspec.msgpack.encode(_Stored(self.in_memory, early, learned, checkpoint, count))

    def restore(self, data: bytes | None, learner: Model) -> None:
        """Continue where a checkpoint was written; without its data, no event waits any more.

        Raises
        ------
        ValueError
            If events that wait on disk are not there.
        """
        stored = _Stored({}, {}, {}) if data is None else msgspec.msgpack.decode(data, type=_Stored)
        self.in_memory = stored.in_memory
        self.joining.early, self.joining.learned = stored.early, stored.learned
        if self._aside is not None:
            self._aside.restore(stored.checkpoint, stored.count)
        elif stored.count:
            raise ValueError(f"has {stored.count} events that wait on disk, where a model cannot move")
        if not stored.count:
            learner._waiting.forget_aside()
        for key in [str(key) for key in learner.waiting if key not in self.in_memory]:
            self._forget(learner, key)


def late_labels(
    settings: Settings, decoder: Decoder | None = None, aside: AsideStore | None = None
) -> LateLabels:
    """Return what joins labels with events by these settings."""
    if settings.labels is None:
        raise ValueError("the settings have no [labels]")
    return LateLabels(settings.labels, decoder or settings.label_decoder(), settings.events.time, aside)


class _Stored(msgspec.Struct, array_like=True):
    in_memory: dict[str, WaitingEvent]
    early: dict[str, StoredLabel]
    learned: dict[str, StoredLabel]
    checkpoint: int = 0
    count: int = 0  # of events that wait on disk


def _key(record: Event, raw: Raw) -> str:
    """Return the key of an event or a label: that of its field, or of its record."""
    key = record.key
    if key is None and raw.key is not None:
        key = key_of(raw.key)
    try:
        return key_text(key)
    except ValueError as error:
        raise ValueError(f"its key {error}") from None
