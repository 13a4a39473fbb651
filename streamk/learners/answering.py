"""Rows outside the loop over events: their columns, what every expert says of them, and the predictions."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from streamk.combining.combiner import combine
from streamk.compiling import ENTRY
from streamk.encoding.rows import Rows, slices
from streamk.encoding.scaling import scale_row
from streamk.features.activation import AMPLITUDE
from streamk.features.lanes import aligned
from streamk.features.plain import LINEAR, fill_plain
from streamk.features.relevance import inputs_for, transform_row
from streamk.features.sources import featurize, room_for_row
from streamk.learners.borrowed import borrowed
from streamk.learners.events import DONE, LACKING, count_all, evaluate_all

_ROWS = 256  # whose columns are in memory at once, if they are not asked for
Array = NDArray[np.float64]
Floats = NDArray[np.float32]


def answers(model: Any, rows: Rows, labels: Floats) -> tuple[Floats, Array]:
    """Return what a learner with sections makes of rows, with the label memory as it is given.

    The outputs ``(E, 2, n, K)`` of all experts, and the predictions ``(n, K)``.
    """
    out = np.zeros((len(labels), model._outputs))
    found = [_fill(model, rows.select(part), labels[part], out[part])[1] for part in slices(len(out), _ROWS)]
    return np.concatenate(found, axis=2), out


def columns_of(model: Any, rows: Rows, labels: Floats) -> Floats:
    """Return the columns of rows ``(n, columns)``."""
    return _fill(model, rows, labels, np.zeros((len(labels), model._outputs)))[0]


def _fill(model: Any, rows: Rows, labels: Floats, out: Array) -> tuple[Floats, Floats]:
    e = model._map
    phi: Floats = aligned(np.zeros((len(labels), e.columns), dtype=np.float32))
    outputs: Floats = np.zeros((len(model._experts), 2, *out.shape), dtype=np.float32)
    labels = np.ascontiguousarray(labels)
    while (code := _answer_rows(model._lent(e)[1], rows, labels, phi, outputs, out)) != DONE:
        e.make_room(LACKING - code)
    return phi, outputs


@njit(**ENTRY)
def _answer_rows(loan, rows, labels, phi, outputs, out):
    """Fill ``phi``, ``outputs`` and ``out``; return as :func:`streamk.learners.events.run` does."""
    coding, source, features = borrowed(loan.coding), borrowed(loan.source), borrowed(loan.features)
    sections = features.sections
    n, w = rows.values.shape
    room = room_for_row(source, rows.keys)
    if room > features.frequencies.shape[0]:
        return LACKING - room
    kinds = coding.exponents.shape[0] * inputs_for(sections)
    inputs, found = np.empty((kinds, 1, w), dtype=np.float32), np.empty((1, w), dtype=np.uint64)
    of, widths = np.empty((1, w), dtype=np.int32), np.empty(1, dtype=np.int64)
    raw = np.empty((1, features.waves.shape[1]), dtype=np.float32)
    one = np.empty((count_all(loan.groups), 2, out.shape[1]), dtype=np.float32)
    mixed = np.empty(out.shape[1], dtype=np.float32)
    for i in range(n):
        widths[0] = scale_row(rows, i, coding.statistics, coding.exponents, coding.seen, inputs, found, of, 0)
        transform_row(sections, inputs, found, of, widths[0], 0)
        featurize(source, features, inputs, found, widths, AMPLITUDE, raw)
        fill_plain(sections, inputs, found, of, widths[0], 0, np.bool_(False), raw, phi[i : i + 1])
        for p in range(sections.starts.shape[0]):
            for c in range(labels.shape[1]):
                phi[i, sections.starts[p] + LINEAR + c] = labels[i, c]
        evaluate_all(borrowed(loan.groups), phi, np.int64(i), one, 0)
        for e in range(one.shape[0]):
            for s in range(2):
                for k in range(out.shape[1]):
                    outputs[e, s, i, k] = one[e, s, k]
        combine(borrowed(loan.combiner), coding, one, mixed, out[i])
    return DONE
