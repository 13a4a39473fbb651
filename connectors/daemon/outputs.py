"""What became of records, and what it looks like to the outside: predictions as JSON, dead letters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from connectors.events import Event
from connectors.stream import DEAD_LETTERS, PREDICTIONS, Output, Raw
from streamk.scores import decide


class Outcome(msgspec.Struct, frozen=True, gc=False):
    """What became of a record: an event and its prediction, or the reason of its refusal."""

    raw: Raw
    event: Event | None
    prediction: Any  # probabilities by label, or a number
    reason: str


def encode(partition: str, outcomes: Sequence[Outcome], predictions: bool) -> list[Output]:
    """Return the outputs of outcomes: dead letters, and predictions if they are wanted."""
    outputs = []
    for outcome in outcomes:
        raw, event = outcome.raw, outcome.event
        if event is None:
            outputs.append(Output(DEAD_LETTERS, partition, raw, outcome.reason.encode()))
        elif predictions:
            outputs.append(
                Output(PREDICTIONS, partition, raw, _body(partition, raw, event, outcome.prediction))
            )
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
