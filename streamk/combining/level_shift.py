"""Level shifts: after two out-of-range targets in a row, predict the last one.

Experts learn targets standardised and clipped, so a single extreme target does little harm, and scales adapt
to a new level over tens of events. If a meter fails, or a level falls by fifty deviations and stays for a
day, no expert can predict it. So targets at least six deviations off, in a row and on the same side, are
counted. From the second on, the last one is the prediction until a target is in range again. Inputs may
explain large targets: if the error of the experts is at most a quarter of one, the count falls by one.
Experts, their weights and scales learn as before.

With labels that come ``D`` events late, ``2 + D`` targets in a row are required.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterator

import numpy as np
from numba import njit

from streamk.arrays import Array
from streamk.compiling import INNER
from streamk.encoding.rows import LARGEST
from streamk.state import Field, Stateful

IN_A_ROW = 2
_FAR = 6.0  # deviations
_EXPLAINED = 0.25  # error of the experts, relative to the target
_KNOWN_WELL = 16.0  # events that a scale needs before a target can be out of range
_RUN, _LAST = 0, 1


ShiftState = namedtuple("ShiftState", "state patience")


class LevelShift(Stateful):
    """The run of out-of-range targets.

    Attributes
    ----------
    state
        How many in a row, negative below, and the last of them.
    """

    def __init__(self) -> None:
        self.set_delay(0)
        self.state: Array = np.zeros(2)

    def set_delay(self, delay: int) -> None:
        """Set how many events late targets arrive."""
        self.patience = float(IN_A_ROW + delay)

    @property
    def record(self) -> ShiftState:
        """The record for compiled code, which changes it."""
        return ShiftState(self.state, self.patience)

    def fields(self) -> Iterator[Field]:
        """Yield the run, if the last target was out of range."""
        bounds = -LARGEST, LARGEST
        yield Field("away", "out-of-range targets", *bounds, attribute="state", default=0.0, possible=_is_run)


def _is_run(state: Array) -> bool:
    return not state[_RUN] % 1.0


@njit(**INNER)
def is_away(shift):
    """Return whether the last target was out of range."""
    return shift.state[_RUN] != 0.0


@njit(**INNER)
def is_shifted(shift):
    """Return whether the run of out-of-range targets is long enough to expect another."""
    return abs(shift.state[_RUN]) >= shift.patience


@njit(**INNER)
def last_target(shift):
    """Return the last out-of-range target."""
    return shift.state[_LAST]


@njit(**INNER)
def watch(shift, target, off, predicted, events):
    """Count a target after ``events`` events: it is ``off`` deviations from the mean, ``predicted`` were."""
    state = shift.state
    run = abs(state[_RUN]) if state[_RUN] * off > 0.0 else 0.0
    run = max(run - 1.0, 0.0) if abs(off - predicted) <= _EXPLAINED * abs(off) else run + 1.0
    if abs(off) < _FAR or events < _KNOWN_WELL or run == 0.0:
        state[_RUN] = state[_LAST] = 0.0
    else:
        state[_RUN], state[_LAST] = np.sign(off) * run, min(max(target, -LARGEST), LARGEST)
