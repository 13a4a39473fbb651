"""A uniform sample of the events so far, of bounded size (Vitter 1985, algorithm R).

The first ``most`` events are all kept; event ``n`` after them takes a random place of ``0 … n``, and is kept
if that is one of the sample's. Where it goes is a function of the seed and of ``n``, so portions never show.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk.encoding.rows import LARGEST, Rows, empty_rows, from_parts, parts_of, stack, typed
from streamk.features.counter import GOLDEN64, MASK64, fill_bits

Array = NDArray[np.float64]
_STREAM = 0x5245_5345_5256  # apart from all streams of features


class Reservoir:
    """Encoded rows with their targets and weights ``(2, n)``, raw: not yet scaled.

    Parameters
    ----------
    most
        How many are kept at most.
    seed
        Of the places.
    """

    def __init__(self, most: int, seed: int) -> None:
        self.most, self.seed, self.seen = most, seed, 0
        self._rows = empty_rows(0, 0)
        self._goal: Array = np.zeros((2, 0))
        self._waiting: list[tuple[Rows, Array]] = []  # to be put behind the others, all at once

    def __len__(self) -> int:
        return min(self.seen, self.most)

    def add(self, rows: Rows, goal: Array) -> None:
        """Take rows that have weight, in order; they are copied."""
        count = goal.shape[1]
        first = min(count, max(0, self.most - self.seen))
        if first:
            self._waiting.append((rows.select(slice(first)).copy(), goal[:, :first].copy()))
        places = self._places(self.seen + first, count - first)
        self.seen += count
        kept = np.flatnonzero(places < self.most)
        if len(kept):
            self._replace(places[kept], rows.select(first + kept), goal[:, first + kept])

    def _places(self, seen: int, count: int) -> NDArray[np.intp]:
        """Return the places of events ``seen … seen + count − 1``."""
        words = np.empty(2, dtype=np.uint32)
        places = np.empty(count, dtype=np.intp)
        for k in range(count):
            n = seen + k
            key = np.uint64((self.seed ^ (_STREAM + n * GOLDEN64)) & MASK64)
            fill_bits(key, words)
            places[k] = ((int(words[0]) << 32 | int(words[1])) * (n + 1)) >> 64
        return places

    def _replace(self, places: NDArray[np.intp], rows: Rows, goal: Array) -> None:
        """Put rows in the places of others; of two for one place, the later stays."""
        _, last = np.unique(places[::-1], return_index=True)
        chosen = len(places) - 1 - last
        places, rows = places[chosen], stack([rows.select(chosen)])
        whole, _ = self.rows()
        if not _alike(rows, whole):
            width = max(rows.keys.shape[1], whole.keys.shape[1])
            if len(whole.keys) < len(whole.values) or whole.keys.shape[1] < width:
                whole = self._rows = _apart(whole, width)
            rows = _apart(rows, width)
            whole.slots[places], whole.keys[places] = rows.slots, rows.keys
        whole.values[places] = rows.values
        self._goal[:, places] = goal[:, chosen]

    def rows(self) -> tuple[Rows, Array]:
        """Return the rows and their goals, in the order of their places."""
        if self._waiting:
            parts = ([self._rows] if len(self._rows.values) else []) + [rows for rows, _ in self._waiting]
            self._goal = np.concatenate([self._goal, *(goal for _, goal in self._waiting)], axis=1)
            self._rows, self._waiting = stack(parts), []
        return self._rows, self._goal

    def parts(self) -> dict[str, NDArray[Any]]:
        """Return what a model file keeps; empty if no event was seen."""
        if not self.seen:
            return {}
        rows, goal = self.rows()
        return parts_of("reservoir", stack([rows]), goal) | {
            "reservoir.seen": np.array([self.seen], dtype=np.int64)
        }

    def restore(self, arrays: dict[str, NDArray[Any]], slots: int, largest: float = LARGEST) -> None:
        """Take over the parts of a model file, if they are possible with so many slots."""
        if "reservoir.seen" not in arrays:
            return
        seen = int(typed(arrays, "reservoir.seen", np.int64, (1,))[0])
        rows, goal = from_parts("reservoir", arrays, min(seen, self.most), slots, largest)
        self._rows, self._goal, self.seen = rows.copy(), goal.copy(), seen


def _alike(rows: Rows, whole: Rows) -> bool:
    """Return whether all rows here and there have the same fields, and say so once."""
    once = len(rows.keys) == len(whole.keys) == 1 and rows.keys.shape == whole.keys.shape
    return once and bool((rows.keys == whole.keys).all() and (rows.slots == whole.slots).all())


def _apart(rows: Rows, width: int) -> Rows:
    """Return rows of at least that width, each with slots and keys of its own."""
    apart = empty_rows(len(rows.values), max(width, rows.keys.shape[1]))
    given = slice(rows.keys.shape[1])
    apart.slots[:, given], apart.keys[:, given], apart.values[:, given] = rows
    return apart
