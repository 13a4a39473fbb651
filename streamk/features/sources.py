"""Rows of inputs to features, whatever the features are made from.

The *source* is None for frequencies in a table, tables of :class:`streamk.features.segments.Structured` for
fast transforms, or those of :class:`streamk.features.sketch.Sketch`; Numba compiles the way that its type
asks for and no other.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, types
from numba.extending import overload

from streamk.features.activation import COSINE, activate
from streamk.features.frequencies import frequency_rows
from streamk.features.keyed import PHASES, fill_angles
from streamk.features.lanes import LANES
from streamk.features.segments import Structured
from streamk.features.sketch import Sketch, tensor_sketch
from streamk.features.structured import add_projections
from streamk.rows import ABSENT, MOST_SLOTS


def featurize(
    source: Any, inputs: Any, found: Any, counts: Any, block_keys: Any, waves: Any, table: Any, used: Any,
    frequencies: Any, kind: Any, features: Any, amplitude: Any, phi: Any,
) -> None:  # fmt: skip
    """Fill ``phi`` with the features of rows of scaled inputs (in compiled code).

    Parameters
    ----------
    source
        See the module.
    inputs, found, counts
        Inputs that are not 0, first in their row, ``(n, w)`` float32; their keys, ``(n, w)`` uint64; how
        many there are, ``(n,)``.
    block_keys, waves
        Of the map: keys of blocks, and phases and radii of features.
    table, used, frequencies
        Of the frequency cache, with room for the inputs.
    kind, amplitude
        See :func:`streamk.features.activation.activate`.
    features
        Features in use, at most the columns of ``phi``.
    phi
        ``(≥ n, width)`` float32.
    """
    raise NotImplementedError("for compiled code")


def room_for_row(source: Any, keys: Any) -> int:
    """Return how many frequencies a row with these keys needs at most (in compiled code)."""
    raise NotImplementedError("for compiled code")


@overload(room_for_row, jit_options={"error_model": "numpy"})
def _room_for_row(source, keys) -> Any:  # type: ignore[no-untyped-def]
    if isinstance(source, types.NoneType):
        return lambda source, keys: _most_above(keys, np.uint64(ABSENT))
    if source.instance_class is Structured:
        return lambda source, keys: _most_above(keys, np.uint64(MOST_SLOTS))
    return lambda source, keys: 0


@njit(cache=True, error_model="numpy")
def _most_above(keys, least):  # type: ignore[no-untyped-def]
    most = 0
    for i in range(keys.shape[0]):
        fields = 0
        for j in range(keys.shape[1]):
            fields += keys[i, j] > least
        most = max(most, fields)
    return most


@njit(cache=True, error_model="numpy")
def rows_at_once(room, keys, frequencies):  # type: ignore[no-untyped-def]
    """Return how many rows ``featurize`` may be given, at most 16: those whose frequencies fit the cache.

    ``room`` is what :func:`room_for_row` returns, at most the rows of ``frequencies``.
    """
    if keys.shape[0] == 1 or room == 0:  # all rows have these keys and no others
        return LANES
    return max(1, min(LANES, frequencies.shape[0] // room))


@overload(featurize, jit_options={"error_model": "numpy"})
def _featurize(  # type: ignore[no-untyped-def]
    source, inputs, found, counts, block_keys, waves, table, used, frequencies, kind, features, amplitude, phi
) -> Any:  # fmt: skip
    if isinstance(source, types.NoneType):
        return _keyed
    return {Structured: _structured, Sketch: _sketch}[source.instance_class]


def _keyed(  # type: ignore[no-untyped-def]
    source, inputs, found, counts, block_keys, waves, table, used, frequencies, kind, features, amplitude, phi
):  # fmt: skip
    where = np.empty(found.shape, dtype=np.int32)
    frequency_rows(found, block_keys, waves, table, used, frequencies, where)
    fill_angles(inputs, where, counts, frequencies, waves, phi)
    activate(kind, amplitude, phi, counts.shape[0], features)


def _structured(  # type: ignore[no-untyped-def]
    source, inputs, found, counts, block_keys, waves, table, used, frequencies, kind, features, amplitude, phi
):  # fmt: skip
    rows = counts.shape[0]
    keyed = _without_slots(inputs, found, counts)
    if keyed[2].max() > 0:
        where = np.empty(found.shape, dtype=np.int32)
        frequency_rows(keyed[1], block_keys, waves, table, used, frequencies, where)
        fill_angles(keyed[0], where, keyed[2], frequencies, waves, phi)
        begin = False
    else:
        begin = True
    final = amplitude if kind == COSINE else np.float32(0.0)
    projected = add_projections(source, inputs, found, counts, begin, waves, final, phi)
    if begin and not projected:
        for i in range(rows):
            for f in range(phi.shape[1]):
                phi[i, f] = waves[PHASES, f]
    if projected and kind == COSINE:
        for i in range(rows):
            for f in range(features, phi.shape[1]):
                phi[i, f] = np.float32(0.0)
    else:
        activate(kind, amplitude, phi, rows, features)


def _sketch(  # type: ignore[no-untyped-def]
    source, inputs, found, counts, block_keys, waves, table, used, frequencies, kind, features, amplitude, phi
):  # fmt: skip
    tensor_sketch(source, inputs, found, counts, features, amplitude, phi)


@njit(cache=True, error_model="numpy")
def _without_slots(inputs, found, counts):  # type: ignore[no-untyped-def]
    """Return the inputs that have no slot, their keys (0 after the last), and how many there are."""
    values, keys = np.zeros_like(inputs), np.zeros_like(found)
    kept = np.zeros_like(counts)
    for i in range(counts.shape[0]):
        for j in range(counts[i]):
            if found[i, j] > MOST_SLOTS:
                values[i, kept[i]], keys[i, kept[i]] = inputs[i, j], found[i, j]
                kept[i] += 1
    return values, keys, kept
