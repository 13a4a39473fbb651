"""Outputs: predictions as JSON, of single events and of whole batches, and dead letters.

The outputs of a batch in which nothing is unusual are made from columns and arrays, in place of an object an
event. They are, byte for byte, those of the events one by one.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from connectors.contract.records import DEAD_LETTERS, PREDICTIONS, Headers, Output, Raw
from connectors.contract.sections import TOP
from connectors.events.decoding import Event
from connectors.events.values import Target, label_name
from streamk.encoding.labels import Label
from streamk.evaluation.metric import LEAST_PROBABILITY, decide, loss_and_error

NO_LABEL = "no label learned yet"  # why a prediction is null
_NEAR = 1e-4  # of a millionth: so near to a half, rounding is left to exact arithmetic
Prediction = dict[Target, float] | float  # probabilities by label, or a number
_Columns = list[Sequence[object]]  # of a format string


class Origin(NamedTuple):
    """Which model makes predictions, for their readers.

    Attributes
    ----------
    model
        The name of the model: of the published one, or the source that it learns from.
    version
        Of the published model; empty while a model learns, since every event changes it.
    group
        The consumer group of the daemon, or its source if that has no groups.
    """

    model: str
    version: str
    group: str

    @property
    def headers(self) -> Headers:
        """The headers of predictions, without a version that is empty."""
        return tuple((f"streamk-{key}", text.encode()) for key, text in self._asdict().items() if text)

    def named(self, bodies: Iterable[bytes]) -> list[bytes]:
        """Return predictions that name the version of their model, if it has one."""
        if not self.version:
            return list(bodies)
        end = b"," + msgspec.json.encode(self._asdict())[1:]
        return [body[:-1] + end for body in bodies]


class Outcome(msgspec.Struct, frozen=True, gc=False):
    """What became of a record: an event and its prediction, or the reason and the cause of its refusal."""

    raw: Raw
    event: Event | None
    prediction: Prediction | None
    reason: str
    cause: str = ""  # one of connectors.contract.records.CAUSES


UNNAMED = Origin("", "", "")


def encode(
    partition: str,
    outcomes: Sequence[Outcome],
    predictions: bool,
    top: int = TOP,
    origin: Origin = UNNAMED,
) -> list[Output]:
    """Return the outputs of outcomes: dead letters, and predictions if they are wanted."""
    outputs = []
    headers = origin.headers
    for outcome in outcomes:
        raw, event = outcome.raw, outcome.event
        if event is None:
            outputs.append(Output(DEAD_LETTERS, partition, raw, outcome.reason.encode()))
        elif predictions:
            (text,) = origin.named([body(partition, raw, event, outcome.prediction, top)])
            outputs.append(Output(PREDICTIONS, partition, raw, text, headers))
    return outputs


def without_unknown(prediction: Prediction) -> Prediction:
    """Return a prediction without labels that first came later in the same batch."""
    if isinstance(prediction, dict) and 0.0 in prediction.values():
        return {label: p for label, p in prediction.items() if p > 0.0}
    return prediction


def most_probable(prediction: Mapping[Target, float], top: int) -> Mapping[Target, float]:
    """Return the ``top`` most probable labels, in the order of all labels, which also decides ties.

    >>> most_probable({"a": 0.1, "b": 0.5, "c": 0.3, "d": 0.1}, 3)
    {'a': 0.1, 'b': 0.5, 'c': 0.3}
    """
    if len(prediction) <= top:
        return prediction
    chosen = set(heapq.nlargest(top, prediction, key=prediction.__getitem__))
    return {label: p for label, p in prediction.items() if label in chosen}


def body(partition: str, raw: Raw, event: Event, prediction: Prediction | None, top: int = TOP) -> bytes:
    """Return a prediction as JSON, with the probabilities of the ``top`` most probable labels."""
    key = event.key
    if key is None and raw.key is not None:
        key = key_of(raw.key)
    fields: dict[str, object] = {"partition": partition, "offset": raw.offset}
    if key is not None:
        fields["key"] = key
    if (moment := raw.timestamp if event.time is None else event.time) is not None:
        fields["time"] = moment
    fields["prediction"] = decide(prediction)
    if fields["prediction"] is None:
        fields["reason"] = NO_LABEL
    if isinstance(prediction, dict) and top:
        probable = most_probable(prediction, top)
        fields["probabilities"] = {label_name(label): round(p, 6) for label, p in probable.items()}
    if event.target is not None:
        fields["target"] = event.target
    return msgspec.json.encode(fields)


def key_of(key: bytes) -> str:
    """Return a record's key as a string."""
    return key.decode("utf-8", "replace")


