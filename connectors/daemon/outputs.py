"""What became of records, and what it looks like to the outside: predictions as JSON, dead letters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from connectors.events import Event
from connectors.stream import DEAD_LETTERS, PREDICTIONS, Output, Raw
from streamk.scores import decide


class Outcome(msgspec.Struct, frozen=True, gc=False):
    """What became of a record: an event and its prediction, or the reason and the cause of its refusal."""

    raw: Raw
    event: Event | None
    prediction: Any  # probabilities by label, or a number
    reason: str
    cause: str = ""  # one of connectors.daemon.operator.CAUSES


def encode(partition: str, outcomes: Sequence[Outcome], predictions: bool) -> list[Output]:
    """Return the outputs of outcomes: dead letters, and predictions if they are wanted."""
    outputs = []
    for outcome in outcomes:
        raw, event = outcome.raw, outcome.event
        if event is None:
            outputs.append(Output(DEAD_LETTERS, partition, raw, outcome.reason.encode()))
        elif predictions:
            outputs.append(
                Output(PREDICTIONS, partition, raw, body(partition, raw, event, outcome.prediction))
            )
    return outputs


def known(prediction: Any) -> Any:
    """Return a prediction without labels that were not known then, but later in the same batch."""
    if isinstance(prediction, dict) and 0.0 in prediction.values():
        return {label: p for label, p in prediction.items() if p > 0.0}
    return prediction


def body(partition: str, raw: Raw, event: Event, prediction: Any) -> bytes:
    """Return a prediction as JSON."""
    key = event.key
    if key is None and raw.key is not None:
        key = key_of(raw.key)
    answer: dict[str, Any] = {"partition": partition, "offset": raw.offset}
    if key is not None:
        answer["key"] = key
    if (moment := raw.timestamp if event.time is None else event.time) is not None:
        answer["time"] = moment
    answer["prediction"] = decide(prediction)
    if isinstance(prediction, dict):
        answer["probabilities"] = {name_of(label): round(p, 6) for label, p in prediction.items()}
    if event.target is not None:
        answer["target"] = event.target
    return msgspec.json.encode(answer)


def key_of(key: bytes) -> str:
    """Return a record's key as a text."""
    return key.decode("utf-8", "replace")


def name_of(label: Any) -> str:
    """Return a label as a name in an object of JSON."""
    return str(label).lower() if isinstance(label, bool) else str(label)
