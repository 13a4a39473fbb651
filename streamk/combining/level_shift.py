"""Targets that stay out of reach: the last one is the prediction.

Experts see targets standardised and clipped to ±6 deviations, so that one absurd target spoils nothing, and
scales believe what is new over tens of events. Where a meter fails, or a level falls by fifty deviations, and
stays there for a day, no expert can say so. So targets beyond the clip, in a row and on the same side, are
counted, and from the second on the last one is the prediction until one is within reach again. Experts, their
weights and scales learn as ever: by this way nothing absurd enters them.

Of labels that come ``D`` events late, the last one may long be over; ``2 + D`` in a row are asked for then.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from streamk.compiling import INNER
from streamk.encoding.rows import LARGEST, typed
from streamk.encoding.scaling import TARGET_CLIP

IN_A_ROW = 2
_KNOWN_WELL = 16.0  # events, before which a scale says little of what is out of reach
_RUN, _LAST = 0, 1
Array = NDArray[np.float64]


class Watching(NamedTuple):
    """What compiled code sees of :class:`Away`."""

    state: Array
    patience: float


class Away:
    """How many of the last targets lay out of reach.

    Parameters
    ----------
    delay
        How many events late targets arrive.

    Attributes
    ----------
    state
        How many in a row, negative below, and the last of them.
    """

    def __init__(self, delay: int = 0) -> None:
        self.patience = float(IN_A_ROW + delay)
        self.state: Array = np.zeros(2)

    @property
    def record(self) -> Watching:
        """What compiled code sees, and changes."""
        return Watching(self.state, self.patience)

    def parts(self) -> dict[str, NDArray[Any]]:
        """Return the array that a model file keeps: none if the last target was within reach."""
        return {"away": self.state} if self.state[_RUN] else {}

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Take over the array of a model file, if it is possible."""
        self.state = typed(arrays, "away", np.float64, (2,)).copy() if "away" in arrays else np.zeros(2)
        if not (abs(self.state) <= LARGEST).all() or self.state[_RUN] % 1.0:
            raise ValueError("its targets out of reach are impossible")


@njit(**INNER)
def stays_away(away):
    """Return whether so many targets in a row were out of reach that the next is thought to be."""
    return abs(away.state[_RUN]) >= away.patience


@njit(**INNER)
def last_of(away):
    """Return the last target out of reach."""
    return away.state[_LAST]


@njit(**INNER)
def watch(away, target, aim, events):
    """Note a target, of which experts see ``aim``, after so many events."""
    state = away.state
    if abs(aim) < TARGET_CLIP or events < _KNOWN_WELL:
        state[_RUN] = state[_LAST] = 0.0
    else:
        before = state[_RUN] if state[_RUN] * aim > 0.0 else 0.0
        state[_RUN], state[_LAST] = before + np.sign(aim), target