class DecodedBatch(NamedTuple):
    """Records that were all learned or predicted, with the predictions made before.

    Attributes
    ----------
    targets
        None where there is none.
    predictions
        Probabilities, a column a label, or numbers.
    labels
        None for numbers.
    """

    records: Sequence[Raw]
    targets: list[Target]
    predictions: NDArray[np.float64]
    labels: list[Label] | None

    def decide(self, row: int) -> Target:
        """Return the most probable label of a record, None if none is known; a number as it is."""
        prediction = self.predictions[row]
        if self.labels is None:
            return float(prediction)
        best = int(prediction.argmax()) if len(prediction) else 0
        return self.labels[best] if self.labels and prediction[best] > 0.0 else None


def losses_of(batch: DecodedBatch) -> NDArray[np.float64]:
    """Return the loss and the error of every record with a target, as two rows.

    Labels: the log loss, and whether another label was more probable; numbers: the absolute error, twice.
    """
    predictions, targets = batch.predictions, batch.targets
    if None in targets:
        there = [k for k, target in enumerate(targets) if target is not None]
        predictions, targets = predictions[there], [targets[k] for k in there]
    if batch.labels is None:
        errors = np.abs(np.array(targets, dtype=np.float64) - predictions)
        return np.array([errors, errors])
    column: dict[Target, int] = {label: code for code, label in enumerate(batch.labels)}
    codes = np.array([column.get(target, -1) for target in targets], np.intp)  # -1: not learned
    if not len(codes):
        return np.empty((2, 0))
    if not batch.labels:
        predictions = np.zeros((len(codes), 1))
    p = np.where(codes < 0, 0.0, predictions[np.arange(len(codes)), codes])
    wrong = (p <= 0.5) & ((p <= 0.0) | (p < predictions.max(axis=1)))
    return np.array([-np.log(np.maximum(p, LEAST_PROBABILITY)), wrong])


def losses_of_each(targets: Sequence[Target], predictions: Iterable[Prediction]) -> NDArray[np.float64]:
    """Return the loss and the error of every prediction with a target, as two rows."""
    pairs = zip(targets, predictions, strict=True)
    losses = [loss_and_error(target, prediction) for target, prediction in pairs if target is not None]
    return np.array(losses).reshape(-1, 2).T


def encode_batch(
    partition: str, batch: DecodedBatch, top: int = TOP, origin: Origin = UNNAMED
) -> list[Output]:
    """Return the predictions as outputs, with the probabilities of the ``top`` most probable labels."""
    bodies = origin.named(_bodies(partition, batch, top))
    kinds, partitions, headers = repeat(PREDICTIONS), repeat(partition), repeat(origin.headers)
    return list(map(Output, kinds, partitions, batch.records, bodies, headers))


