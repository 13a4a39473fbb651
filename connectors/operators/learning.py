"""The operators that learn: decode, predict, learn; count refused events, up to limits; encode the outputs.

:class:`SingleLearning` has one model, :class:`PartitionedLearning` one for every partition. A model after a
sequence of records depends on the records alone, not on how they were cut into batches. Limits bound refused
events, labels, names, events without inputs, and events before the first target.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from connectors.contract.errors import REFUSED_EVENTS, Failure
from connectors.contract.records import (
    BY_LEARNER,
    BY_LIMITS,
    NO_INPUT,
    UNDECODABLE,
    Output,
    Processed,
    Raw,
    Tally,
)
from connectors.contract.sections import Limits
from connectors.events.decoding import WITHOUT_INPUT, Decoder, Event, EventFormat
from connectors.events.learners import Model, labels_of
from connectors.events.names import nearest
from connectors.events.values import Fields, Target, label_name
from connectors.operators.challengers import Challengers, ChallengerTelemetry
from connectors.operators.late_labels import LateLabels, late_labels
from connectors.operators.outputs import (
    DecodedBatch,
    Origin,
    Outcome,
    Prediction,
    encode,
    encode_batch,
    losses_of,
    losses_of_each,
    without_unknown,
)
from connectors.operators.repeats import RecentKeys
from connectors.operators.stream_watch import StreamWatch, Watcher, warn_of_changes
from connectors.settings.tables import Settings
from connectors.state.checkpoint import RECENT, REFUSED, WAITING, WATCH, restored
from streamk.encoding.fields import name_of
from streamk.encoding.rows import RowError
from streamk.evaluation.metric import decide
from streamk.learners.classifier import Classifier
from streamk.learners.learner import Learner
from streamk.learners.loading import MODEL

_SHOWN = 20  # fields in a sentence
_LABELS, _NUMBERS = {str, int, bool}, {int, float}  # types of targets
_TRIED = 64  # events learned together where one of them is refused
_LONGEST = 300  # characters of a reason, which may quote what it refuses
_Pairs = Sequence[tuple[Raw, Event]]


class UnfitError(ValueError):
    """An event that does not fit what the model has learned."""


class NoInputError(ValueError):
    """An event has a target and no input."""


class LimitError(ValueError):
    """An event has one label, or one name of a number, too many."""


def why_no_input(format: EventFormat, fields: Mapping[str, object]) -> str:
    """Return why an event of these fields has no input, and what to do.

    >>> why_no_input(EventFormat("y", features=["amonut"]), {"amount": 1, "y": 2})
    "events.features names 'amonut' (did you mean 'amount'?), and the fields are 'amount', 'y'"
    """
    there = _listed(fields)
    if not format.sources:
        return f"the fields are {there}; labels in separate records need a topic or log that [labels] names"
    near = {name: nearest(name, fields) for name in format.sources}
    meant = [f"{name!r} (did you mean {other!r}?)" if other else repr(name) for name, other in near.items()]
    return f"events.features names {', '.join(meant[:_SHOWN])}, and the fields are {there}"


def _listed(fields: Mapping[str, object]) -> str:
    return ", ".join(map(repr, list(fields)[:_SHOWN])) or "none"


class VocabularyLimit:
    """Refuses labels and names of numbers beyond what the settings allow.

    An identifier as target would otherwise be a class an event, and one as a name a number an event.

    Parameters
    ----------
    limits
        Of the settings.
    classes
        Whether targets are labels.
    late
        Whether events without a target are learned later.
    """

    def __init__(self, limits: Limits, classes: bool, late: bool = False) -> None:
        self.limits, self._classes, self._late = limits, classes, late
        self._labels: Set[Target] = set()
        self._names: set[str] | None = None
        self._inputs = False  # whether events with inputs have come

    def update(self, learner: Learner) -> None:
        """Take the labels and names that a learner holds now, which are those it held before and more."""
        labels, names = labels_of(learner) or (), learner.number_names
        if len(labels) > len(self._labels):
            self._labels = set(labels)
        if names is not None and (self._names is None or len(names) > len(self._names)):
            self._names = set(names)
        self._inputs = learner.has_inputs

    def holds(self, xs: Sequence[Fields], labels: Set[Target]) -> bool:
        """Return whether these labels, and all names of numbers in events, were seen before."""
        if not all(xs) or (self._classes and not labels <= self._labels):
            return False
        if self._names is None:
            return True
        if not self._inputs:
            return False
        new = [name for name in set().union(*set(map(tuple, xs))) if name_of(name) not in self._names]
        return not any(type(x.get(name)) in (int, float) for name in new for x in xs)

    def is_new(self, event: Event) -> bool:
        """Return whether an event to be learned has a new label, a new name of a number, or the first inputs.

        Raises
        ------
        NoInputError
            If it has no input; with ``limits.without_inputs = 0``, only if an event with inputs was learned.
        LimitError
            If there would be too many.
        UnfitError
            If it does not fit those before.
        """
        if (event.target is None and not self._late) or event.weight == 0.0:
            return False
        if not event.fields and (self._inputs or self.limits.without_inputs):
            raise NoInputError(WITHOUT_INPUT if event.target is not None else "it has no input")
        first_inputs = bool(event.fields) and not self._inputs
        new_label = event.target is not None and self.is_new_label(event.target)
        if self._names is None or event.fields.keys() <= self._names:
            return new_label or first_inputs
        numbers = {name_of(field) for field, value in event.fields.items() if type(value) in (int, float)}
        new = len(numbers - self._names)
        if new and len(self._names) + new > self.limits.names:
            raise LimitError(
                f"{new} names of numbers are new, and there would be more than {self.limits.names} "
                "(limits.names): is an identifier used as a name?"
            )
        return new_label or first_inputs or new > 0

    def is_new_label(self, target: Target) -> bool:
        """Return whether a label is new, and refuse it as :meth:`is_new` does."""
        kind = type(target)
        # the learner refuses what is no label
        if not self._classes or kind not in (str, int, float, bool) or target in self._labels:
            return False
        if self._labels and kind is not float and kind not in set(map(type, self._labels)):
            first = min(map(label_name, self._labels))
            raise UnfitError(
                f"the label is {target!r} ({kind.__name__}), and labels before are of another type, as "
                f"{first!r}; if that one came by mistake, run `streamk labels forget SETTINGS {first}`"
            )
        if len(self._labels) >= self.limits.labels:
            raise LimitError(
                f"the label {target!r} would be one more than {self.limits.labels} (limits.labels): "
                "is events.target an identifier?"
            )
        return True


class RefusalLimit:
    """Ends a run if too many events are refused, or none has the target.

    Parameters
    ----------
    limits
        Of the settings.
    target
        Name of the field to predict.

    Attributes
    ----------
    row
        Events in a row that were refused last.
    inputless
        Of the last events with a target, how many in a row have no input.
    """

    def __init__(self, limits: Limits, target: str = "") -> None:
        self.limits, self._target = limits, target
        self.row = self.inputless = self._unlabelled = 0
        self._labelled = False  # whether an event without inputs had the target
        self._seen: list[bool] = []  # of the events in the window, whether each was refused

    def passed(self, count: int, labelled: bool = False) -> None:
        """Count so many events that were not refused; ``labelled`` is whether one of them has a target."""
        self.row = 0
        if labelled:
            self.inputless = 0
        self._seen += [False] * count
        del self._seen[: -self.limits.window]

    def exceeded(self, outcomes: Sequence[Outcome], refused: int) -> str:
        """Count outcomes, and return the sentence that ends the run, empty if there is none."""
        limits = self.limits
        if not refused:
            self.passed(len(outcomes))
            return ""
        for outcome in outcomes:
            self.row = self.row + 1 if outcome.event is None else 0
            if self.row >= limits.consecutive:
                return f"{self.row} events in a row were refused (limits.consecutive): {outcome.reason}"
        self._seen += [outcome.event is None for outcome in outcomes]
        del self._seen[: -limits.window]
        refused = sum(self._seen)
        if len(self._seen) == limits.window and refused > limits.ratio * limits.window:
            reason = next((o.reason for o in reversed(outcomes) if o.event is None), "")
            return f"{refused} of the last {limits.window} events were refused (limits.ratio): {reason}"
        return ""

    def without_inputs(self, outcomes: Sequence[Outcome]) -> str:
        """Count events with a target and no input, and return the sentence that ends the run, if any."""
        most = self.limits.without_inputs
        for outcome in outcomes:
            if outcome.cause == NO_INPUT:
                self._labelled = True
                self.inputless += 1
                if most and self.inputless >= most:
                    return (
                        f"{self.inputless:,} events in a row have a target and no input "
                        f"(limits.without_inputs): {outcome.reason.partition(': ')[2]}"
                    )
            elif outcome.event is not None and outcome.event.target is not None:
                self.inputless = 0
        return ""

    def require_target(self, unlabelled: int, learned: bool, last: Mapping[str, object]) -> None:
        """Count events without a target, as long as no event was learned.

        Parameters
        ----------
        unlabelled
            How many came.
        learned
            Whether the model has learned any event.
        last
            Fields of the last one.

        Raises
        ------
        Failure
            If there are too many: the name of the target is wrong. Once it is right, a daemon reads these
            events again (:mod:`connectors.state.checkpoint`).
        """
        most = self.limits.without_target
        self._unlabelled = 0 if learned or self._labelled else self._unlabelled + unlabelled
        if not most or self._unlabelled < most:
            return
        near = nearest(self._target, last)
        meant = f"did you mean {near!r}? The" if near else "the"
        raise Failure(
            REFUSED_EVENTS,
            f"events.target: none of the first {self._unlabelled:,} events has the field {self._target!r}; "
            f"{meant} fields of the last one are {_listed(last)}. Set limits.without_target to 0 to wait for "
            "labels",
        )


_CAUSES = {LimitError: BY_LIMITS, UnfitError: BY_LEARNER, NoInputError: NO_INPUT}


class LearningTelemetry(Watcher, ChallengerTelemetry, Protocol):
    """Follows how a model learns; each of several models has a place.

    Attributes
    ----------
    warned
        Fields whose change of kind is in the log.
    """

    warned: set[str]

    def learned(self, outcomes: Sequence[Outcome], learner: Learner, place: str = "") -> None:
        """Follow the losses of predictions, and the model."""

    def scored(self, losses: NDArray[np.float64], learner: Learner, place: str = "") -> None:
        """Follow losses and errors, two rows, and the model."""

    def waits(self, events: int, labels: int, place: str = "") -> None:
        """Follow how many events of a model wait for labels, and labels for events."""

    def forget(self, place: str) -> None:
        """Count the model of a place no more."""

    def predicts_with(self, version: str) -> None:
        """Follow which version of a published model predicts."""


def tally(outcomes: Sequence[Outcome], skipped: int, learns: bool = True) -> Tally:
    """Count outcomes; without learning, all events are predicted only."""
    events = [outcome.event for outcome in outcomes if outcome.event is not None]
    predicted = sum(not learns or event.target is None or event.weight == 0.0 for event in events)
    return Tally(len(events) - predicted, predicted, len(outcomes) - len(events), skipped)


class SingleLearning:
    """Decodes, predicts and learns, or only predicts.

    Parameters
    ----------
    settings
        Of the daemon.
    decoder
        Of its events.
    telemetry
        Counts losses, and follows the model.
    shared
        The limit of what is refused, and what watches the events, of several models; new ones if None.
    place
        The name of the model in telemetry, where there are several.
    late
        Joins events with labels in separate records; by default as the settings say.

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
        shared: tuple[RefusalLimit, StreamWatch] | None = None,
        place: str = "",
        late: LateLabels | None = None,
    ) -> None:
        self._decode, self._telemetry, self._place = decoder, telemetry, place
        self._classes = settings.learner.task == "classification"
        self._lenient = settings.dead_letters is not None
        self._learns, self._predicts = settings.learner.learns, settings.predictions is not None
        self._origin = Origin(settings.source.name, "", settings.reader)
        self._top = settings.predictions.top if settings.predictions is not None else 0
        self._skips = settings.events.tombstones == "skip"
        self._alone = shared is None
        limit = RefusalLimit(settings.limits, settings.events.target)
        self._limit, self._stream_watch = shared or (limit, StreamWatch(telemetry))
        self._late = late or (None if settings.labels is None else late_labels(settings))
        self._events_of = settings.events_of
        self._challengers = Challengers(settings.challengers, settings.learner.task, telemetry, place)
        if self._late is not None and self._challengers:
            self._late.others = self._challengers
        repeats = settings.events.repeats
        self._recent = RecentKeys(repeats, lambda raw: self._decode.key_of(raw)) if repeats else None
        self._use(settings.learner.build())

    def _use(self, learner: Model) -> None:
        self.learner = learner
        self._changed = learner.changed_fields
        self._vocabulary = VocabularyLimit(self._limit.limits, self._classes, self._late is not None)
        self._vocabulary.update(learner)
        self._telemetry.learned([], learner, self._place)

    def decode_by(self, decoder: Decoder, labels: Decoder | None = None) -> None:
        """Decode events and labels by these decoders from here on."""
        self._decode = decoder
        if self._late is not None and labels is not None:
            self._late.decoder = labels

    def adjust(self, limits: Limits) -> None:
        """Take limits that have changed."""
        self._limit.limits = self._vocabulary.limits = limits

    def snapshot(self) -> Mapping[str, bytes]:
        """Return the model, and how many events in a row were refused last, or had no input, if any."""
        late = {} if self._late is None else {WAITING: self._late.to_bytes()}
        model = {MODEL: self.learner.to_bytes(), **self._challengers.snapshot()}
        return {**model, **late, **self._counts()}

    def _counts(self) -> Mapping[str, bytes]:
        recent = {} if self._recent is None else {RECENT: self._recent.to_bytes()}
        if not self._alone:
            return recent
        counts = self._limit.row, self._limit.inputless
        refused = {REFUSED: " ".join(map(str, counts)).encode()} if any(counts) else {}
        return {WATCH: self._stream_watch.to_bytes(), **refused, **recent}

    def restore(self, parts: Mapping[str, bytes]) -> None:
        """Continue with a model.

        Raises
        ------
        ValueError
            If it is one of other settings.
        """
        self._use(restored(parts, self.learner))
        self._challengers.restore(parts)
        if self._late is not None:
            self._late.restore(parts.get(WAITING), self.learner)
        self._restore_counts(parts)

    def _restore_counts(self, parts: Mapping[str, bytes]) -> None:
        if self._recent is not None:
            self._recent.restore(parts.get(RECENT))
        self._stream_watch.restore(parts.get(WATCH))
        row, inputless, *_ = *map(int, parts.get(REFUSED, b"0").split()), 0
        self._limit.row = max(self._limit.row, row)
        self._limit.inputless = max(self._limit.inputless, inputless)

    def process(self, partition: str, records: Sequence[Raw]) -> Processed:
        """Predict each event, then learn it if it has a target; what is refused becomes a dead letter.

        Records of a partition of labels are the targets of events before. Without dead letters, the first
        record that is refused ends the run.
        """
        if self._recent is not None and self._events_of(partition) is None:
            return self._recent.process(partition, records, lambda part: self._process(partition, part))
        return self._process(partition, records)

    def _process(self, partition: str, records: Sequence[Raw]) -> Processed:
        live = [raw for raw in records if raw.value is not None] if self._skips else records
        if self._late is not None and self._events_of(partition) is not None:
            return self._learn_labels(self._late, partition, live, len(records) - len(live))
        batch = self.learn_batch(live) if live else None
        if batch is not None:
            processed = self._batch_processed(partition, batch, len(records) - len(live))
        else:
            processed = self._process_each(partition, records, live)
        changed = self.learner.changed_fields
        if changed is not self._changed:
            self._changed = changed
            warned = self._telemetry.warned
            warn_of_changes(changed, partition, records, self._decode.of_record, warned, self._telemetry)
        return processed

    def _process_each(self, partition: str, records: Sequence[Raw], live: Sequence[Raw]) -> Processed:
        self._decode.take_misfits()  # of an attempt to learn them together
        outcomes = self.outcomes(live)
        stopped = self._stops(outcomes)
        done = outcomes[:-1] if stopped else outcomes
        skipped = len(records) - len(live)
        if stopped and skipped:
            skipped = sum(raw.value is None and raw.offset < outcomes[-1].raw.offset for raw in records)
        counts = tally(done, skipped, self._learns)
        inputless = self._limit.without_inputs(outcomes)
        events = [outcome.event for outcome in done if outcome.event is not None]
        decided = [decide(outcome.prediction) for outcome in done if outcome.event is not None]
        targets = [event.target for event in events]
        self._watch([event.fields for event in events], targets, decided.__getitem__)
        reasons = [
            (o.cause, f"{partition}, offset {o.raw.offset}: {o.reason}") for o in done if o.event is None
        ]
        self._stream_watch.refusals(len(done), reasons)
        unlabelled = [event for event in events if event.target is None]
        if unlabelled and self._learns and self._late is None:
            self._limit.require_target(len(unlabelled), self.learner.events > 0, unlabelled[-1].fields)
        outputs = encode(partition, done, self._predicts, self._top, self._origin)
        return self._processed(partition, outcomes, inputless, outputs, counts, len(done) + skipped)

    def _processed(
        self,
        partition: str,
        outcomes: Sequence[Outcome],
        problem: str,
        outputs: Sequence[Output],
        counts: Tally,
        count: int,
    ) -> Processed:
        """Return the result of so many records, which ends the run if one may not be refused, or too many."""
        stopped = self._stops(outcomes)
        done = outcomes[:-1] if stopped else outcomes
        self._telemetry.learned(done, self.learner, self._place)
        failure = None
        if stopped:
            bad = outcomes[-1]
            failure = Failure(
                REFUSED_EVENTS,
                f"{partition}, offset {bad.raw.offset}: {bad.reason}. Fix it, or set [dead_letters] to "
                "let such events go there",
            )
        elif reason := problem or self._limit.exceeded(outcomes, counts.refused):
            failure = Failure(REFUSED_EVENTS, reason)
        causes = Counter(outcome.cause for outcome in done if outcome.event is None)
        fates: Mapping[str, int] = {}
        if self._late is not None:
            fates = self._late.take_fates()
            self._telemetry.waits(self._late.waiting, len(self._late.joining.early), self._place)
        return Processed(outputs, counts, count, failure, causes, fates)

    def _learn_labels(
        self, late: LateLabels, partition: str, records: Sequence[Raw], skipped: int
    ) -> Processed:
        """Learn the events of labels; what is refused becomes a dead letter."""
        outcomes: list[Outcome] = []
        passed = 0
        for raw in records:
            try:
                outcome = late.label(self.learner, partition, raw, self._vocabulary.is_new_label)
            except ValueError as error:
                cause = _CAUSES.get(type(error), UNDECODABLE)
                outcome = Outcome(raw, None, None, str(error)[:_LONGEST], cause)
                late.refuse()
            if outcome is not None:
                outcomes.append(outcome)
                if self._stops(outcomes):
                    break
                self._vocabulary.update(self.learner)
            passed += 1
        self._stream_watch.labels([o.event.target for o in outcomes if o.event is not None])
        refused = [outcome for outcome in outcomes if outcome.event is None]
        learned, bad = len(outcomes) - len(refused), len(refused) - self._stops(outcomes)
        outputs = encode(partition, refused[:bad], predictions=False)
        counts = Tally(learned, 0, bad, skipped)
        return self._processed(partition, outcomes, "", outputs, counts, passed + skipped)

    def _batch_processed(self, partition: str, batch: DecodedBatch, skipped: int) -> Processed:
        self._telemetry.scored(losses_of(batch), self.learner, self._place)
        self._stream_watch.refusals(len(batch.records), [])
        self._limit.passed(len(batch.records), any(target is not None for target in batch.targets))
        outputs = encode_batch(partition, batch, self._top, self._origin) if self._predicts else []
        count = len(batch.records)
        predicted = batch.targets.count(None) if self._learns else count
        return Processed(outputs, Tally(count - predicted, predicted, 0, skipped), count + skipped)

    def learn_batch(self, records: Sequence[Raw]) -> DecodedBatch | None:
        """Learn records together; None, and nothing is learned, if one is unusual or has something new."""
        if not self.learner.events:
            return None
        decoded = self._decode.plain_records(records)
        if decoded is None or (self._late is not None and None in decoded[1]):
            return None
        xs, ys = decoded
        kinds = set(map(type, ys)) - {type(None)}
        if len(kinds) > 1 or not kinds <= (_LABELS if self._classes else _NUMBERS):
            return None
        labels, targets = set(ys) - {None}, ys
        if self._learns:
            known = self._vocabulary.holds(xs, labels)
            weights = [float(y is not None) for y in ys] if None in ys else None
        else:
            known = all(xs) and labels <= set(labels_of(self.learner) or labels)
            targets, weights = [None] * len(ys), [0.0] * len(ys)
        if not known:
            return None
        try:
            predictions = self.learner.predict_learn_array(xs, targets, weights)
        except RowError:
            return None
        batch = DecodedBatch(records, decoded[1], predictions, labels_of(self.learner))
        if self._challengers:
            self._challengers.learn(xs, targets, weights, losses_of(batch))
        self._watch(xs, batch.targets, batch.decide)
        return batch

    def _watch(
        self, events: Sequence[Fields], targets: Sequence[Target], decided: Callable[[int], object]
    ) -> None:
        """Watch events that were learned or predicted, and what was decided for each."""
        watch = self._stream_watch
        rows = watch.rows(len(events))
        watch.misfits(self._decode.take_misfits(), self._decode.format.types)
        if rows:
            name = label_name if self._classes else lambda value: value
            columns = [decided(k) for k in rows], [targets[k] for k in rows]
            shown = [[None if value is None else name(value) for value in column] for column in columns]
            watch.add([events[k] for k in rows], *shown)
        watch.labels([target for target in targets if target is not None] if None in targets else targets)

    def outcomes(self, records: Sequence[Raw]) -> list[Outcome]:
        """Return what became of records; unless bad ones become dead letters, up to the first of them."""
        outcomes: list[Outcome] = []
        good: list[tuple[Raw, Event]] = []
        bad: list[Outcome] = []
        for raw in records:
            try:
                event = self._decode.of_record(raw)
                new = self._learns and self._vocabulary.is_new(event)
            except ValueError as error:
                cause, reason = _CAUSES.get(type(error), UNDECODABLE), str(error)
                if cause == NO_INPUT:
                    decode = self._decode
                    fields = decode.raw(raw.value or b"") | decode.parts(raw)
                    reason = f"{reason}: {why_no_input(decode.format, fields)}"
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

    def _stops(self, outcomes: Sequence[Outcome]) -> bool:
        return not self._lenient and bool(outcomes) and outcomes[-1].event is None

    def _learn(self, events: _Pairs, outcomes: list[Outcome]) -> None:
        """Learn events in order; those that the learner refuses change nothing."""
        waits = self._late is not None and any(event.target is None for _, event in events)
        pairs, step, tried = list(events), 1 if waits else len(events), 1 if waits else _TRIED
        while pairs:
            part: _Pairs = pairs[:step]
            try:
                part, predictions = self._predict_and_learn(part)
            except RowError as error:
                if error.row == 0:
                    outcomes.append(Outcome(part[0][0], None, None, error.reason[:_LONGEST], BY_LEARNER))
                    if not self._lenient:
                        return
                    pairs, step = pairs[1:], tried
                else:
                    # what comes before the bad row first: what it teaches may decide about the row
                    step = error.row
                continue
            outcomes += [
                Outcome(raw, event, without_unknown(prediction), "")
                for (raw, event), prediction in zip(part, predictions, strict=True)
            ]
            pairs, step = pairs[len(part) :], tried

    def _predict_and_learn(self, pairs: _Pairs) -> tuple[_Pairs, Sequence[Prediction]]:
        """Return records and events with the targets that were learned, and the predictions."""
        if self._late is not None and len(pairs) == 1:
            ((raw, event),) = pairs
            if event.target is None and event.weight != 0.0:
                prediction, target = self._late.ask(self.learner, raw, event, self._vocabulary.is_new_label)
                return [(raw, msgspec.structs.replace(event, target=target))], [prediction]
        return pairs, self._learn_at_once([event for _, event in pairs])

    def _learn_at_once(self, events: Sequence[Event]) -> Sequence[Prediction]:
        xs, ys = [event.fields for event in events], [event.target for event in events]
        weights = None
        if not self._learns:
            ys, weights = [None] * len(ys), [0.0] * len(ys)
        elif None in ys or any(event.weight is not None for event in events):
            weights = [0.0 if e.target is None else 1.0 if e.weight is None else e.weight for e in events]
        learner = self.learner
        if isinstance(learner, Classifier):
            predictions: Sequence[Any] = learner.predict_proba_learn_many(xs, ys, weights)
        else:
            predictions = learner.predict_learn_many(xs, ys, weights)
        if self._challengers:
            self._challengers.learn(xs, ys, weights, losses_of_each(ys, predictions))
        return predictions


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
        self._watch = StreamWatch(telemetry)
        self._models: dict[str, SingleLearning] = {}

    def begin(self, partition: str, parts: Mapping[str, bytes] | None) -> None:
        """Continue with the model of a partition, or start one.

        Raises
        ------
        ValueError
            If it is one of other settings.
        """
        model = SingleLearning(
            self._settings, self._decoder, self._telemetry, (self._limit, self._watch), partition
        )
        if parts is not None:
            model.restore(parts)
        self._models[partition] = model

    def process(self, partition: str, records: Sequence[Raw]) -> Processed:
        """Have the model of the partition process events, or labels of its events."""
        return self._models[self.events_of(partition) or partition].process(partition, records)

    def adjust(self, limits: Limits) -> None:
        """Take limits that have changed, also for models to come."""
        self._settings = self._settings.model_copy(update={"limits": limits})
        self._limit.limits = limits
        for model in self._models.values():
            model.adjust(limits)

    def snapshot(self, partition: str) -> Mapping[str, bytes]:
        """Return the model of a partition, and what is known of the events of all."""
        return {**self._models[partition].snapshot(), WATCH: self._watch.to_bytes()}

    def events_of(self, partition: str) -> str | None:
        """Return the partition of events whose labels are in a partition, None if it has no labels."""
        return self._settings.events_of(partition)

    def release(self, partition: str) -> None:
        """Forget the model of a partition."""
        self._models.pop(partition, None)
        self._telemetry.forget(partition)
