"""Label memory: recent labels as inputs of the next events.

Successive labels of a stream are often alike: the rule that predicts the last label again is a strong
baseline. For classes, the memory is the last label, one-hot, and a histogram in which an event counts 0.9
times as much as the next. For numbers, it is the last standardised target, the one before, and running means
of rates 0.3 and 0.03. All are 0 until labels arrive. Labels from the 33rd on share the columns of the first.

There are two rows: the memory *now*, and the running *mean* of it, over all labels at first and then over
about 2,000, which replaces the memory where no labels come. If labels come late, an event is predicted from
the labels that have arrived, and must be learned with the same ones: it *held* them since its prediction
(:mod:`streamk.learners.waiting`).
"""

from __future__ import annotations

import numpy as np
from numba import njit

from streamk.arrays import Array
from streamk.compiling import ENTRY, INNER

COLUMNS, SHARED, NUMBERS = 64, 32, 4  # all; of each kind, of classes; of numbers
NOW, MEAN = 0, -1
HELD = 1  # instead of a row, for an event that held its own memory
_KEPT = 0.9
_FAST, _SLOW = 0.3, 0.03
_FORGOTTEN = 1.0 / 2000.0


def empty_memory(used: bool) -> tuple[Array, Array]:
    """Return an empty memory, ``(2, 64)``, without rows if labels are no inputs; and the count of labels."""
    return np.zeros((2 if used else 0, COLUMNS)), np.zeros(1)


@njit(**INNER)
def recall(memory, when, amplitude, phi, i, start):
    """Copy row ``when`` of the memory, if there is one, to row ``i`` of ``phi``, from column ``start`` on."""
    if memory.shape[0] > 0:
        for c in range(memory.shape[1]):
            phi[i, start + c] = amplitude * np.float32(memory[when, c])


@njit(**INNER)
def remember(memory, arrived, aim, classes):
    """Add a label, a class or a standardised number, if there is a memory; ``arrived`` counts labels."""
    if memory.shape[0] > 0:
        _push(memory[NOW], aim, classes)
        arrived[0] += 1.0
        part = max(1.0 / arrived[0], _FORGOTTEN)
        for c in range(memory.shape[1]):
            memory[MEAN, c] += part * (memory[NOW, c] - memory[MEAN, c])


@njit(**ENTRY)
def after_each(aims):
    """Return the memory before the first of standardised numbers and after each, ``(n + 1, 64)``."""
    states = np.zeros((len(aims) + 1, COLUMNS))
    for i in range(len(aims)):
        states[i + 1] = states[i]
        _push(states[i + 1], aims[i], False)
    return states


@njit(**INNER)
def _push(now, aim, classes):
    if classes:
        code = int(aim) % SHARED
        for c in range(SHARED):
            now[c] = 0.0
            now[SHARED + c] *= _KEPT
        now[code] = 1.0
        now[SHARED + code] += 1.0 - _KEPT
    else:
        now[1] = now[0]
        now[0] = aim
        now[2] += _FAST * (aim - now[2])
        now[3] += _SLOW * (aim - now[3])
