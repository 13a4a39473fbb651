"""Exchange tests of relevance: whether the value of a field improves predictions.

A learner reacts to every input, and its reaction to a value far from the learned ones is arbitrary, so the
size of a reaction does not measure relevance. The test replaces one field by its value in an earlier event,
and measures the changes of the prediction ``f``, ``d = f' − f``, and of the squared error::

    q = (f' − y)² − (f − y)² = d² − 2 d e          e = y − f, before the event is learned

For a field independent of the target, the mean of ``q`` is 0, whatever the reaction; for a field with a
correctly learned effect, it is the mean of ``d²`` (permutation importance; Breiman 2001). The *use* of a
field is the ratio::

    ρ = Σ ω q/Σ ω d² = 1 − 2 Σ ω d e/Σ ω d²        standard error  2 √(Σ ω² d² e²)/Σ ω d²
    ω = 1/(1 + d² + e²)

``ω`` bounds the influence of one event. The estimate is the posterior mean of ``ρ``, whose prior is 0 with
probability ½ and otherwise uniform on [0, 1]: it is the same for all fields before any test, and 0 for a
field that never changes. For classes, ``d`` and ``e`` are vectors of probabilities, and ``q`` is a Brier
score.

A *field* is a number, or a category with all its values, and has a *tag*: the key of the number, or the slot
value of the category. A pool of 32 earlier events holds the values for exchanges; one event in 32 replaces a
random one. A test costs one more prediction, and an event has at most one test, from 4,096 events on
one event in two, and half as many with every doubling: relevance is used at doublings only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from streamk.arrays import Array, Floats, Integers
from streamk.compiling import INNER
from streamk.features.columns.cells import importance_of
from streamk.features.columns.plain import (
    Keys,
    are_keys,
    column_of,
    columns_of,
    empty_columns,
    in_use,
    index_of,
    tag_of,
)
from streamk.features.counter import mix64
from streamk.state import Field, Stateful

FIELDS = 512  # with separate tests, and one for none
POOL, WIDTH = 32, 512  # earlier events, and stored fields of each
TESTS, SQUARES, PRODUCTS, SPREAD = range(4)  # Σ 1, Σ d², Σ d e, Σ d² e²
_FEWEST = 8  # minimum number of fields to draw the tested one from
_DENSE = 2048  # events of which each one is examined
_REPLACED = 32  # one event in so many enters the pool
_EXCHANGE, _POOLED = 0x65786368616E6765, 0x706F6F6C  # separate streams for the draws of input, event and time
_GRID = np.linspace(0.0, 1.0, 201)
_NONE = 1.0  # prior odds of a useless field
_MOST = 1e100


class ExchangeRecord(NamedTuple):
    """Tests and pool for compiled code; see :class:`Exchanges`. ``places`` is the hash table of tags."""

    tags: Keys
    places: Integers
    tests: Array
    pool_keys: NDArray[np.uint64]
    pool_slots: NDArray[np.int32]
    pool_values: Floats
    pool_counts: Integers


class Exchanges(Stateful):
    """Tests of fields, and the pool.

    Attributes
    ----------
    tags
        Of the fields, as keys of columns (:mod:`streamk.features.columns.plain`).
    tests
        ``(512, 4)``: number of tests, ``Σ d²``, ``Σ d e`` and ``Σ d² e²`` of each field.
    pool_keys, pool_slots, pool_values, pool_counts
        Inputs of earlier events, ``(32, 512)``, in deviations, and their number in each event.
    """

    def __init__(self) -> None:
        self.tags: Keys = empty_columns(FIELDS)
        self.tests: Array = np.zeros((FIELDS, 4))
        self.pool_keys: NDArray[np.uint64] = np.zeros((POOL, WIDTH), dtype=np.uint64)
        self.pool_slots: NDArray[np.int32] = np.zeros((POOL, WIDTH), dtype=np.int32)
        self.pool_values: Floats = np.zeros((POOL, WIDTH), dtype=np.float32)
        self.pool_counts: Integers = np.zeros(POOL, dtype=np.int64)

    @property
    def record(self) -> ExchangeRecord:
        """Tests and pool for compiled code, valid until fields are restored or merged."""
        return ExchangeRecord(
            self.tags, index_of(self.tags), self.tests,
            self.pool_keys, self.pool_slots, self.pool_values, self.pool_counts,
        )  # fmt: skip

    def forget(self) -> None:
        """Reset tests and pool, but not the fields."""
        self.tests[:] = 0.0
        for name in _POOL:
            getattr(self, name)[:] = 0

    def fade(self, kept: float) -> None:
        """Multiply the sums of all tests by a factor."""
        self.tests *= kept

    @property
    def present(self) -> float:
        """Mean number of inputs of an event in the pool; at least 1."""
        counts = self.pool_counts[self.pool_counts > 0]
        return float(counts.mean()) if len(counts) else 1.0

    def use(self) -> dict[int, tuple[float, float]]:
        """Return, by tag, the use ``ρ`` of every field and the mean of ``d²``."""
        uses = {}
        for tag, place in self.places.items():
            tests, squares, products, spread = self.tests[place].tolist()
            uses[tag] = use_of(squares, products, spread), squares / tests if tests > 0.0 else 0.0
        return uses

    def importance(self) -> Floats:
        """Return, by place, the importance of fields: by the mean reduction of squared errors, ``ρ d²``."""
        return importance_of([rho * moved for rho, moved in self.use().values()], FIELDS)

    @property
    def places(self) -> dict[int, int]:
        """The places of fields, by tag."""
        return {tag: place for place, tag in enumerate(in_use(self.tags), 1)}

    def merge_from(self, others: Sequence[Exchanges]) -> None:
        """Add the tests of other learners; the pool takes from their pools in turn."""
        tags = dict.fromkeys(tag for other in others for tag in in_use(other.tags))
        self.tags = columns_of(list(tags), FIELDS)
        ours = self.places
        for k, other in enumerate(others):
            for tag, place in other.places.items():
                if tag in ours:
                    self.tests[ours[tag]] += other.tests[place]
            for name in _POOL:
                getattr(self, name)[k :: len(others)] = getattr(other, name)[k :: len(others)]

    def fields(self) -> Iterator[Field]:
        """Yield fields and tests, if there is any, and the pool, if it has any event."""
        yield Field("map.field_tags", "fields", attribute="tags", counted=1, default=0, possible=are_keys)
        if count := len(in_use(self.tags)):
            least = (0.0, 0.0, -_MOST, 0.0)
            tested = slice(1, 1 + count)
            yield Field("map.field_tests", "tests of fields", least, _MOST, attribute="tests", part=tested)
        # files of format 10 have the counts of an empty pool, too, if there are tests
        yield Field("map.pool_counts", "pooled events", 0, WIDTH, default=None if count else 0)
        if count or self.pool_counts.any():
            used, what = (slice(None), slice(int(self.pool_counts.max()))), "pooled inputs"
            yield Field("map.pool_keys", what, part=used)
            yield Field("map.pool_slots", what, part=used)
            yield Field("map.pool_values", what, -_LARGEST_INPUT, _LARGEST_INPUT, part=used)


_POOL = ("pool_keys", "pool_slots", "pool_values", "pool_counts")
_LARGEST_INPUT = 1e30


def use_of(squares: float, products: float, spread: float) -> float:
    """Return the posterior mean of ``ρ`` from ``Σ d²``, ``Σ d e`` and ``Σ d² e²``; 0 without changes.

    Examples
    --------
    >>> use_of(0.0, 0.0, 0.0)
    0.0
    >>> round(use_of(1.0, 0.0, 1e-6), 2), round(use_of(1.0, 0.5, 1e-6), 2), round(use_of(1.0, 0.5, 1e6), 2)
    (1.0, 0.0, 0.25)
    """
    if squares <= 0.0:
        return 0.0
    ratio, error = 1.0 - 2.0 * products / squares, 2.0 * max(np.sqrt(spread) / squares, 1e-3)
    exponent = -0.5 * ((_GRID - ratio) / error) ** 2
    highest = max(exponent.max(), exponent[0])
    weights = np.exp(exponent - highest) / len(_GRID)
    return float(weights @ _GRID / (weights.sum() + _NONE * np.exp(exponent[0] - highest)))


@njit(**INNER)
def drawn(events, count):
    """Return the input, of ``count``, to test after so many events; −1 for none."""
    random = mix64(np.uint64(int(events)))
    if random >> np.uint64(32) & np.uint64(rarity(events) - 1):
        return np.int64(-1)
    j = np.int64((random & np.uint64(0xFFFFFFFF)) % np.uint64(max(count, _FEWEST)))
    return j if j < count else np.int64(-1)


@njit(**INNER)
def rarity(events):
    """Return one event in how many is examined for relevance, a power of two.

    It doubles with the events from 4,096 on: as many are examined between two openings of blocks.
    """
    once = np.int64(1)
    while events >= 2.0 * _DENSE * once:
        once *= 2
    return once


@njit(**INNER)
def exchange_field(exchanges, scratch, i, j, events, unit, spare):
    """Fill ``spare`` with row ``i``, the field of input ``j`` being that of an earlier event.

    Returns the number of inputs of the changed row, −1 if it is unchanged. ``unit`` are the factors of the
    families, ``(families,)``.
    """
    inputs, row_keys, of, count = scratch.inputs, scratch.keys, scratch.slots, scratch.counts[i]
    changed, keys, slots = spare.inputs, spare.keys, spare.slots
    pool_keys, pool_slots = exchanges.pool_keys, exchanges.pool_slots
    pool_values, pool_counts = exchanges.pool_values, exchanges.pool_counts
    p = np.int64(mix64(np.uint64(int(events)) ^ np.uint64(_EXCHANGE)) % np.uint64(POOL))
    if pool_counts[p] == 0:
        return np.int64(-1)
    tag, other = tag_of(of[i, j], row_keys[i, j]), np.int64(-1)
    for m in range(pool_counts[p]):
        if tag_of(pool_slots[p, m], pool_keys[p, m]) == tag:
            other = np.int64(m)
    key, value = row_keys[i, j], np.float32(0.0)
    if other >= 0:
        key, value = pool_keys[p, other], pool_values[p, other]
    if key == row_keys[i, j] and value == np.float32(np.float64(inputs[0, i, j]) / unit[0]):
        return np.int64(-1)
    to = np.int64(0)
    for m in range(count):
        if m != j or other >= 0:
            keys[0, to], slots[0, to] = row_keys[i, m], of[i, m]
            spare.codes[0, to], spare.wide[0, to] = scratch.codes[i, m], scratch.wide[i, m]
            for k in range(unit.shape[0]):
                changed[k, 0, to] = inputs[k, i, m]
            if m == j:
                keys[0, to], spare.codes[0, to] = key, np.uint64(0)
                spare.wide[0, to] = np.float32(np.float64(value) * unit[0])
                for k in range(unit.shape[0]):
                    changed[k, 0, to] = np.float32(np.float64(value) * unit[k])
            to += 1
    for m in range(to, row_keys.shape[1]):
        keys[0, m] = np.uint64(0)
        for k in range(unit.shape[0]):
            changed[k, 0, m] = np.float32(0.0)
    return to


@njit(**INNER)
def count_test(exchanges, tag, squares, products, errors, weight, moved):
    """Add one test of the field of a tag; a new field gets a place.

    ``squares``, ``products`` and ``errors`` are ``d²``, ``d e`` and ``e²``. A test that did not change the
    event (``moved``) adds nothing.
    """
    place = column_of(exchanges.tags, exchanges.places, tag, True)
    if place > 0 and moved:
        tests = exchanges.tests
        bounded = 1.0 / (1.0 + squares + errors)
        tests[place, TESTS] += weight
        tests[place, SQUARES] += weight * bounded * squares
        tests[place, PRODUCTS] += weight * bounded * products
        tests[place, SPREAD] += weight * bounded * bounded * products * products


@njit(**INNER)
def pool_event(exchanges, scratch, i, events):
    """Replace a random event of the pool by row ``i``, once in so many events."""
    inputs, keys, of, count = scratch.inputs, scratch.keys, scratch.slots, scratch.counts[i]
    if count == 0:
        return
    counts, filled = exchanges.pool_counts, 0
    random = mix64(np.uint64(int(events)) ^ np.uint64(_POOLED))
    while filled < POOL and counts[filled] > 0:
        filled += 1
    if filled == POOL and random % np.uint64(_REPLACED) != np.uint64(0):
        return
    p = filled if filled < POOL else np.int64((random >> np.uint64(32)) % np.uint64(POOL))
    kept = min(count, WIDTH)
    counts[p] = kept
    for m in range(WIDTH):
        there = m < kept
        exchanges.pool_keys[p, m] = keys[i, m] if there else np.uint64(0)
        exchanges.pool_slots[p, m] = of[i, m] if there else np.int32(0)
        exchanges.pool_values[p, m] = (
            np.float32(np.float64(inputs[0, i, m]) / scratch.units[i]) if there else np.float32(0.0)
        )
