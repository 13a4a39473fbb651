"""Random binning features: the cells of random grids that an event falls into.

A *grid* divides the axis of a number ``z`` into cells ``⌊z/δ + u⌋`` of a random width ``δ`` and a random
offset ``u``; a category is a cell by itself. A grid of several fields has a cell for every combination. The
probability that two events share a cell is a kernel: if ``δ`` has the density ``δ exp(−δ/ℓ)/ℓ²`` it is the
Laplacian kernel ``exp(−|z − z'|/ℓ)`` of one field, and the product of these kernels of several (Rahimi and
Recht 2007, §4). The kernel of all grids is their mean, an additive kernel of single fields, pairs, triples
and more: it separates neighbouring values, and learns what holds for one combination of them only, which
takes very many cosines (:mod:`streamk.features.map`).

A plan says how many grids there are, and of how many fields (:mod:`streamk.features.plans`). In all but the
smallest one, ``z`` is the rank of the number (:mod:`streamk.features.ranks`); there it is the number in
deviations.

A grid uses the fields of the event with the least ``−log₂ h/r``: ``h`` is a uniform hash of grid and field,
and ``r`` the importance of the field, so important fields are in more grids. Events with the same fields have
the same grids, and a new field changes only the grids that it enters. Half of the grids follow the importance
that each of the blocks under relevance was opened with. Of an event with more than 512 inputs, the first 512
by key count.

Further columns hold the cells of single values, by field: a value of a category, an eighth of a number's axis
in deviations, or the absence of a number, which is a category in grids over ranks, too; −1 where an event has
no more fields.

A column holds a hash of 24 bits, regenerated from the seed like all features, of which a table uses the first
(:mod:`streamk.experts.tables`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from streamk.arrays import Array, Floats, Integers
from streamk.compiling import INNER, both
from streamk.dispatch import implements
from streamk.encoding.rows import CATEGORY, UNSCALED
from streamk.features.columns.family import Family, fill
from streamk.features.columns.plain import column_of, tag_of
from streamk.features.counter import block_keys, mix64, mix64_int, uniforms
from streamk.features.plans import SCALES, VALUES, GridPlan
from streamk.features.ranks import rank_of
from streamk.vector.cells import BITS, hash_cells

_WIDTH = 512  # inputs of an event that count
_LEAST = 0.05  # importance
_STREAM = 0x6772696473
_GONE = np.uint64(0x676F6E65)  # the code of a number that is missing
_FINE = 8.0  # intervals of a number's axis in a deviation
_FACTORS = (
    0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x27D4EB2F165667C5, 0x9E3779B185EBCA87, 0x85EBCA77C2B2AE63,
    0x94D049BB133111EB, 0xBF58476D1CE4E5B9, 0xD6E8FEB86659FD93,
)  # fmt: skip


class GridRecord(NamedTuple):
    """Grids for compiled code.

    ``keys`` and ``sizes`` of the grids, ``inverse`` ``1/δ`` and ``offsets`` ``u``, ``(fields, grids)``;
    ``first``, their first column; ``parts`` of one size, ``factors`` of the hash; ``cycle``, after how many
    grids the importance is that of the other block; and whether numbers are ``ranked``.

    The rest is scratch. Of the last event: ``known``, the number of its fields, their ``tags`` and the
    ``entries`` of these among fields with relevance, their ``places`` in every grid, ``(fields, grids)``, and
    the ``start`` of the hash of every grid. Of the present event: ``fields`` by tag, their ``numbers``,
    ``codes`` of categories, and those of whole numbers, ``wholes``. ``draws`` and ``weights`` are for
    the choice.
    """

    keys: NDArray[np.uint64]
    sizes: Integers
    inverse: Array
    offsets: Array
    first: int
    parts: Integers
    factors: NDArray[np.uint64]
    cycle: int
    ranked: bool
    known: Integers
    tags: NDArray[np.uint64]
    entries: Integers
    places: Integers
    start: NDArray[np.uint64]
    fields: NDArray[np.uint64]
    numbers: Array
    codes: NDArray[np.uint64]
    wholes: NDArray[np.uint64]
    draws: Array
    weights: Array


def draw_grids(seed: int, plan: GridPlan, first: int, blocks: int) -> GridRecord:
    """Return the grids of a plan, whose cells are in the columns from ``first`` on.

    ``δ`` is ``ℓ`` times the sum of two exponential variables. The grids are shared by ``blocks`` with their
    own importance of fields.
    """
    stream, words, grids, most = mix64_int(seed ^ _STREAM), np.uint64, plan.grids, max(plan.fields)
    draws = uniforms(stream, 3 * most * grids).reshape(3, grids, most)
    scales = np.resize(SCALES, grids)[:, None]
    return GridRecord(
        block_keys(stream, grids),
        plan.sizes,
        np.ascontiguousarray((1.0 / (-scales * np.log(draws[0] * draws[1]))).T),
        np.ascontiguousarray(draws[2].T),
        first,
        plan.parts,
        np.array(_FACTORS, words),
        len(SCALES) * (1 if plan.by_size else len(plan.fields)),
        plan.by_size,
        np.full(1, -1),
        np.zeros(_WIDTH, words),
        np.zeros(_WIDTH, np.int64),
        np.zeros((most, grids), np.int64),
        np.zeros(grids, words),
        np.zeros(_WIDTH, words),
        np.zeros(_WIDTH + 1),
        np.zeros(_WIDTH + 1, words),
        np.zeros(_WIDTH, words),
        np.zeros(most),
        np.zeros((blocks, _WIDTH)),
    )


def importance_of(improvements: list[float], count: int) -> Floats:
    """Return the importance of fields, ``(count,)``: the root of their improvements, 1 for the largest.

    The first is that of unknown fields, 1, and so are those beyond the given ones. Without improvements all
    are 1.

    Examples
    --------
    >>> importance_of([0.0, 4.0, 1.0], 6).tolist()
    [1.0, 0.0, 1.0, 0.5, 1.0, 1.0]
    """
    importance, largest = np.ones(count, dtype=np.float32), max(improvements, default=0.0)
    if largest > 0.0:
        importance[1 : 1 + len(improvements)] = np.sqrt(np.maximum(improvements, 0.0) / largest)
    return importance


class CellColumns(Family):
    """Cells of random grids."""

    name = "cells"

    def __init__(self, plan: GridPlan, quadratic: bool) -> None:
        super().__init__(plan, quadratic)
        self.plan, self.width = plan, plan.grids + (2 * VALUES.grids if plan.by_size else 0)

    def draw(self, seed: int, blocks: int) -> None:
        """Draw the grids of a seed."""
        self.grids = draw_grids(seed, self.plan, self.first, blocks)

    def forget(self) -> None:
        """Choose the fields of grids again, and look up their knots, with the next event."""
        self.grids.known[:] = -1

    @property
    def record(self) -> GridRecord:
        """The grids, whose fields are chosen again."""
        self.forget()
        return self.grids


@implements(fill, GridRecord)
def _fill_columns(grids, sections, scratch, i, learned, phi):
    fields = min(scratch.counts[i], _WIDTH)
    _sort_fields(grids, scratch, i, fields)
    _choose(sections, grids, fields)
    if grids.ranked:
        for j in range(fields):
            if grids.codes[j] == np.uint64(0):
                grids.numbers[j] = rank_of(sections.knots, grids.entries[j], grids.numbers[j])
    row = i * phi.shape[1] + grids.first
    start, places, inverse, offsets = grids.start, grids.places, grids.inverse, grids.offsets
    for p in range(grids.parts.shape[0]):
        part = grids.parts[p, 0], grids.parts[p, 1], grids.parts[p, 2]
        fields_of = grids.numbers, grids.codes, grids.factors
        hash_cells(start, places, inverse, offsets, fields_of, part, phi, row)
    if grids.ranked:
        _fill_values(grids, fields, phi, i, np.int64(grids.first + grids.keys.shape[0]))


@njit(**INNER)
def _fill_values(grids, fields, phi, i, first):
    """Fill the columns of single values, and those of whole numbers."""
    last, whole = np.uint64(64 - BITS), np.int64(first + VALUES.grids)
    for j in range(2 * VALUES.grids):
        phi[i, first + j] = np.float32(-1.0)
    for j in range(min(fields, VALUES.grids)):
        code, start = grids.codes[j], mix64(grids.fields[j])
        if code == np.uint64(0):
            code = np.uint64(np.int64(np.floor(_FINE * grids.numbers[j])))
        phi[i, first + j] = np.float32(mix64(start ^ code) >> last)
        if grids.wholes[j] != np.uint64(0):
            phi[i, whole] = np.float32(mix64(start ^ grids.wholes[j]) >> last)
            whole += 1


@njit(**INNER)
def _sort_fields(grids, scratch, i, count):
    """Sort the fields of row ``i`` by tag: numbers have a value and categories a code."""
    fields, numbers, codes, wholes = grids.fields, grids.numbers, grids.codes, grids.wholes
    unit = scratch.units[i]
    for j in range(count):
        key, slot = scratch.keys[i, j], scratch.slots[i, j]
        category = slot <= CATEGORY
        tag, place = tag_of(slot, key), np.int64(j)
        while place > 0 and fields[place - 1] > tag:
            fields[place], numbers[place] = fields[place - 1], numbers[place - 1]
            codes[place], wholes[place] = codes[place - 1], wholes[place - 1]
            place -= 1
        fields[place] = tag
        numbers[place] = 0.0 if category else np.float64(scratch.inputs[0, i, j]) / unit
        codes[place], wholes[place] = key if category else np.uint64(0), scratch.codes[i, j]
        if grids.ranked and CATEGORY < slot < UNSCALED:
            codes[place] = _GONE
    numbers[count], codes[count] = 0.0, np.uint64(0)  # in place of a field that a grid does not have


@njit(**INNER)
def _choose(sections, grids, count):
    """Choose the fields of every grid, unless they are those of the last event."""
    fields, known = grids.fields, grids.known[0] == count
    for j in range(count):
        known = known and grids.tags[j] == fields[j]
    if not known:
        grids.known[0] = count
        for j in range(count):
            grids.tags[j] = fields[j]
            place = column_of(sections.field_tags, sections.field_places, fields[j], False)
            grids.entries[j] = place
            for block in range(grids.weights.shape[0]):
                importance = np.float64(sections.importance[block, place])
                grids.weights[block, j] = max(importance, _LEAST)
        for g in range(grids.keys.shape[0]):
            _choose_for(grids, np.int64(g), count)


@njit(**INNER)
def _choose_for(grids, g, count):
    """Choose the fields of grid ``g``, those with the least draws."""
    key, size, draws, places = grids.keys[g], grids.sizes[g], grids.draws, grids.places
    weights = grids.weights[g // grids.cycle % grids.weights.shape[0]]
    for f in range(draws.shape[0]):
        draws[f], places[f, g] = np.inf, count
    for j in range(count):
        drawn, place = negative_logarithm(mix64(key ^ grids.tags[j])) / weights[j], size
        while place > 0 and drawn < draws[place - 1]:
            if place < size:
                draws[place], places[place, g] = draws[place - 1], places[place - 1, g]
            place -= 1
        if place < size:
            draws[place], places[place, g] = drawn, j
    start = key
    for f in range(size):
        if places[f, g] < count:
            start = mix64(start ^ grids.tags[places[f, g]])
    grids.start[g] = start


@both()
def negative_logarithm(word):
    """Return ``−log₂ u`` of ``u = word · 2⁻⁶⁴``, linear between powers of two: the same on every machine.

    Examples
    --------
    >>> negative_logarithm(np.uint64(2**63)), negative_logarithm(np.uint64(3 * 2**61))
    (1.0, 1.5)
    """
    word, whole = np.uint64(word), 0.0
    while whole < 64.0 and word < np.uint64(0x8000000000000000):
        word, whole = word << np.uint64(1), whole + 1.0
    return whole + 2.0 - 2.0**-63 * np.float64(word) if whole < 64.0 else whole
