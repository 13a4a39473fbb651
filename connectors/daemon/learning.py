"""The operator that learns: decode, predict, learn; count what is refused; encode what goes out.

The model after a sequence of records depends on the records alone, not on how they were cut into batches.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from connectors.daemon.field_kinds import warn_of_changes
from connectors.daemon.limits import LimitError, Limits, Room, UnfitError
from connectors.daemon.operator import BY_LEARNER, BY_LIMITS, UNDECODABLE, Processed, Tally
from connectors.daemon.outputs import Outcome, encode, known
from connectors.daemon.telemetry import Telemetry
from connectors.daemon.whole import Whole, encoded, losses
from connectors.decoding import Decoder, Event
from connectors.errors import REFUSED_EVENTS, Failure
from connectors.settings import Limits as LimitSettings
from connectors.settings import Settings
from connectors.stream import Raw
from streamk.encoding.rows import RowError
from streamk.learners import Learner
from streamk.learners.loading import MODEL, loads

REFUSED = "refused in a row"  # the part of a checkpoint that a restart counts on from
_CAUSES = {LimitError: BY_LIMITS, UnfitError: BY_LEARNER}
_LABELS, _NUMBERS = {str, int, bool}, {int, float}  # types of targets
_PIECE = 64  # events tried together where one of them is refused
_LONGEST = 300  # characters of a reason, which may quote what it refuses


def tally(outcomes: Sequence[Outcome], skipped: int) -> Tally:
    """Count outcomes."""
    events = [outcome.event for outcome in outcomes if outcome.event is not None]
    predicted = sum(event.target is None or event.weight == 0.0 for event in events)
    return Tally(len(events) - predicted, predicted, len(outcomes) - len(events), skipped)


def restored(parts: Mapping[str, bytes], wanted: Learner) -> Learner:
    """Return the model of a checkpoint.

    Raises
    ------
    ValueError
        If it is not of the class and the parameters of the one that is wanted.
    """
    if set(parts) - {REFUSED} != {MODEL}:
        raise ValueError(f"holds {', '.join(sorted(parts)) or 'nothing'}, and a model is needed")
    try:
        learner = loads(parts[MODEL])
    except ValueError as error:
        raise ValueError(f"cannot be used: {error}") from None
    if type(learner) is not type(wanted):
        raise ValueError(
            f"holds a {type(learner).__name__}, and the settings ask for a {type(wanted).__name__}"
        )
    have, want = learner._get_params(), wanted._get_params()
    key = next((key for key in want if have[key] != want[key]), None)
    if key is not None:
        raise ValueError(f"holds a learner with {key}={have[key]!r}, and the settings ask for {want[key]!r}")
    return learner


class Learning:
    """Decodes, predicts and learns.

    Parameters
    ----------
    settings
        Of the daemon.
    decoder
        Of its events.
    telemetry
        Told of losses and of the model.
    limits
        Of what is refused, where several learn; its own if None.
    place
        What telemetry knows the model by, where there are several.

    Attributes
    ----------
    learner : Learner
        The model, learning.
    """

    def __init__(
        self,
        settings: Settings,
        decoder: Decoder,
        telemetry: Telemetry,
        limits: Limits | None = None,
        place: str = "",
    ) -> None:
        self._decode, self._telemetry, self._place = decoder, telemetry, place
        self._classes = settings.learner.task == "classification"
        self._lenient = settings.dead_letters is not None
        self._predicts = settings.predictions is not None
        self._top = settings.predictions.top if settings.predictions is not None else 0
        self._outputs = self._lenient or self._predicts
        self._skips = settings.events.tombstones == "skip"
        self._alone = limits is None
        self._limits = Limits(settings.limits, settings.events.target) if limits is None else limits
        self._room = Room(settings.limits, self._classes)
        self._take(settings.learner.build())

    def _take(self, learner: Learner) -> None:
        self.learner = learner
        many: Any = learner
        self._pass: Callable[..., Sequence[Any]] = (
            many.predict_proba_learn_many if self._classes else many.predict_learn_many
        )
        self._arrays: Callable[..., Any] = many._predict_learn
        self._changed = learner._changed_fields
        self._room.look(learner)
        self._telemetry.learned([], learner, self._place)

    def decode_by(self, decoder: Decoder) -> None:
        """Decode records by this decoder from here on."""
        self._decode = decoder

    def adjust(self, limits: LimitSettings) -> None:
        """Take limits that have changed."""
        self._limits.limits = self._room.limits = limits

    def snapshot(self) -> Mapping[str, bytes]:
        """Return the model, and how many events in a row were refused last, if any."""
        row = {REFUSED: str(self._limits.row).encode()} if self._alone and self._limits.row else {}
        return {MODEL: self.learner.to_bytes(), **row}

    def restore(self, parts: Mapping[str, bytes]) -> None:
        """Go on with a model.

        Raises
        ------
        ValueError
            If it is one of other settings.
        """
        self._take(restored(parts, self.learner))
        self._limits.row = max(self._limits.row, int(parts.get(REFUSED, b"0")))

    def process(self, partition: str, records: Sequence[Raw]) -> Processed:
        """Predict each event, then learn it if it has a target; what is refused becomes a dead letter.

        Without dead letters, the first record that is refused ends the run.
        """
        processed = self._process(partition, records)
        changed = self.learner._changed_fields
        if changed is not self._changed:
            self._changed = changed
            warn_of_changes(changed, partition, records, self._decode, self._telemetry.warned)
        return processed

    def _process(self, partition: str, records: Sequence[Raw]) -> Processed:
        live = [raw for raw in records if raw.value is not None] if self._skips else records
        whole = self.whole(live) if live else None
        if whole is not None:
            return self._processed(partition, whole, len(records) - len(live))
        outcomes = self.outcomes(live)
        stopped = not self._lenient and bool(outcomes) and outcomes[-1].event is None
        done = outcomes[:-1] if stopped else outcomes
        skipped = len(records) - len(live)
        if stopped and skipped:
            skipped = sum(raw.value is None and raw.offset < outcomes[-1].raw.offset for raw in records)
        found = tally(done, skipped)
        events = [outcome.event for outcome in done if outcome.event is not None]
        if unlabelled := [event for event in events if event.target is None]:
            self._limits.require_target(len(unlabelled), self.learner.events > 0, unlabelled[-1].fields)
        self._telemetry.learned(done, self.learner, self._place)
        failure = None
        if stopped:
            bad = outcomes[-1]
            failure = Failure(
                REFUSED_EVENTS,
                f"{partition}, offset {bad.raw.offset}: {bad.reason}. Fix it, or set [dead_letters] to "
                "let such events go there",
            )
        elif trouble := self._limits.exceeded(outcomes, found.refused):
            failure = Failure(REFUSED_EVENTS, trouble)
        outputs = encode(partition, done, self._predicts, self._top) if self._outputs else []
        causes = Counter(outcome.cause for outcome in done if outcome.event is None)
        return Processed(outputs, found, len(done) + skipped, failure, causes)

    def _processed(self, partition: str, whole: Whole, skipped: int) -> Processed:
        self._telemetry.scored(losses(whole), self.learner, self._place)
        self._limits.passed(len(whole.records))
        outputs = encoded(partition, whole, self._top) if self._predicts else []
        predicted, count = whole.targets.count(None), len(whole.records)
        return Processed(outputs, Tally(count - predicted, predicted, 0, skipped), count + skipped)

    def whole(self, records: Sequence[Raw]) -> Whole | None:
        """Learn records together; None, and nothing is learned, if one is odd or has something new."""
        if not self.learner.events:
            return None
        found = self._decode.plain([raw.value for raw in records])
        if found is None:
            return None
        xs, ys = found
        kinds = set(map(type, ys)) - {type(None)}
        if len(kinds) > 1 or not kinds <= (_LABELS if self._classes else _NUMBERS):
            return None
        if not self._room.knows(xs, set(ys) - {None}):
            return None
        weights = [float(y is not None) for y in ys] if None in ys else None
        try:
            answers = self._arrays(xs, ys, weights)
        except RowError:
            return None
        return Whole(records, ys, answers, getattr(self.learner, "labels", None))

    def outcomes(self, records: Sequence[Raw]) -> list[Outcome]:
        """Return what became of records; unless bad ones may be left out, up to the first of them."""
        outcomes: list[Outcome] = []
        good: list[tuple[Raw, Event]] = []
        bad: list[Outcome] = []
        decode, room = self._decode, self._room
        for raw in records:
            try:
                event = decode(raw.value or b"")
                if room.enters(event):
                    # alone, since it takes room only if it is learned: so batches do not matter
                    self._learn(good, outcomes)
                    good.clear()
                    if self._ended(outcomes):
                        return outcomes
                    self._learn([(raw, event)], outcomes)
                    room.look(self.learner)
                    if self._ended(outcomes):
                        return outcomes
                    continue
                good.append((raw, event))
            except ValueError as error:
                cause = _CAUSES.get(type(error), UNDECODABLE)
                bad.append(Outcome(raw, None, None, str(error)[:_LONGEST], cause))
                if not self._lenient:
                    break
        self._learn(good, outcomes)
        if self._ended(outcomes):
            return outcomes
        outcomes += bad
        if bad:
            outcomes.sort(key=lambda outcome: outcome.raw.offset)
        return outcomes

    def _ended(self, outcomes: list[Outcome]) -> bool:
        return not self._lenient and bool(outcomes) and outcomes[-1].event is None

    def _learn(self, found: Sequence[tuple[Raw, Event]], outcomes: list[Outcome]) -> None:
        """Learn events in order; those that the learner refuses change nothing."""
        pairs, step = list(found), len(found)
        while pairs:
            part = pairs[:step]
            try:
                predictions = self._ask([event for _, event in part])
            except RowError as error:
                if error.row == 0:
                    outcomes.append(Outcome(part[0][0], None, None, error.reason[:_LONGEST], BY_LEARNER))
                    if not self._lenient:
                        return
                    pairs, step = pairs[1:], _PIECE
                else:
                    # what comes before the bad row first: what it teaches may decide about the row
                    step = error.row
                continue
            outcomes += [
                Outcome(raw, event, known(p), "") for (raw, event), p in zip(part, predictions, strict=True)
            ]
            pairs, step = pairs[len(part) :], _PIECE

    def _ask(self, events: Sequence[Event]) -> Sequence[Any]:
        xs, ys = [event.fields for event in events], [event.target for event in events]
        if None not in ys and all(event.weight is None for event in events):
            return self._pass(xs, ys)
        weights = [0.0 if e.target is None else 1.0 if e.weight is None else e.weight for e in events]
        return self._pass(xs, ys, weights)