def _bodies(partition: str, batch: DecodedBatch, top: int) -> list[bytes]:
    records, targets, predictions, labels = batch
    single: list[int] = []  # rows to encode by themselves
    if labels is None:
        form, columns = _with_numbers(targets, predictions)
    elif labels:
        codes = _most_probable(predictions, top)
        # the numbers of labels that first came later are 0
        least = np.take_along_axis(predictions, codes, axis=1).min(axis=1) if top else predictions.max(axis=1)
        single = np.flatnonzero(~(least > 0.0)).tolist()
        form, columns = _with_labels(targets, predictions, labels, codes)
    else:
        return [_single(partition, batch, k, top) for k in range(len(records))]
    _, _, keys, times, *_ = zip(*records, strict=True)
    begin = f'{{"partition":{_escaped(partition)},"offset":%d'
    before: _Columns = [[raw.offset for raw in records]]
    if any(key is not None for key in keys):
        begin += "%s"
        before.append(["" if key is None else f',"key":{_json(key_of(key))}' for key in keys])
    if any(time is not None for time in times):
        begin += "%s"
        before.append(["" if time is None else f',"time":{time}' for time in times])
    rows = map((begin + form).__mod__, zip(*before, *columns, strict=True))
    bodies = "\n".join(rows).encode().split(b"\n")
    for k in single:
        bodies[k] = _single(partition, batch, k, top)
    return bodies


def _with_numbers(targets: list[Target], predictions: NDArray[np.float64]) -> tuple[str, _Columns]:
    """Return the end of a prediction as a format string, and its columns."""
    pairs = zip(targets, _numbers(targets), strict=True)
    ends = ["}" if target is None else f',"target":{text}}}' for target, text in pairs]
    return ',"prediction":%s%s', [_numbers(predictions.tolist()), ends]


def _most_probable(predictions: NDArray[np.float64], top: int) -> NDArray[np.intp]:
    """Return the columns of each row's ``top`` largest numbers, in order; the first of equal ones."""
    rows, labels = predictions.shape
    if labels <= top:
        return np.broadcast_to(np.arange(labels), (rows, labels))
    return np.sort(np.argsort(-predictions, axis=1, kind="stable")[:, :top], axis=1)


def _with_labels(
    targets: list[Target], predictions: NDArray[np.float64], labels: list[Label], codes: NDArray[np.intp]
) -> tuple[str, _Columns]:
    """Return the same with the probabilities of the labels in ``codes``."""
    strings = list(map(_json, labels))
    ends: dict[Target, str] = {
        label: f',"target":{text}}}' for label, text in zip(labels, strings, strict=True)
    }
    ends[None] = "}"
    best = [strings[code] for code in predictions.argmax(axis=1).tolist()]
    end = list(map(ends.__getitem__, targets))
    count = codes.shape[1]
    if not count:
        return ',"prediction":%s%s', [best, end]
    columns: _Columns = []
    if count == len(labels):
        pairs = ",".join(f"{_escaped(label_name(label))}:%s" for label in labels)
        columns += [_numbers(_rounded(column)) for column in predictions.T]
    else:
        pairs = ",".join(["%s:%s"] * count)
        names = [_json(label_name(label)) for label in labels]
        for chosen, column in zip(codes.T, np.take_along_axis(predictions, codes, axis=1).T, strict=True):
            columns += [[names[code] for code in chosen.tolist()], _numbers(_rounded(column))]
    return f',"prediction":%s,"probabilities":{{{pairs}}}%s', [best, *columns, end]


def _single(partition: str, batch: DecodedBatch, k: int, top: int) -> bytes:
    """Return one prediction, encoded by itself."""
    prediction: Prediction = batch.predictions[k].tolist()
    if batch.labels is not None:
        prediction = without_unknown(dict(zip(batch.labels, batch.predictions[k].tolist(), strict=True)))
    return body(partition, batch.records[k], Event({}, batch.targets[k], None, None, None), prediction, top)


def _escaped(text: str) -> str:
    return _json(text).replace("%", "%%")


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _numbers(values: Sequence[object]) -> list[str]:
    return msgspec.json.encode(values).decode()[1:-1].split(",")


def _rounded(column: NDArray[np.float64]) -> list[float | None]:
    """Return probabilities to six digits, as ``round`` does."""
    millionths = column * 1e6
    whole = np.rint(millionths)
    values: list[float | None] = (whole / 1e6).tolist()
    for k in np.flatnonzero(np.abs(np.abs(millionths - whole) - 0.5) < _NEAR).tolist():
        values[k] = round(float(column[k]), 6)
    return values
