"""Learned relevance: random features whose frequencies are scaled by the relevance of the inputs.

Irrelevant inputs make random features less accurate. With ``∇f`` the gradient of the learner's prediction by
the scaled inputs, ``M = mean ∇f ∇fᵀ`` (the expected gradient outer product; Trivedi et al. 2014) is large in
directions in which predictions change. Features of ``T z`` instead of ``z`` emphasise these directions::

    T = M'^½              M' = 0.98 d S/tr S + 0.02 I,   S = D M D   (a full matrix, for rotated inputs)
    T = diag(M')^½                                                  (relevance of each input by itself)

``d`` is the number of inputs of an event; the trace is weighted by the variances of one-hot inputs, so that
the size of distances does not change. ``D = diag(M)^½`` uses squared effects, so inputs with noisy effects
get almost no relevance. Gradients, of standardised targets, are finite differences at one event of a few
dozens. They are weighted by exchange tests (:mod:`streamk.features.exchange`): ``M`` becomes ``√ρ M √ρ``. An
input that never changed has no relevance.

Predictions learn nothing between the values of an input with few values, such as yes and no: with small
differences, a column that is rarely 1 would have the largest gradient. Differences therefore lead to another
value. The smallest change of an input between events is its *gap*, which rises by a tenth with every change,
so that no gap is permanent; a difference is as wide as the gap, towards the mean, and at least ¼. A number
that has never changed has no gradient.

Cross moments of targets with products of inputs (:mod:`streamk.features.cross_moments`) are added to ``M``,
times the share of the targets' variance that the best expert does not explain.

There are two such blocks of features; until they are opened, ``T`` is the identity. Whenever the number of
events has doubled, the older block restarts under the current ``M``: at first one under the diagonal and the
other under the full matrix, later as the block with the smaller error. They also restart about a thousand
events after the error of an expert on them has doubled, if other fields are important since.

Only the first 63 learned inputs have a row in ``M``. Others have one factor for all inputs of their field,
from the tests of the field.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from streamk.arrays import Array, Floats
from streamk.compiling import CALLED, INNER
from streamk.features.columns.plain import column_of, has_room, tag_of
from streamk.features.cross_moments import MOST
from streamk.features.exchange import FIELDS, rarity
from streamk.threads import one_blas_thread
from streamk.vector.linear_algebra import add_rows

BLOCKS = 2
RAW, LAST, GAP = 0, 1, 2
_STEP = 0.25  # of the differences, in deviations of an input
_RISE = 1.1
_MIXED = 0.02
_RARELY = 4  # gradients at one event in so many times the number of inputs
_FEWEST = 8
_LEAST = 1e-100  # of the largest entry of M: less is no relevance
LARGEST_FACTOR = 64.0  # by which an input is scaled: values differ as much as they can


def no_relevance() -> tuple[Array, Array, Floats, Floats]:
    """Return empty moments and gaps, and identity transforms ``(2, 64, 64)`` and factors ``(2, 512)``."""
    identities = np.array([np.eye(MOST)] * BLOCKS, dtype=np.float32)
    return np.zeros((MOST, MOST)), np.zeros((3, MOST)), identities, np.ones((BLOCKS, FIELDS), np.float32)


def pool_gaps(gaps: Array, columns: list[int], others: Array) -> None:
    """Merge the last values of another learner, and its gaps where they are smaller, in ``columns``."""
    known = others[GAP] > 0.0
    mine = gaps[GAP, columns]
    gaps[:GAP, columns] = others[:GAP]
    gaps[GAP, columns] = np.where(known & ((mine == 0.0) | (others[GAP] < mine)), others[GAP], mine)


def transform_of(
    outer: Array,
    fields: Array,
    uses: tuple[Array, Array],
    variances: tuple[Array, Array],
    present: float,
    whole: bool,
) -> tuple[Floats, Floats]:
    """Return ``T`` of an outer product ``M`` ``(d, d)``, and the factors of inputs without a column.

    Parameters
    ----------
    outer
        ``M`` of the inputs with a column.
    fields
        Replaces the diagonal of ``M`` for inputs without a column, by field.
    uses
        Of the inputs with a column, and of the fields.
    variances
        Of the inputs with a column, and of the remainder of each field.
    present
        Mean number of fields of an event.
    whole
        Whether ``T`` is a full matrix.
    """
    used = slice(1, 1 + len(outer))
    transform, factors = np.eye(MOST), np.ones(FIELDS)
    largest = max(outer.diagonal().max(initial=0.0), fields.max(initial=0.0))
    if largest > _LEAST:
        worth, of_fields = np.sqrt(outer.diagonal() / largest), fields * fields / largest
        sharp = worth[:, None] * outer * worth
        total = max(float(sharp.diagonal() @ variances[0] + of_fields @ variances[1]), _LEAST * largest)
        floor = _MIXED * uses[0]
        mixed = (1.0 - _MIXED) * present / total * sharp + np.diag(floor)
        if whole:
            with one_blas_thread():
                values, vectors = np.linalg.eigh(mixed)
                transform[used, used] = (
                    vectors * np.sqrt(np.clip(values, 0.0, LARGEST_FACTOR**2))
                ) @ vectors.T
            unused = 1 + np.flatnonzero(mixed.diagonal() == 0.0)
            transform[unused, :] = transform[:, unused] = 0.0  # rounding errors
        else:
            transform[used, used] = np.diag(np.sqrt(mixed.diagonal()))
        of_fields = (1.0 - _MIXED) * present / total * of_fields + _MIXED * uses[1]
        factors[1 : 1 + len(fields)] = np.sqrt(of_fields)
    transform = np.clip(transform, -LARGEST_FACTOR, LARGEST_FACTOR)
    return transform.astype(np.float32), np.minimum(factors, LARGEST_FACTOR).astype(np.float32)


@njit(**INNER)
def is_due(sections, events, inputs):
    """Return whether gradients are computed after so many events."""
    if sections is None:
        return False
    return sections.learned and int(events) % (_RARELY * max(inputs, _FEWEST) * rarity(events)) == 0


@njit(**CALLED)
def transform_row(sections, scratch, i):
    """Fill the inputs of the blocks under relevance, after those of the families, for row ``i``.

    Returns whether learning the row will assign a column to an input, which affects later rows.
    """
    gets_column = False
    if sections is not None:
        inputs, keys, of, count = scratch.inputs, scratch.keys, scratch.slots, scratch.counts[i]
        columns, places, transforms = sections.columns, sections.places, sections.transforms
        families = inputs.shape[0] // (1 + transforms.shape[0])
        known, fields = np.empty(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
        whole = np.empty(MOST, dtype=np.float32)
        for j in range(count):
            column = column_of(columns, places, keys[i, j], False)
            gets_column |= column == 0 and has_room(columns, of[i, j])
            known[j] = column if column < transforms.shape[1] else 0
            if known[j] == 0:
                tag = tag_of(of[i, j], keys[i, j])
                fields[j] = column_of(sections.field_tags, sections.field_places, tag, False)
        for q in range(transforms.shape[0]):
            for k in range(families):
                to, first = families * (1 + q) + k, (k * inputs.shape[1] + i) * inputs.shape[2]
                add_rows(whole, transforms, q * MOST * MOST, known, inputs, first, count)
                for j in range(count):
                    alone = sections.factors[q, fields[j]] * inputs[k, i, j]
                    inputs[to, i, j] = whole[known[j]] if known[j] > 0 else alone
                for j in range(count, keys.shape[1]):
                    inputs[to, i, j] = np.float32(0.0)
    return gets_column


@njit(**INNER)
def add_gradients(sections, slopes, scratch, i, weight):
    """Add the outer products of the slopes ``(inputs, outputs)`` of row ``i`` to the moments, and count."""
    if sections is not None:
        keys, count = scratch.keys, scratch.counts[i]
        sections.moments[0, 0] += weight
        for j in range(count):
            c = column_of(sections.columns, sections.places, keys[i, j], False)
            for m in range(count):
                d = column_of(sections.columns, sections.places, keys[i, m], False)
                if 0 < c < MOST and 0 < d < MOST:
                    for k in range(slopes.shape[1]):
                        sections.moments[c, d] += weight * slopes[j, k] * slopes[m, k]


@njit(**INNER)
def follow_gaps(sections, rows, r, scratch, i):
    """Update gaps and last values by row ``r``; row ``i`` of ``scratch`` is its scaled form."""
    if sections is not None and sections.learned:
        inputs, scaled_keys, count, unit = scratch.inputs, scratch.keys, scratch.counts[i], scratch.units[i]
        slots, keys, values = rows
        shared, gaps, scaled_to = min(r, slots.shape[0] - 1), sections.gaps, np.zeros(MOST)
        for j in range(count):  # inputs that are 0 are not listed
            c = column_of(sections.columns, sections.places, scaled_keys[i, j], False)
            if 0 < c < MOST:
                scaled_to[c] = np.float64(inputs[0, i, j]) / unit
        for j in range(slots.shape[1]):
            key = keys[shared, j]
            c = column_of(sections.columns, sections.places, key, False) if slots[shared, j] >= 0 else 0
            if 0 < c < MOST:
                scaled = scaled_to[c]
                if gaps[LAST, c] != 0.0 and values[r, j] != gaps[RAW, c]:
                    change, risen = abs(scaled - gaps[LAST, c]), _RISE * gaps[GAP, c]
                    gaps[GAP, c] = min(risen, change) if risen > 0.0 else change
                gaps[RAW, c], gaps[LAST, c] = values[r, j], scaled


@njit(**INNER)
def step_of(sections, key, value):
    """Return the difference of an input for its gradient, 0 if it has none.

    In deviations, like ``value``; its mean is at 1. An input without a gap is no number, or never changed.
    """
    c = column_of(sections.columns, sections.places, key, False) if sections is not None else 0
    if not 0 < c < MOST:
        return 0.0
    gap = sections.gaps[GAP, c]
    if gap <= _STEP:
        return 0.0 if gap == 0.0 and sections.gaps[LAST, c] != 0.0 else _STEP
    return gap if value < 1.0 else -gap
