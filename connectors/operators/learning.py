"""The operators that learn: decode, predict, learn; count what is refused; encode what goes out.

:class:`SingleLearning` has one model, :class:`PartitionedLearning` one for every partition. A model after a
sequence of records depends on the records alone, not on how they were cut into batches.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from connectors.contract.errors import REFUSED_EVENTS, Failure
from connectors.contract.records import BY_LEARNER, BY_LIMITS, NO_INPUT, UNDECODABLE, Processed, Raw, Tally
from connectors.contract.sections import Limits
from connectors.events.decoding import Decoder, Event
from connectors.events.learners import Model, labels_of
from connectors.events.values import Fields
from connectors.operators.field_watch import FieldWatch
from connectors.operators.limits import (
    LimitError,
    NoInputError,
    RefusalLimit,
    UnfitError,
    VocabularyLimit,
    why_no_input,
)
from connectors.operators.outputs import (
    DecodedBatch,
    Outcome,
    Prediction,
    encode,
    encode_batch,
    losses_of,
    without_unknown,
)
from connectors.settings.tables import Settings
from connectors.state.checkpoint import REFUSED, restored
from streamk.encoding.fields import name_of
from streamk.encoding.names import MOST_CHANGED
from streamk.encoding.rows import RowError
from streamk.learners.classifier import Classifier
from streamk.learners.learner import Learner
from streamk.learners.loading import MODEL

log = logging.getLogger(__name__)
_CAUSES = {LimitError: BY_LIMITS, UnfitError: BY_LEARNER, NoInputError: NO_INPUT}
_LABELS, _NUMBERS = {str, int, bool}, {int, float}  # types of targets
_TRIED = 64  # events learned together where one of them is refused
_LONGEST = 300  # characters of a reason, which may quote what it refuses
_EXAMPLE = 60  # characters of a value in a warning


class LearningTelemetry(Protocol):
    """Follows how a model learns; each of several models has a place.

    Attributes
    ----------
    warned
        Fields whose change of kind is in the log.
    fields
        Watches the fields of events.
    """

    warned: set[str]
    fields: FieldWatch

    def learned(self, outcomes: Sequence[Outcome], learner: Learner, place: str = "") -> None:
        """Follow the losses of predictions, and the model."""

    def scored(self, losses: NDArray[np.float64], learner: Learner, place: str = "") -> None:
        """Follow losses and errors, two rows, and the model."""

    def forget(self, place: str) -> None:
        """Count the model of a place no more."""


def warn_of_changes(
    changed: Sequence[tuple[str, bool]],
    partition: str,
    records: Sequence[Raw],
    decode: Callable[[bytes], Event],
    warned: set[str],
) -> None:
    """Log one warning for each field that changed from numbers to categories or the reverse.

    A learner learns both: a number that arrives as a string is a category from then on. That is rarely meant.

    Parameters
    ----------
    changed
        Names, and whether the field is a category since (:attr:`streamk.encoding.names.Names.changed`).
    partition, records, decode
        Where the last of them changed: records of this partition, and what decodes them.
    warned
        Fields that the log of this process has named already; others are added.
    """
    for name, category in changed:
        if name in warned or len(warned) >= MOST_CHANGED:
            continue
        kinds = (str, bool) if category else (int, float)
        for raw in records:
            value = _value(raw, name, decode)
            if type(value) in kinds:
                warned.add(name)
                before, now = ("number", "category") if category else ("category", "number")
                log.warning(
                    "%s, offset %d: the field %r was a %s in all events before, and is %.*s here; "
                    "it is also learned as a %s (logged once a field)",
                    partition, raw.offset, name, before, _EXAMPLE, repr(value), now,
                )  # fmt: skip
                break


def _value(raw: Raw, name: str, decode: Callable[[bytes], Event]) -> object:
    try:
        fields = decode(raw.value or b"").fields
    except ValueError:
        return None
    return next((value for field, value in fields.items() if name_of(field) == name), None)


def tally(outcomes: Sequence[Outcome], skipped: int) -> Tally:
    """Count outcomes."""
    events = [outcome.event for outcome in outcomes if outcome.event is not None]
    predicted = sum(event.target is None or event.weight == 0.0 for event in events)
    return Tally(len(events) - predicted, predicted, len(outcomes) - len(events), skipped)


class SingleLearning:
    """Decodes, predicts and learns.

    Parameters
    ----------
    settings
        Of the daemon.
    decoder
        Of its events.
    telemetry
        Counts losses, and follows the model.
    limit
        Of what is refused, shared where several learn; a new one if None.
    place
        The name of the model in telemetry, where there are several.

    Attributes
    ----------
    learner : Learner
        The model, learning.
    """

    def __init__(
        self,
        settings: Settings,
        decoder: Decoder,
        telemetry: LearningTelemetry,
        limit: RefusalLimit | None = None,
        place: str = "",
    ) -> None:
        self._decode, self._telemetry, self._place = decoder, telemetry, place
        self._classes = settings.learner.task == "classification"
        self._lenient = settings.dead_letters is not None
        self._predicts = settings.predictions is not None
        self._top = settings.predictions.top if settings.predictions is not None else 0
        self._skips = settings.events.tombstones == "skip"
        self._alone = limit is None
        self._limit = limit or RefusalLimit(settings.limits, settings.events.target)
        self._vocabulary = VocabularyLimit(settings.limits, self._classes)
        self._use(settings.learner.build())

    def _use(self, learner: Model) -> None:
        self.learner = learner
        self._changed = learner._changed_fields
        self._vocabulary.update(learner)
        self._telemetry.learned([], learner, self._place)

    def decode_by(self, decoder: Decoder) -> None:
        """Decode records by this decoder from here on."""
        self._decode = decoder

    def adjust(self, limits: Limits) -> None:
        """Take limits that have changed."""
        self._limit.limits = self._vocabulary.limits = limits

    def snapshot(self) -> Mapping[str, bytes]:
        """Return the model, and how many events in a row were refused last, or had no input, if any."""
        counts = self._limit.row, self._limit.inputless
        row = {REFUSED: " ".join(map(str, counts)).encode()} if self._alone and any(counts) else {}
        return {MODEL: self.learner.to_bytes(), **row}

    def restore(self, parts: Mapping[str, bytes]) -> None:
        """Continue with a model.

        Raises
        ------
        ValueError
            If it is one of other settings.
        """
        self._use(restored(parts, self.learner))
        row, inputless, *_ = *map(int, parts.get(REFUSED, b"0").split()), 0
        self._limit.row = max(self._limit.row, row)
        self._limit.inputless = max(self._limit.inputless, inputless)

    def process(self, partition: str, records: Sequence[Raw]) -> Processed:
        """Predict each event, then learn it if it has a target; what is refused becomes a dead letter.

        Without dead letters, the first record that is refused ends the run.
        """
        live = [raw for raw in records if raw.value is not None] if self._skips else records
        batch = self.learn_batch(live) if live else None
        if batch is not None:
            processed = self._batch_processed(partition, batch, len(records) - len(live))
        else:
            processed = self._process_each(partition, records, live)
        changed = self.learner._changed_fields
        if changed is not self._changed:
            self._changed = changed
            warn_of_changes(changed, partition, records, self._decode, self._telemetry.warned)
        return processed

    def _process_each(self, partition: str, records: Sequence[Raw], live: Sequence[Raw]) -> Processed:
        self._decode.take_misfits()  # of an attempt to learn them together
        outcomes = self.outcomes(live)
        stopped = self._stops(outcomes)
        done = outcomes[:-1] if stopped else outcomes
        skipped = len(records) - len(live)
        if stopped and skipped:
            skipped = sum(raw.value is None and raw.offset < outcomes[-1].raw.offset for raw in records)
        counts = tally(done, skipped)
        inputless = self._limit.without_inputs(outcomes)
        events = [outcome.event for outcome in done if outcome.event is not None]
        self._watch([event.fields for event in events])
        if unlabelled := [event for event in events if event.target is None]:
            self._limit.require_target(len(unlabelled), self.learner.events > 0, unlabelled[-1].fields)
        self._telemetry.learned(done, self.learner, self._place)
        failure = None
        if stopped:
            bad = outcomes[-1]
            failure = Failure(
                REFUSED_EVENTS,
                f"{partition}, offset {bad.raw.offset}: {bad.reason}. Fix it, or set [dead_letters] to "
                "let such events go there",
            )
        elif reason := inputless or self._limit.exceeded(outcomes, counts.refused):
            failure = Failure(REFUSED_EVENTS, reason)
        outputs = encode(partition, done, self._predicts, self._top)
        causes = Counter(outcome.cause for outcome in done if outcome.event is None)
        return Processed(outputs, counts, len(done) + skipped, failure, causes)

    def _batch_processed(self, partition: str, batch: DecodedBatch, skipped: int) -> Processed:
        self._telemetry.scored(losses_of(batch), self.learner, self._place)
        self._limit.passed(len(batch.records), any(target is not None for target in batch.targets))
        outputs = encode_batch(partition, batch, self._top) if self._predicts else []
        predicted, count = batch.targets.count(None), len(batch.records)
        return Processed(outputs, Tally(count - predicted, predicted, 0, skipped), count + skipped)

    def learn_batch(self, records: Sequence[Raw]) -> DecodedBatch | None:
        """Learn records together; None, and nothing is learned, if one is unusual or has something new."""
        if not self.learner.events:
            return None
        decoded = self._decode.plain([raw.value for raw in records])
        if decoded is None:
            return None
        xs, ys = decoded
        kinds = set(map(type, ys)) - {type(None)}
        if len(kinds) > 1 or not kinds <= (_LABELS if self._classes else _NUMBERS):
            return None
        if not self._vocabulary.holds(xs, set(ys) - {None}):
            return None
        weights = [float(y is not None) for y in ys] if None in ys else None
        try:
            predictions = self.learner._predict_learn(xs, ys, weights)
        except RowError:
            return None
        self._watch(xs)
        return DecodedBatch(records, ys, predictions, labels_of(self.learner))

    def _watch(self, events: Sequence[Fields]) -> None:
        """Watch the fields of events that were learned or predicted."""
        self._telemetry.fields.add(events, self._decode.take_misfits(), self._decode.format.types)

    def outcomes(self, records: Sequence[Raw]) -> list[Outcome]:
        """Return what became of records; unless bad ones become dead letters, up to the first of them."""
        outcomes: list[Outcome] = []
        good: list[tuple[Raw, Event]] = []
        bad: list[Outcome] = []
        for raw in records:
            try:
                event = self._decode(raw.value or b"")
                new = self._vocabulary.is_new(event)
            except ValueError as error:
                cause, reason = _CAUSES.get(type(error), UNDECODABLE), str(error)
                if cause == NO_INPUT:
                    decode = self._decode
                    reason = f"{reason}: {why_no_input(decode.format, decode.raw(raw.value or b''))}"
                bad.append(Outcome(raw, None, None, reason[:_LONGEST], cause))
                if not self._lenient:
                    break
                continue
            if not new:
                good.append((raw, event))
                continue
            # alone, since it counts only if it is learned: so batches do not matter
            for part in (good, [(raw, event)]):
                self._learn(part, outcomes)
                if self._stops(outcomes):
                    return outcomes
            good = []
            self._vocabulary.update(self.learner)
        self._learn(good, outcomes)
        if not self._stops(outcomes) and bad:
            outcomes += bad
            outcomes.sort(key=lambda outcome: outcome.raw.offset)
        return outcomes

    def _stops(self, outcomes: list[Outcome]) -> bool:
        return not self._lenient and bool(outcomes) and outcomes[-1].event is None

    def _learn(self, events: Sequence[tuple[Raw, Event]], outcomes: list[Outcome]) -> None:
        """Learn events in order; those that the learner refuses change nothing."""
        pairs, step = list(events), len(events)
        while pairs:
            part = pairs[:step]
            try:
                predictions = self._predict_and_learn([event for _, event in part])
            except RowError as error:
                if error.row == 0:
                    outcomes.append(Outcome(part[0][0], None, None, error.reason[:_LONGEST], BY_LEARNER))
                    if not self._lenient:
                        return
                    pairs, step = pairs[1:], _TRIED
                else:
                    # what comes before the bad row first: what it teaches may decide about the row
                    step = error.row
                continue
            outcomes += [
                Outcome(raw, event, without_unknown(prediction), "")
                for (raw, event), prediction in zip(part, predictions, strict=True)
            ]
            pairs, step = pairs[len(part) :], _TRIED

    def _predict_and_learn(self, events: Sequence[Event]) -> Sequence[Prediction]:
        xs, ys = [event.fields for event in events], [event.target for event in events]
        weights = None
        if None in ys or any(event.weight is not None for event in events):
            weights = [0.0 if e.target is None else 1.0 if e.weight is None else e.weight for e in events]
        learner = self.learner
        if isinstance(learner, Classifier):
            probabilities: Sequence[Any] = learner.predict_proba_learn_many(xs, ys, weights)
            return probabilities
        return learner.predict_learn_many(xs, ys, weights)


class PartitionedLearning:
    """Learns every partition by itself; what is refused is counted over all of them.

    Parameters
    ----------
    settings
        Of the daemon: all models have the same parameters and the same seed, so that they can be merged.
    decoder
        Of its events.
    telemetry
        Counts losses, and follows the models.
    """

    def __init__(self, settings: Settings, decoder: Decoder, telemetry: LearningTelemetry) -> None:
        self._settings, self._decoder, self._telemetry = settings, decoder, telemetry
        self._limit = RefusalLimit(settings.limits, settings.events.target)
        self._models: dict[str, SingleLearning] = {}

    def begin(self, partition: str, parts: Mapping[str, bytes] | None) -> None:
        """Continue with the model of a partition, or start one.

        Raises
        ------
        ValueError
            If it is one of other settings.
        """
        model = SingleLearning(self._settings, self._decoder, self._telemetry, self._limit, partition)
        if parts is not None:
            model.restore(parts)
        self._models[partition] = model

    def process(self, partition: str, records: Sequence[Raw]) -> Processed:
        """Have the model of the partition predict each event, then learn it."""
        return self._models[partition].process(partition, records)

    def adjust(self, limits: Limits) -> None:
        """Take limits that have changed, also for models to come."""
        self._settings = self._settings.model_copy(update={"limits": limits})
        self._limit.limits = limits
        for model in self._models.values():
            model.adjust(limits)

    def snapshot(self, partition: str) -> Mapping[str, bytes]:
        """Return the model of a partition."""
        return self._models[partition].snapshot()

    def release(self, partition: str) -> None:
        """Forget the model of a partition."""
        self._models.pop(partition, None)
        self._telemetry.forget(partition)
