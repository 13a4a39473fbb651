"""Events that wait for their block to fill."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from streamk.arrays import Array, Arrays
from streamk.encoding.rows import LARGEST, EncodedRows, from_parts, moved, parts_of, stack


class EventBuffer:
    """Encoded events with their targets and weights, in order of arrival."""

    def __init__(self) -> None:
        self._parts: list[EncodedRows] = []
        self._goals: list[Array] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, rows: EncodedRows, goal: Array) -> None:
        """Add rows with their targets and weights ``(2, n)``; rows without weight are not kept."""
        learned = np.flatnonzero(goal[1] > 0.0)
        if len(learned):
            self.put(rows.select(learned), goal[:, learned])

    def put(self, rows: EncodedRows, goal: Array) -> None:
        """Add rows that have weight, without a copy."""
        self._parts.append(rows)
        self._goals.append(goal)
        self._count += len(rows.values)

    def pop(self) -> tuple[EncodedRows, Array]:
        """Return all rows and goals as one block, and keep none."""
        block = stack(self._parts), np.concatenate(self._goals, axis=1)
        self._parts, self._goals, self._count = [], [], 0
        return block

    def move(self, places: NDArray[np.int32]) -> None:
        """Move slot ``k`` to ``places[k]``; numbers of evicted names, of place −1, are absent."""
        self._parts = [moved(rows, places) for rows in self._parts]

    def portions(self) -> Iterator[tuple[EncodedRows, Array]]:
        """Yield rows and goals in the portions in which they came, and keep none."""
        self._count = 0
        while self._parts:
            yield self._parts.pop(0), self._goals.pop(0)

    def arrays(self) -> Arrays:
        """Return the events as named arrays for a model file; empty if there are none."""
        if not self._parts:
            return {}
        return parts_of("pending", stack(self._parts), np.concatenate(self._goals, axis=1))

    @classmethod
    def from_arrays(
        cls, arrays: Arrays, slots: int, block_size: int, largest: float = LARGEST
    ) -> EventBuffer:
        """Return the events that :meth:`arrays` described, if they fit a learner with so many slots."""
        count = len(arrays["pending.values"])
        if not count < block_size:
            raise ValueError(f"{count} pending events do not fit")
        rows, goal = from_parts("pending", arrays, count, slots, largest)
        pending = cls()
        pending.add(rows, goal)
        return pending

    def targets(self) -> set[float]:
        """Return the targets that wait."""
        return {target for goal in self._goals for target in goal[0].tolist()}
