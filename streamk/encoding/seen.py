"""The record of learned values of categories; other values add nothing to an event.

For a kernel, a new value is a random direction without learned coefficients, so it only adds noise. A column
of unique strings would make all events noisy. So a learner with a record skips values that it has not
learned, like numbers without a scale; an event with a new value is learned without it, and the next one with
it.

The record is a pair of Bloom filters of 2¹⁸ bits (Bloom 1970) with three bits for a key. New and recurring
values are added to the current filter; after 2¹⁵ values, the other is emptied and becomes the current one. So
memory and time are bounded, recurring values stay, and at most one in twenty new values is mistaken for a
learned one.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numba import njit
from numpy.typing import NDArray

from streamk.arrays import Integers
from streamk.compiling import ENTRY, INNER
from streamk.encoding.rows import ABSENT, CATEGORY, EncodedRows
from streamk.state import Field, Stateful

_WORDS = 4096  # of 64 bits, in each filter
_MOST = 2**15  # values in a filter
_CURRENT, _COUNT = 0, 1  # of the state
_HASHES = 3
Bits = NDArray[np.uint64]


class SeenValues(Stateful):
    """The record of values.

    Attributes
    ----------
    bits
        The two filters, ``(2, 4096)``.
    state
        The index of the current filter, and the number of values added to it.
    """

    def __init__(self) -> None:
        self.bits: Bits = np.zeros((2, _WORDS), dtype=np.uint64)
        self.state: Integers = np.zeros(2, dtype=np.int64)

    def copy_from(self, other: SeenValues) -> None:
        """Become a copy of another record."""
        self.bits[:], self.state[:] = other.bits, other.state

    def add(self, rows: EncodedRows) -> None:
        """Record the values of categories in these rows, in order."""
        _mark_rows((self.bits, self.state), rows)

    def known(self, rows: EncodedRows) -> EncodedRows:
        """Return rows without the values of categories that are not recorded."""
        unknown = np.zeros(rows.values.shape, dtype=bool)
        _find_unknown((self.bits, self.state), rows, unknown)
        return rows.without(unknown) if unknown.any() else rows

    def merge_from(self, others: list[SeenValues]) -> None:
        """Become the union of several records, of their current filters and of their others."""
        for other in others:
            current = int(other.state[_CURRENT])
            self.bits[0] |= other.bits[current]
            self.bits[1] |= other.bits[1 - current]
        self.state[:] = 0, min(sum(int(other.state[_COUNT]) for other in others), _MOST - 1)

    def fields(self) -> Iterator[Field]:
        """Yield the words that are not 0 and, if there are any, the state."""
        yield Field("seen.words", "recorded values", used="seen.places", default=0)
        if self.bits.any():
            yield Field("seen.state", "counts of recorded values", (0, 0), (1, _MOST - 1))

    @property
    def words(self) -> Bits:
        """All words, one after the other."""
        return self.bits.ravel()


@njit(**INNER)
def _place(key, hashed):
    """Return the word and the bit of one of three hashes of a key: 18 bits of it."""
    part = (key >> np.uint64(18 * hashed)) & np.uint64(64 * _WORDS - 1)
    return np.int64(part >> np.uint64(6)), np.uint64(1) << (part & np.uint64(63))


@njit(**INNER)
def _holds(bits, which, key):
    for h in range(_HASHES):
        word, bit = _place(key, h)
        if bits[which, word] & bit == np.uint64(0):
            return False
    return True


@njit(**INNER)
def is_seen(seen, key):
    """Return whether the value of a category was learned; True if there is no record."""
    if seen is None:
        return True
    return _holds(seen[0], np.int64(0), key) or _holds(seen[0], np.int64(1), key)


@njit(**INNER)
def mark_seen(seen, rows, i):
    """Record the values of categories in row ``i``."""
    if seen is not None:
        bits, state = seen
        slots, keys, _ = rows
        shared = min(i, slots.shape[0] - 1)
        for j in range(slots.shape[1]):
            key, category = keys[shared, j], slots[shared, j] <= CATEGORY
            if category and key != ABSENT and not _holds(bits, state[_CURRENT], key):
                for h in range(_HASHES):
                    word, bit = _place(key, h)
                    bits[state[_CURRENT], word] |= bit
                state[_COUNT] += 1
                if state[_COUNT] == _MOST:
                    state[_CURRENT], state[_COUNT] = 1 - state[_CURRENT], 0
                    for word in range(_WORDS):
                        bits[state[_CURRENT], word] = np.uint64(0)


@njit(**ENTRY)
def _mark_rows(seen, rows):
    for i in range(rows[2].shape[0]):
        mark_seen(seen, rows, i)


@njit(**ENTRY)
def _find_unknown(seen, rows, unknown):
    slots, keys, _ = rows
    for i in range(unknown.shape[0]):
        shared = min(i, slots.shape[0] - 1)
        for j in range(unknown.shape[1]):
            key = keys[shared, j]
            category = slots[shared, j] <= CATEGORY and key != ABSENT
            unknown[i, j] = category and not is_seen(seen, key)
