"""What a session does to records: decode, predict, learn; count what is refused; encode what goes out.

The model after a sequence of records depends on the records alone, not on how they were cut into batches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from connectors import settings
from connectors.events import Decoder, Event
from connectors.stream import Output, Raw
from streamk.encoding.rows import RowError
from streamk.learners import Learner
from streamk.scores import decide

_PIECE = 64  # events tried together where one of them is refused
_LONGEST = 300  # characters of a reason, which may quote what it refuses


class Outcome(msgspec.Struct, frozen=True, gc=False):
    """What became of a record: an event and its prediction, or the reason of its refusal."""

    raw: Raw
    event: Event | None
    prediction: Any  # probabilities by label, or a number
    reason: str


def _known(prediction: Any) -> Any:
    """Return a prediction without labels that were not known then, but later in the same batch."""
    if isinstance(prediction, dict) and 0.0 in prediction.values():
        return {label: p for label, p in prediction.items() if p > 0.0}
    return prediction


class Tally(NamedTuple):
    """How many events were learned, predicted only (no target, or no weight), and refused."""

    learned: int
    predicted: int
    refused: int

    @classmethod
    def of(cls, outcomes: Sequence[Outcome]) -> Tally:
        """Count outcomes."""
        events = [outcome.event for outcome in outcomes if outcome.event is not None]
        predicted = sum(event.target is None or event.weight == 0.0 for event in events)
        return cls(len(events) - predicted, predicted, len(outcomes) - len(events))


class Operator:
    """Decodes, predicts and learns.

    Parameters
    ----------
    learner
        Of the task.
    decoder
        Of its events.
    task
        ``"classification"`` or ``"regression"``.
    """

    def __init__(self, learner: Learner, decoder: Decoder, task: str) -> None:
        self.learner, self._decode = learner, decoder
        model: Any = learner
        self._pass: Callable[..., Sequence[Any]] = (
            model.predict_proba_learn_many if task == "classification" else model.predict_learn_many
        )

    def process(self, records: Sequence[Raw], lenient: bool = True) -> list[Outcome]:
        """Predict each event, then learn it if it has a target.

        Unless ``lenient``, the work ends at the first record that is refused, whose outcome is the last.
        """
        outcomes: list[Outcome] = []
        good: list[tuple[Raw, Event]] = []
        bad: list[Outcome] = []
        decode = self._decode
        for raw in records:
            try:
                good.append((raw, decode(raw.value or b"")))
            except ValueError as error:
                bad.append(Outcome(raw, None, None, str(error)[:_LONGEST]))
                if not lenient:
                    break
        self._learn(good, outcomes, lenient)
        if not lenient and outcomes and outcomes[-1].event is None:
            return outcomes
        outcomes += bad
        if bad:
            outcomes.sort(key=lambda outcome: outcome.raw.offset)
        return outcomes

    def _learn(self, pairs: list[tuple[Raw, Event]], outcomes: list[Outcome], lenient: bool) -> None:
        """Learn events in order; those that the learner refuses change nothing."""
        step = len(pairs)
        while pairs:
            part = pairs[:step]
            try:
                predictions = self._ask([event for _, event in part])
            except RowError as error:
                if error.row == 0:
                    outcomes.append(Outcome(part[0][0], None, None, error.reason[:_LONGEST]))
                    if not lenient:
                        return
                    pairs, step = pairs[1:], _PIECE
                else:
                    # what comes before the bad row first: what it teaches may decide about the row
                    step = error.row
                continue
            outcomes += [
                Outcome(raw, event, _known(p), "") for (raw, event), p in zip(part, predictions, strict=True)
            ]
            pairs, step = pairs[len(part) :], _PIECE

    def _ask(self, events: Sequence[Event]) -> Sequence[Any]:
        xs, ys = [event.fields for event in events], [event.target for event in events]
        if None not in ys and all(event.weight is None for event in events):
            return self._pass(xs, ys)
        weights = [0.0 if e.target is None else 1.0 if e.weight is None else e.weight for e in events]
        return self._pass(xs, ys, weights)


class Limits:
    """Refuses to go on where too many events are refused."""

    def __init__(self, limits: settings.Limits) -> None:
        self._limits = limits
        self._row = 0
        self._seen: list[bool] = []  # of the events in the window, whether each was refused

    def exceeded(self, outcomes: Sequence[Outcome], refused: int) -> str:
        """Count outcomes, and return the sentence that ends the run, empty if there is none."""
        limits = self._limits
        if not refused:
            self._row = 0
        for outcome in outcomes if refused else ():
            self._row = self._row + 1 if outcome.event is None else 0
            if self._row >= limits.consecutive:
                return f"{self._row} events in a row were refused (limits.consecutive): {outcome.reason}"
        self._seen += [outcome.event is None for outcome in outcomes] if refused else [False] * len(outcomes)
        del self._seen[: -limits.window]
        refused = sum(self._seen) if refused else 0
        if len(self._seen) == limits.window and refused > limits.ratio * limits.window:
            reason = next((o.reason for o in reversed(outcomes) if o.event is None), "")
            return f"{refused} of the last {limits.window} events were refused (limits.ratio): {reason}"
        return ""


def encode(partition: str, outcomes: Sequence[Outcome], predictions: bool) -> list[Output]:
    """Return the outputs of outcomes: dead letters, and predictions if they are wanted."""
    outputs = []
    for outcome in outcomes:
        raw, event = outcome.raw, outcome.event
        if event is None:
            outputs.append(Output(True, partition, raw, outcome.reason.encode()))
        elif predictions:
            outputs.append(Output(False, partition, raw, _body(partition, raw, event, outcome.prediction)))
    return outputs


def _body(partition: str, raw: Raw, event: Event, prediction: Any) -> bytes:
    """Return a prediction as JSON."""
    key = event.key
    if key is None and raw.key is not None:
        key = raw.key.decode("utf-8", "replace")
    answer: dict[str, Any] = {"partition": partition, "offset": raw.offset}
    if key is not None:
        answer["key"] = key
    if (moment := raw.timestamp if event.time is None else event.time) is not None:
        answer["time"] = moment
    answer["prediction"] = decide(prediction)
    if isinstance(prediction, dict):
        answer["probabilities"] = {_name(label): round(p, 6) for label, p in prediction.items()}
    if event.target is not None:
        answer["target"] = event.target
    return msgspec.json.encode(answer)


def _name(label: Any) -> str:
    return str(label).lower() if isinstance(label, bool) else str(label)
