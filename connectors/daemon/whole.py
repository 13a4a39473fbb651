"""Batches in which nothing is odd, taken as a whole: columns and arrays in place of an object an event.

What comes out is, byte for byte, what :mod:`connectors.daemon.outputs` makes of the events one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from connectors.daemon.outputs import body, key_of, known, name_of
from connectors.decoding import Event
from connectors.sections import TOP
from connectors.stream import PREDICTIONS, Output, Raw
from streamk.metrics.metric import LEAST_PROBABILITY

_NEAR = 1e-4  # of a millionth: so near to a half, rounding is left to exact arithmetic


class Whole(NamedTuple):
    """Records that were all learned or predicted, with what was known of them.

    Attributes
    ----------
    targets
        None where there is none.
    answers
        Probabilities, a column a label, or numbers.
    labels
        None for numbers.
    """

    records: Sequence[Raw]
    targets: list[Any]
    answers: NDArray[np.float64]
    labels: list[Any] | None


def losses(whole: Whole) -> NDArray[np.float64]:
    """Return the loss and the error of every record with a target, as two rows.

    Labels: the log loss, and whether another label was more probable; numbers: the absolute error, twice.
    """
    answers, targets = whole.answers, whole.targets
    if None in targets:
        there = [k for k, target in enumerate(targets) if target is not None]
        answers, targets = answers[there], [targets[k] for k in there]
    if whole.labels is None:
        errors = np.abs(np.array(targets, dtype=np.float64) - answers)
        return np.array([errors, errors])
    codes = list(map({label: code for code, label in enumerate(whole.labels)}.__getitem__, targets))
    if not codes:
        return np.empty((2, 0))
    p = answers[np.arange(len(codes)), codes]
    wrong = (p <= 0.5) & ((p <= 0.0) | (p < answers.max(axis=1)))
    return np.array([-np.log(np.maximum(p, LEAST_PROBABILITY)), wrong])


def encoded(partition: str, whole: Whole, top: int = TOP) -> list[Output]:
    """Return the predictions as outputs, with the probabilities of the ``top`` most probable labels."""
    bodies = _bodies(partition, whole, top)
    places = zip(repeat(PREDICTIONS), repeat(partition), whole.records, bodies, strict=False)
    return list(map(Output._make, places))


def _bodies(partition: str, whole: Whole, top: int) -> list[bytes]:
    records, targets, answers, labels = whole
    if labels is None:
        odd, (form, columns) = [], _with_numbers(targets, answers)
    elif labels:
        codes = _most_probable(answers, top)
        # the numbers of labels that were not known then are 0
        least = np.take_along_axis(answers, codes, axis=1).min(axis=1) if top else answers.max(axis=1)
        odd = np.flatnonzero(~(least > 0.0)).tolist()
        form, columns = _with_labels(targets, answers, labels, codes)
    else:
        return [_single(partition, whole, k, top) for k in range(len(records))]
    _, _, keys, times, _ = zip(*records, strict=True)
    begin = f'{{"partition":{_escaped(partition)},"offset":%d'
    before: list[Any] = [[raw.offset for raw in records]]
    if any(key is not None for key in keys):
        begin += "%s"
        before.append(["" if key is None else f',"key":{_text(key_of(key))}' for key in keys])
    if any(time is not None for time in times):
        begin += "%s"
        before.append(["" if time is None else f',"time":{time}' for time in times])
    rows = map((begin + form).__mod__, zip(*before, *columns, strict=True))
    bodies = "\n".join(rows).encode().split(b"\n")
    for k in odd:
        bodies[k] = _single(partition, whole, k, top)
    return bodies


def _with_numbers(targets: list[Any], answers: NDArray[np.float64]) -> tuple[str, list[Any]]:
    """Return the rest of a prediction, and what to put into it, column by column."""
    pairs = zip(targets, _numbers(targets), strict=True)
    ends = ["}" if target is None else f',"target":{text}}}' for target, text in pairs]
    return ',"prediction":%s%s', [_numbers(answers.tolist()), ends]


def _most_probable(answers: NDArray[np.float64], top: int) -> NDArray[np.intp]:
    """Return the columns of each row's ``top`` largest numbers, in order; the first of equal ones."""
    rows, labels = answers.shape
    if labels <= top:
        return np.broadcast_to(np.arange(labels), (rows, labels))
    return np.sort(np.argsort(-answers, axis=1, kind="stable")[:, :top], axis=1)


def _with_labels(
    targets: list[Any], answers: NDArray[np.float64], labels: list[Any], codes: NDArray[np.intp]
) -> tuple[str, list[Any]]:
    """Return the rest of a prediction, with the probabilities of the labels in ``codes``."""
    texts = list(map(_text, labels))
    ends: dict[Any, str] = {label: f',"target":{text}}}' for label, text in zip(labels, texts, strict=True)}
    ends[None] = "}"
    best = [texts[code] for code in answers.argmax(axis=1).tolist()]
    end = list(map(ends.__getitem__, targets))
    count = codes.shape[1]
    if not count:
        return ',"prediction":%s%s', [best, end]
    if count == len(labels):
        pairs = ",".join(f"{_escaped(name_of(label))}:%s" for label in labels)
        columns = [_numbers(_rounded(column)) for column in answers.T]
    else:
        pairs = ",".join(["%s:%s"] * count)
        names = [_text(name_of(label)) for label in labels]
        columns = []
        for chosen, column in zip(codes.T, np.take_along_axis(answers, codes, axis=1).T, strict=True):
            columns += [[names[code] for code in chosen.tolist()], _numbers(_rounded(column))]
    return f',"prediction":%s,"probabilities":{{{pairs}}}%s', [best, *columns, end]


def _single(partition: str, whole: Whole, k: int, top: int) -> bytes:
    """Return one prediction, encoded by itself."""
    answer: Any = whole.answers[k].tolist()
    if whole.labels is not None:
        answer = known(dict(zip(whole.labels, answer, strict=True)))
    return body(partition, whole.records[k], Event({}, whole.targets[k], None, None, None), answer, top)


def _escaped(text: str) -> str:
    return _text(text).replace("%", "%%")


def _text(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _numbers(values: list[float | None]) -> list[str]:
    return msgspec.json.encode(values).decode()[1:-1].split(",")


def _rounded(column: NDArray[np.float64]) -> list[float | None]:
    """Return probabilities to six digits, as ``round`` does."""
    millionths = column * 1e6
    found = np.rint(millionths)
    values: list[float | None] = (found / 1e6).tolist()
    for k in np.flatnonzero(np.abs(np.abs(millionths - found) - 0.5) < _NEAR).tolist():
        values[k] = round(float(column[k]), 6)
    return values
