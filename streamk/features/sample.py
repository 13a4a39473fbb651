"""A sample of the last learned events, for fitting new blocks of features of a merged learner.

The sample holds the last 1,024 events: encoded inputs before scaling, label history, target and weight. A
uniform sample of all events would include events before a change. Events with more than 64 inputs are not
stored.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from streamk.arrays import AnyArray, Array, Arrays, Floats, Integers, Places, typed
from streamk.compiling import INNER
from streamk.encoding.label_history import COLUMNS
from streamk.encoding.rows import (
    ABSENT,
    UNSCALED,
    EncodedRows,
    empty_rows,
    from_parts,
    moved,
    parts_of,
    stack,
)
from streamk.features.columns.plain import LINEAR

EVENTS, WIDTH = 1024, 64  # events, and inputs of each
_NAME = "map.sample"
_LARGEST_LABEL, _LARGEST_OUTCOME = 1e6, 1e200


class SampleRecord(NamedTuple):
    """The sample for compiled code; see :class:`EventSample`."""

    filled: Integers
    counts: Integers
    slots: NDArray[np.int32]
    keys: NDArray[np.uint64]
    values: Array
    labels: Floats
    goal: Array
    said: Array


class Sampled(NamedTuple):
    """Events of a sample: encoded rows, label history ``(n, 64)``, targets and weights ``(2, n)``.

    ``outcomes`` ``(2, n)`` holds predictions and original targets, for regression; the targets of ``goal``
    are those learned, which may be limited.
    """

    rows: EncodedRows
    labels: Floats
    goal: Array
    outcomes: Array

    def __len__(self) -> int:
        return int(self.goal.shape[1])

    def select(self, events: Places) -> Sampled:
        """Return the events at these places."""
        return Sampled(
            self.rows.select(events), self.labels[events], self.goal[:, events], self.outcomes[:, events]
        )


class EventSample:
    """The sample; arrays have a row for every event."""

    def __init__(self) -> None:
        self.record = SampleRecord(
            np.zeros(1, dtype=np.int64),
            np.zeros(EVENTS, dtype=np.int64),
            np.zeros((EVENTS, WIDTH), dtype=np.int32),
            np.zeros((EVENTS, WIDTH), dtype=np.uint64),
            np.zeros((EVENTS, WIDTH)),
            np.zeros((EVENTS, COLUMNS), dtype=np.float32),
            np.zeros((2, EVENTS)),
            np.zeros((2, EVENTS)),
        )

    def __len__(self) -> int:
        return int(self.record.filled[0])

    def events(self) -> Sampled:
        """Return the events in the order of storage."""
        count, record = len(self), self.record
        rows = empty_rows(count, int(record.counts[:count].max(initial=0)))
        width = rows.keys.shape[1]
        there = np.arange(width) < record.counts[:count, None]
        for array, stored in zip(_arrays(rows), _arrays(record), strict=True):
            array[there] = stored[:count, :width][there]
        labels, goal, outcomes = record.labels[:count], record.goal[:, :count], record.said[:, :count]
        return Sampled(stack([rows]), labels.copy(), goal.copy(), outcomes.copy())

    def latest(self, events: int) -> Places:
        """Return the indices of the events, the last of so many learned ones first."""
        count = len(self)
        places: Places = ((events if count == EVENTS else count) - 1 - np.arange(count)) % max(count, 1)
        return places

    def put(self, sampled: Sampled) -> None:
        """Store these events instead of all others."""
        rows, count, record = sampled.rows, len(sampled), self.record
        shape = rows.values.shape
        there = np.broadcast_to(rows.keys, shape) != ABSENT
        record.filled[0] = count
        record.counts[:count] = there.sum(axis=1)
        for stored, array in zip(_arrays(record), _arrays(rows), strict=True):
            stored[:count, : shape[1]] = np.broadcast_to(array, shape)
        record.labels[:count], record.goal[:, :count] = sampled.labels, sampled.goal
        record.said[:, :count] = sampled.outcomes

    def move(self, places: NDArray[np.int32]) -> None:
        """Move slots to ``places``; numbers of removed names, −1 there, become absent."""
        if len(self):
            sampled = self.events()
            rows = stack([moved(sampled.rows, places)])
            self.put(Sampled(rows, sampled.labels, sampled.goal, sampled.outcomes))

    def arrays(self) -> Arrays:
        """Return the arrays for a model file; none before the first event."""
        if not len(self):
            return {}
        sampled = self.events()
        used = np.flatnonzero(sampled.labels.any(axis=0)).astype(np.int32)
        outcomes = {f"{_NAME}.said": sampled.outcomes} if sampled.outcomes.any() else {}
        return parts_of(_NAME, sampled.rows, sampled.goal) | {
            f"{_NAME}.labels": sampled.labels[:, used],
            f"{_NAME}.used": used,
            **outcomes,
        }

    def load_state_dict(self, arrays: Arrays, slots: int, largest: float) -> None:
        """Restore the arrays of a model file after checking them for so many slots of numbers."""
        if f"{_NAME}.values" not in arrays:
            return
        count, width = arrays[f"{_NAME}.values"].shape
        if count > EVENTS or width > WIDTH:
            raise ValueError("its sample of events is too large")
        rows, goal = from_parts(_NAME, arrays, count, slots, largest)
        used = typed(arrays, f"{_NAME}.used", np.int32, arrays[f"{_NAME}.used"].shape[:1])
        kept = typed(arrays, f"{_NAME}.labels", np.float32, (count, len(used)))
        possible = (np.diff(used, prepend=-1) > 0).all() and (used < COLUMNS).all()
        if not (possible and (abs(kept) <= _LARGEST_LABEL).all()):
            raise ValueError("the label memory of its sample of events is impossible")
        if (rows.slots[np.broadcast_to(rows.keys == ABSENT, rows.slots.shape)] != UNSCALED).any():
            raise ValueError("its sample of events is impossible")
        labels = np.zeros((count, COLUMNS), dtype=np.float32)
        labels[:, used] = kept
        outcomes = np.zeros((2, count))
        if f"{_NAME}.said" in arrays:
            outcomes = typed(arrays, f"{_NAME}.said", np.float64, (2, count))
        if not (abs(outcomes) <= _LARGEST_OUTCOME).all():
            raise ValueError("the predictions of its sample of events are impossible")
        self.put(Sampled(rows, labels, goal, outcomes))


def _arrays(inputs: EncodedRows | SampleRecord) -> list[AnyArray]:
    return [inputs.slots, inputs.keys, inputs.values]


@njit(**INNER)
def sample_event(sections, rows, r, phi, i, events, noted):
    """Store row ``r``, with columns in row ``i`` of ``phi``, as the event after so many.

    ``noted`` are the learned target, the weight, the prediction, and the original target.
    """
    if sections is not None and sections.learned and _inputs_of(rows, r) <= WIDTH:
        sample = sections.sample
        p = sample.filled[0] if sample.filled[0] < EVENTS else np.int64(int(events) % EVENTS)
        _store(sample, rows, r, p)
        for c in range(COLUMNS):
            sample.labels[p, c] = phi[i, LINEAR + c]
        sample.goal[0, p], sample.goal[1, p], sample.said[0, p], sample.said[1, p] = noted


@njit(**INNER)
def _inputs_of(rows, r):
    """Return the number of inputs of row ``r``."""
    keys = rows[1]
    shared, count = min(r, keys.shape[0] - 1), 0
    for j in range(keys.shape[1]):
        count += keys[shared, j] != ABSENT
    return count


@njit(**INNER)
def _store(sample, rows, r, p):
    """Store the inputs of row ``r`` at index ``p``, in the order of their keys."""
    slots, keys, values = rows
    shared, count = min(r, slots.shape[0] - 1), 0
    for j in range(slots.shape[1]):
        if keys[shared, j] != ABSENT:
            m = count
            while m > 0 and sample.keys[p, m - 1] > keys[shared, j]:
                sample.slots[p, m], sample.keys[p, m] = sample.slots[p, m - 1], sample.keys[p, m - 1]
                sample.values[p, m] = sample.values[p, m - 1]
                m -= 1
            sample.slots[p, m], sample.keys[p, m] = slots[shared, j], keys[shared, j]
            sample.values[p, m] = values[r, j]
            count += 1
    sample.counts[p] = count
    sample.filled[0] = max(sample.filled[0], p + 1)
