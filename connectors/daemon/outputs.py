"""What became of records, and what it looks like to the outside: predictions as JSON, dead letters."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from connectors.decoding import Event
from connectors.sections import TOP
from connectors.stream import DEAD_LETTERS, PREDICTIONS, Output, Raw
from streamk.metrics.metric import decide

NO_LABEL = "no label learned yet"  # why a prediction is null


class Outcome(msgspec.Struct, frozen=True, gc=False):
    """What became of a record: an event and its prediction, or the reason and the cause of its refusal."""

    raw: Raw
    event: Event | None
    prediction: Any  # probabilities by label, or a number
    reason: str
    cause: str = ""  # one of connectors.daemon.operator.CAUSES


def encode(partition: str, outcomes: Sequence[Outcome], predictions: bool, top: int = TOP) -> list[Output]:
    """Return the outputs of outcomes: dead letters, and predictions if they are wanted."""
    outputs = []
    for outcome in outcomes:
        raw, event = outcome.raw, outcome.event
        if event is None:
            outputs.append(Output(DEAD_LETTERS, partition, raw, outcome.reason.encode()))
        elif predictions:
            prediction = body(partition, raw, event, outcome.prediction, top)
            outputs.append(Output(PREDICTIONS, partition, raw, prediction))
    return outputs


def known(prediction: Any) -> Any:
    """Return a prediction without labels that were not known then, but later in the same batch."""
    if isinstance(prediction, dict) and 0.0 in prediction.values():
        return {label: p for label, p in prediction.items() if p > 0.0}
    return prediction


def most_probable(prediction: Mapping[Any, float], top: int) -> Mapping[Any, float]:
    """Return the ``top`` most probable labels, in the order of all labels, which also decides ties.

    >>> most_probable({"a": 0.1, "b": 0.5, "c": 0.3, "d": 0.1}, 3)
    {'a': 0.1, 'b': 0.5, 'c': 0.3}
    """
    if len(prediction) <= top:
        return prediction
    chosen = set(heapq.nlargest(top, prediction, key=prediction.__getitem__))
    return {label: p for label, p in prediction.items() if label in chosen}


def body(partition: str, raw: Raw, event: Event, prediction: Any, top: int = TOP) -> bytes:
    """Return a prediction as JSON, with the probabilities of the ``top`` most probable labels."""
    key = event.key
    if key is None and raw.key is not None:
        key = key_of(raw.key)
    answer: dict[str, Any] = {"partition": partition, "offset": raw.offset}
    if key is not None:
        answer["key"] = key
    if (moment := raw.timestamp if event.time is None else event.time) is not None:
        answer["time"] = moment
    answer["prediction"] = decide(prediction)
    if answer["prediction"] is None:
        answer["reason"] = NO_LABEL
    if isinstance(prediction, dict) and top:
        found = most_probable(prediction, top)
        answer["probabilities"] = {name_of(label): round(p, 6) for label, p in found.items()}
    if event.target is not None:
        answer["target"] = event.target
    return msgspec.json.encode(answer)


def key_of(key: bytes) -> str:
    """Return a record's key as a text."""
    return key.decode("utf-8", "replace")


def name_of(label: Any) -> str:
    """Return a label as a name in an object of JSON."""
    return str(label).lower() if isinstance(label, bool) else str(label)
