"""Exchange tests: whether the value of a field helps to predict, or the learner only reacts to it.

A learner reacts to every input, and its reaction to a value far from all that it has learned is arbitrary. So
the size of a reaction is no measure of relevance. The test gives one field the value that it had in an
earlier event, and looks at how the prediction ``f`` moves, ``d = f' − f``, and how the squared error does::

    q = (f' − y)² − (f − y)² = d² − 2 d e          e = y − f, before the event is learned

For a field that says nothing of the target the mean of ``q`` is 0, whatever the reaction; for a field whose
effect is learned as it is, it is the mean of ``d²`` (permutation importance; Breiman 2001). The *use* of a
field is the ratio::

    ρ = Σ ω q/Σ ω d² = 1 − 2 Σ ω d e/Σ ω d²        standard error  2 √(Σ ω² d² e²)/Σ ω d²
    ω = 1/(1 + d² + e²)

``ω`` bounds what one event counts. What is used is the posterior mean of ``ρ``, which before any test is 0
with probability ½ and else uniform on [0, 1]: so it is the same for all fields while nothing is known, and 0
for a field that never changes. Of classes, ``d`` and ``e`` are vectors of probabilities, and ``q`` is a Brier
score.

A *field* is a number, or a category with all its values, and has a *tag*: the key of the number, or what
stands as the slot of the category. A pool of 32 earlier events holds the values to exchange with; one event
in 32 takes the place of a random one. A test costs one more prediction, and an event has one test at most.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from streamk.compiling import INNER
from streamk.encoding.rows import typed
from streamk.features.counter import mix64
from streamk.features.plain import Keys, column_of, columns_of, empty_columns, in_use, index_of, tag_of

FIELDS = 512  # with tests of their own, and one for none
POOL, WIDTH = 32, 512  # earlier events, and fields kept of each
TESTS, SQUARES, PRODUCTS, SPREAD = range(4)  # Σ 1, Σ d², Σ d e, Σ d² e²
_FEWEST = 8  # fields among which the one to test is drawn
_REPLACED = 32  # one event in so many goes into the pool
_EXCHANGE, _POOLED = 0x65786368616E6765, 0x706F6F6C  # apart the draws of which input, which event and when
_GRID = np.linspace(0.0, 1.0, 201)
_NONE = 1.0  # odds, before any test, of a field of no use
_MOST = 1e100
Array = NDArray[np.float64]


class ExchangeRecord(NamedTuple):
    """Tests and pool as compiled code sees them; see :class:`Exchanges`. ``places`` finds tags."""

    tags: Keys
    places: NDArray[np.int64]
    tests: Array
    pool_keys: NDArray[np.uint64]
    pool_slots: NDArray[np.int32]
    pool_values: NDArray[np.float32]
    pool_counts: NDArray[np.int64]


class Exchanges:
    """Tests of fields, and the pool.

    Attributes
    ----------
    tags
        Of the fields, as keys of columns (:mod:`streamk.features.plain`).
    tests
        ``(512, 4)``: how many, ``Σ d²``, ``Σ d e`` and ``Σ d² e²`` of each field.
    pool_keys, pool_slots, pool_values, pool_counts
        Inputs of earlier events, ``(32, 512)``, in deviations, and how many each event has.
    """

    def __init__(self) -> None:
        self.tags: Keys = empty_columns(FIELDS)
        self.tests: Array = np.zeros((FIELDS, 4))
        self.pool_keys: NDArray[np.uint64] = np.zeros((POOL, WIDTH), dtype=np.uint64)
        self.pool_slots: NDArray[np.int32] = np.zeros((POOL, WIDTH), dtype=np.int32)
        self.pool_values: NDArray[np.float32] = np.zeros((POOL, WIDTH), dtype=np.float32)
        self.pool_counts: NDArray[np.int64] = np.zeros(POOL, dtype=np.int64)

    @property
    def record(self) -> ExchangeRecord:
        """Tests and pool as compiled code sees them, until fields are restored or merged."""
        return ExchangeRecord(
            self.tags, index_of(self.tags), self.tests,
            self.pool_keys, self.pool_slots, self.pool_values, self.pool_counts,
        )  # fmt: skip

    def forget(self) -> None:
        """Forget tests and pool, but not which fields there are."""
        self.tests[:] = 0.0
        for name in _POOL:
            getattr(self, name)[:] = 0

    def fade(self, kept: float) -> None:
        """Let the tests before count less."""
        self.tests *= kept

    @property
    def present(self) -> float:
        """Inputs that an event has, in the mean over the pool; at least 1."""
        counts = self.pool_counts[self.pool_counts > 0]
        return float(counts.mean()) if len(counts) else 1.0

    def use(self) -> dict[int, tuple[float, float]]:
        """Return, by tag, the use ``ρ`` of every field and how far predictions move, the mean of ``d²``."""
        found = {}
        for tag, place in self.places.items():
            tests, squares, products, spread = self.tests[place].tolist()
            found[tag] = use_of(squares, products, spread), squares / tests if tests > 0.0 else 0.0
        return found

    @property
    def places(self) -> dict[int, int]:
        """The places of fields, by tag."""
        return {tag: place for place, tag in enumerate(in_use(self.tags), 1)}

    def merge_from(self, others: Sequence[Exchanges]) -> None:
        """Add up the tests of some learners; the pool takes from their pools in turn."""
        tags = dict.fromkeys(tag for other in others for tag in in_use(other.tags))
        self.tags = columns_of(list(tags), FIELDS)
        ours = self.places
        for k, other in enumerate(others):
            for tag, place in other.places.items():
                if tag in ours:
                    self.tests[ours[tag]] += other.tests[place]
            for name in _POOL:
                getattr(self, name)[k :: len(others)] = getattr(other, name)[k :: len(others)]

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays that a model file keeps; none before the first test."""
        tags = in_use(self.tags)
        if not tags:
            return {}
        width = int(self.pool_counts.max())
        kept = {f"map.{name}": getattr(self, name)[:, :width] for name in _POOL[:-1]}
        return {
            "map.field_tags": np.array(tags, dtype=np.uint64),
            "map.field_tests": self.tests[1 : 1 + len(tags)],
            "map.pool_counts": self.pool_counts,
            **kept,
        }

    def load_state_dict(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Take over the arrays of a model file, if they are possible."""
        if "map.field_tags" not in arrays:
            return
        tags = typed(arrays, "map.field_tags", np.uint64, (len(arrays["map.field_tags"]),))
        if len(tags) >= FIELDS:
            raise ValueError("its fields are too many")
        tests = typed(arrays, "map.field_tests", np.float64, (len(tags), 4))
        counts = typed(arrays, "map.pool_counts", np.int64, (POOL,))
        width = int(counts.max())
        if not ((abs(tests) <= _MOST).all() and (tests[:, [TESTS, SQUARES, SPREAD]] >= 0.0).all()):
            raise ValueError("its tests of fields are impossible")
        if not ((counts >= 0) & (counts <= WIDTH)).all():
            raise ValueError("its pool of events is impossible")
        self.tags = columns_of(tags.tolist(), FIELDS)
        self.tests[1 : 1 + len(tags)] = tests
        self.pool_counts = counts.copy()
        for name, dtype in zip(_POOL[:-1], (np.uint64, np.int32, np.float32), strict=True):
            getattr(self, name)[:, :width] = typed(arrays, f"map.{name}", dtype, (POOL, width))
        if not (abs(self.pool_values) <= _LARGEST_INPUT).all():
            raise ValueError("its pool of events is impossible")


_POOL = ("pool_keys", "pool_slots", "pool_values", "pool_counts")
_LARGEST_INPUT = 1e30


def use_of(squares: float, products: float, spread: float) -> float:
    """Return the posterior mean of ``ρ``, given ``Σ d²``, ``Σ d e`` and ``Σ d² e²``; 0 if nothing moved.

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
    """Return which of ``count`` inputs is tested at the event that follows so many, −1 for none."""
    j = np.int64(mix64(np.uint64(int(events))) % np.uint64(max(count, _FEWEST)))
    return j if j < count else np.int64(-1)


@njit(**INNER)
def exchange_field(exchanges, inputs, found, of, count, i, j, events, unit, changed, keys, slots):
    """Fill ``changed``, ``keys`` and ``slots`` with row ``i``, the field of input ``j`` of an earlier event.

    Returns how many inputs the changed row has, −1 if it would be the same. ``unit`` are the factors of the
    families, ``(families,)``.
    """
    pool_keys, pool_slots = exchanges.pool_keys, exchanges.pool_slots
    pool_values, pool_counts = exchanges.pool_values, exchanges.pool_counts
    p = np.int64(mix64(np.uint64(int(events)) ^ np.uint64(_EXCHANGE)) % np.uint64(POOL))
    if pool_counts[p] == 0:
        return np.int64(-1)
    tag, other = tag_of(of[i, j], found[i, j]), np.int64(-1)
    for m in range(pool_counts[p]):
        if tag_of(pool_slots[p, m], pool_keys[p, m]) == tag:
            other = np.int64(m)
    key, value = found[i, j], np.float32(0.0)
    if other >= 0:
        key, value = pool_keys[p, other], pool_values[p, other]
    if key == found[i, j] and value == np.float32(np.float64(inputs[0, i, j]) / unit[0]):
        return np.int64(-1)
    to = np.int64(0)
    for m in range(count):
        if m != j or other >= 0:
            keys[0, to], slots[0, to] = found[i, m], of[i, m]
            for k in range(unit.shape[0]):
                changed[k, 0, to] = inputs[k, i, m]
            if m == j:
                keys[0, to] = key
                for k in range(unit.shape[0]):
                    changed[k, 0, to] = np.float32(np.float64(value) * unit[k])
            to += 1
    for m in range(to, found.shape[1]):
        keys[0, m] = np.uint64(0)
        for k in range(unit.shape[0]):
            changed[k, 0, m] = np.float32(0.0)
    return to


@njit(**INNER)
def count_test(exchanges, slot, key, squares, products, errors, weight, moved):
    """Add one test of the field of an input; a field met for the first time is given a place.

    ``squares``, ``products`` and ``errors`` are ``d²``, ``d e`` and ``e²``. One that would not have ``moved``
    the event counts nothing.
    """
    place = column_of(exchanges.tags, exchanges.places, tag_of(slot, key), True)
    if place > 0 and moved:
        tests = exchanges.tests
        bounded = 1.0 / (1.0 + squares + errors)
        tests[place, TESTS] += weight
        tests[place, SQUARES] += weight * bounded * squares
        tests[place, PRODUCTS] += weight * bounded * products
        tests[place, SPREAD] += weight * bounded * bounded * products * products


@njit(**INNER)
def pool_event(exchanges, inputs, found, of, count, i, events, unit):
    """Put row ``i`` into the pool, in the place of a random event, if its turn comes."""
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
        exchanges.pool_keys[p, m] = found[i, m] if there else np.uint64(0)
        exchanges.pool_slots[p, m] = of[i, m] if there else np.int32(0)
        exchanges.pool_values[p, m] = (
            np.float32(np.float64(inputs[0, i, m]) / unit) if there else np.float32(0.0)
        )
