"""Rows of inputs to features, for every source of features.

The *source* is None for frequencies in a table, or tables of :class:`streamk.features.structured.Structured`
for fast transforms, or of :class:`streamk.features.sketch.Sketch`; Numba compiles only the code for its type.
"""

from __future__ import annotations

import numpy as np
from numba import njit, types
from numba.extending import overload

from streamk.compiling import INNER
from streamk.encoding.rows import ABSENT, MOST_SLOTS
from streamk.features.frequencies import frequency_rows
from streamk.features.sketch import Sketch, tensor_sketch
from streamk.features.spectra import COSINE, activate
from streamk.features.structured import Structured, add_projections
from streamk.vector.angles import PHASES, fill_angles
from streamk.vector.lanes import LANES


def featurize(*arguments: object) -> None:
    """Fill ``phi`` with the features of rows of scaled inputs (in compiled code).

    Parameters
    ----------
    source
        See the module.
    features
        The :class:`streamk.features.map.MapRecord`, with a table large enough for the inputs.
    inputs, keys, counts
        Nonzero inputs, first in their row, ``(families, n, w)`` float32; their keys, ``(n, w)`` uint64; their
        number, ``(n,)``.
    amplitude
        See :func:`streamk.features.spectra.activate`.
    phi
        ``(≥ n, width)`` float32.
    """
    raise NotImplementedError("for compiled code")


def room_for_row(source: object, keys: object) -> int:
    """Return the maximum number of frequencies of a row with these keys (in compiled code)."""
    raise NotImplementedError("for compiled code")


@overload(room_for_row, jit_options=INNER)
def _room_for_row(source, keys):
    if isinstance(source, types.NoneType):
        return lambda source, keys: _most_above(keys, np.uint64(ABSENT))
    if source.instance_class is Structured:
        return lambda source, keys: _most_above(keys, np.uint64(MOST_SLOTS))
    return lambda source, keys: 0


@njit(**INNER)
def _most_above(keys, least):
    most = 0
    for i in range(keys.shape[0]):
        fields = 0
        for j in range(keys.shape[1]):
            fields += keys[i, j] > least
        most = max(most, fields)
    return most


@njit(**INNER)
def rows_at_once(needed, keys, frequencies):
    """Return the number of rows for ``featurize``, at most 16, whose frequencies fit the cache.

    ``needed`` is the result of :func:`room_for_row`, at most the rows of ``frequencies``.
    """
    if keys.shape[0] == 1 or needed == 0:  # all rows have exactly these keys
        return LANES
    return max(1, min(LANES, frequencies.shape[0] // needed))


@overload(featurize, jit_options=INNER)
def _featurize(source, features, inputs, keys, counts, amplitude, phi):
    if isinstance(source, types.NoneType):
        return _keyed
    return {Structured: _structured, Sketch: _sketch}[source.instance_class]


def _keyed(source, features, inputs, keys, counts, amplitude, phi):
    where = np.empty(keys.shape, dtype=np.int32)
    frequency_rows(features, keys, where)
    fill_angles(inputs, where, counts, features.frequencies, features.waves, features.runs, phi)
    activate(features.kind, amplitude, phi, counts.shape[0], features.features)


def _structured(source, features, inputs, keys, counts, amplitude, phi):
    rows, waves = counts.shape[0], features.waves
    keyed = _without_slots(inputs, keys, counts)
    if keyed[2].max() > 0:
        where = np.empty(keys.shape, dtype=np.int32)
        frequency_rows(features, keyed[1], where)
        fill_angles(keyed[0], where, keyed[2], features.frequencies, waves, features.runs, phi)
        begin = False
    else:
        begin = True
    final = amplitude if features.kind == COSINE else np.float32(0.0)
    projected = add_projections(source, inputs[0], keys, counts, begin, waves, final, phi)
    if begin and not projected:
        for i in range(rows):
            for f in range(phi.shape[1]):
                phi[i, f] = waves[PHASES, f]
    if projected and features.kind == COSINE:
        for i in range(rows):
            for f in range(features.features, phi.shape[1]):
                phi[i, f] = np.float32(0.0)
    else:
        activate(features.kind, amplitude, phi, rows, features.features)


def _sketch(source, features, inputs, keys, counts, amplitude, phi):
    tensor_sketch(source, inputs[0], keys, counts, features.features, amplitude, phi)


@njit(**INNER)
def _without_slots(inputs, keys, counts):
    """Return the inputs without a slot, their keys (0 after the last), and their number."""
    values, unslotted = np.zeros_like(inputs), np.zeros_like(keys)
    kept = np.zeros_like(counts)
    for i in range(counts.shape[0]):
        for j in range(counts[i]):
            if keys[i, j] > MOST_SLOTS:
                values[0, i, kept[i]], unslotted[i, kept[i]] = inputs[0, i, j], keys[i, j]
                kept[i] += 1
    return values, unslotted, kept
