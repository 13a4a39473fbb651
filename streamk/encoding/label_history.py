"""Label memory: recent labels as inputs of the next events.

Successive labels of a stream are often alike: the rule that predicts the last label again is a strong
baseline. For classes, the memory is the last label, one-hot, and a histogram in which an event counts 0.9
times as much as the next. For numbers, it is the last standardised target, the one before, and running means
of rates 0.3 and 0.03. All are 0 until labels arrive. Labels from the 33rd on share the columns of the first.

If labels come ``delay`` events late, an event is predicted from the labels that have arrived, and must be
learned with the same ones. So there are two rows: the memory *now*, and *then*, ``delay`` labels ago. A last
row is the running *mean* of the first, over all labels at first and then over about 2,000; it replaces the
memory where no labels come.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from streamk.arrays import Array
from streamk.compiling import INNER

COLUMNS, SHARED, NUMBERS = 64, 32, 4  # all; of each kind, of classes; of numbers
NOW, THEN, HELD, MEAN = 0, 1, 2, -1
_ARRIVED = 0  # place of the count of labels in a queue
_KEPT = 0.9
_FAST, _SLOW = 0.3, 0.03
_FORGOTTEN = 1.0 / 2000.0


def empty_memory(delay: int | None) -> tuple[Array, Array]:
    """Return an empty memory ``(2 or 3, 64)``, and the queue of the labels between its rows.

    Without a delay, labels are no inputs, and the memory has no rows.
    """
    if delay is None:
        return np.zeros((0, COLUMNS)), np.zeros(1)
    return np.zeros((2 if delay == 0 else 3, COLUMNS)), np.zeros(1 + delay)


@njit(**INNER)
def recall(memory, when, amplitude, phi, i, start):
    """Copy row ``when`` of the memory, if there is one, to row ``i`` of ``phi``, from column ``start`` on."""
    if memory.shape[0] > 0:
        for c in range(memory.shape[1]):
            phi[i, start + c] = amplitude * np.float32(memory[when, c])


@njit(**INNER)
def remember(memory, queue, aim, classes):
    """Add a label that has arrived, a class or a standardised number, if there is a memory."""
    if memory.shape[0] > 0:
        _push(memory, np.int64(NOW), aim, classes)
        delay = queue.shape[0] - 1
        if delay > 0:
            place = 1 + int(queue[_ARRIVED]) % delay
            if queue[_ARRIVED] >= delay:
                _push(memory, np.int64(THEN), queue[place], classes)
            queue[place] = aim
        queue[_ARRIVED] += 1.0
        part = max(1.0 / queue[_ARRIVED], _FORGOTTEN)
        for c in range(memory.shape[1]):
            memory[MEAN, c] += part * (memory[NOW, c] - memory[MEAN, c])


@njit(**INNER)
def _push(memory, row, aim, classes):
    if classes:
        code = int(aim) % SHARED
        for c in range(SHARED):
            memory[row, c] = 0.0
            memory[row, SHARED + c] *= _KEPT
        memory[row, code] = 1.0
        memory[row, SHARED + code] += 1.0 - _KEPT
    else:
        memory[row, 1] = memory[row, 0]
        memory[row, 0] = aim
        memory[row, 2] += _FAST * (aim - memory[row, 2])
        memory[row, 3] += _SLOW * (aim - memory[row, 3])
