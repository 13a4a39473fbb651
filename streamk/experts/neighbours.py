"""Recent neighbours: the mean label of the nearest of the last events.

Of a window of the last 512 learned events, the five nearest count, by the squared distance ``d²`` of their
scaled inputs::

    f(x) = Σ_i g_i y_i/Σ_i g_i          g_i = w_i/(d_i² + d₅²/1000)

with ``w`` the weights of events and ``d₅`` the distance of the fifth (Nadaraya 1964, with a bandwidth that
follows the density; Cover and Hart 1967). Classes are ±1. No other expert follows clusters that move through
the space of inputs, since coefficients describe a place only after many events there.

The first 127 inputs with plain columns count (:mod:`streamk.features.columns.plain`). The window is an array
of coefficients, so that copies of coefficients are copies of it: ``(1, 1, 129 · 512)``, in rows of 512
events. The first two rows are labels and weights (0 for no event), and the others columns.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterator, Sequence
from typing import Self

import numpy as np
from numba import njit

from streamk.arrays import AnyArray, Arrays, Floats, Integers
from streamk.compiling import INNER
from streamk.dispatch import implements
from streamk.experts.expert import (
    EVENTS,
    FINAL,
    ITERATE,
    Expert,
    Merge,
    count_step,
    evaluate,
    keep,
    step,
)
from streamk.state import FINITE, LARGEST_COUNT, Field, Live
from streamk.vector.lanes import LANES, aligned, below, first_set
from streamk.vector.linear_algebra import add_distances

WINDOW, COLUMNS = 512, 128  # events, and plain columns including the constant
_NEAREST = 5
_LABEL, _WEIGHT, _INPUTS = 0, 1, 2  # rows; those of inputs begin with column 1
_ROWS = _INPUTS + COLUMNS - 1
_HEAVIEST = 1e9
_BANDWIDTH = 1e-3  # of the largest distance that counts


Nearby = namedtuple("Nearby", "coefficients clock used classes scratch places gains")


class Neighbours(Expert):
    """The nearest of the last events.

    Parameters
    ----------
    loss
        A code of :mod:`streamk.losses`.
    classes
        Whether labels are classes.

    Attributes
    ----------
    used
        The number of rows that distances add up, ``(1,)``. Rows of inputs that left the window count: they
        may still be in copies of it.
    """

    rule = "neighbours"
    follows_events = True
    record_type = Nearby

    def __init__(self, loss: int, classes: bool) -> None:
        super().__init__(loss, columns=slice(0, COLUMNS))
        self.classes, self.outputs = classes, 1
        self.used: Integers = np.zeros(1, dtype=np.int64)
        self.coefficients = aligned(np.zeros((1, 1, _ROWS * WINDOW), dtype=np.float32))
        self.scratch = aligned(np.zeros(WINDOW, dtype=np.float32))
        self.places, self.gains = np.zeros(_NEAREST, dtype=np.int64), np.zeros(_NEAREST)

    @property
    def window(self) -> Floats:
        """The window by rows, ``(129, 512)``."""
        return self.coefficients.reshape(_ROWS, WINDOW)

    def grow(self, outputs: int, features: int, width: int) -> None:
        """Note the number of outputs; the window does not depend on it."""
        self.outputs = outputs

    def within(self, columns: slice) -> bool:
        """Return False: inputs do not depend on relevance."""
        return False

    def rearrange(self, places: Integers) -> None:
        """Move the inputs of column ``j`` to ``places[j]``."""
        moved = np.zeros_like(self.window)
        moved[:_INPUTS] = self.window[:_INPUTS]
        for column in range(1, COLUMNS):
            if 0 < places[column] < COLUMNS:
                moved[_INPUTS - 1 + places[column]] = self.window[_INPUTS - 1 + column]
        self._become(moved)

    def merge_from(self, experts: Sequence[Self], merge: Merge) -> None:
        """Become the merge: the last events of all in turns, and then those of the base."""
        _, columns, counts = merge
        clock = np.sum([expert.clock for expert in experts], axis=0)
        known, groups = np.zeros(2), [list(range(len(experts)))]
        if counts is not None:  # all continue from the last
            known, groups = experts[-1].clock, [groups[0][:-1], groups[0][-1:]]
            clock -= len(groups[0]) * known
        events = []
        for group, before in zip(groups, (known[EVENTS], 0.0), strict=False):
            for back in range(WINDOW):
                for k in group:
                    last, (rows, unit) = int(experts[k].clock[EVENTS]), columns[k]
                    event = experts[k].window[:, (last - 1 - back) % WINDOW].copy()
                    if back < last - before and event[_WEIGHT] > 0.0:
                        label = event[_LABEL]
                        event[_LABEL] = rows[int(label)] if self.classes else unit.scale * label + unit.offset
                        events.append(event)
        merged = np.zeros_like(self.window)
        for back, event in enumerate(events[:WINDOW]):
            merged[:, (int(clock[EVENTS]) - 1 - back) % WINDOW] = event
        self.clock[:] = clock
        self._become(merged)

    def _become(self, window: Floats) -> None:
        self.coefficients = aligned(window.reshape(1, 1, -1))
        last = int(np.flatnonzero(window.any(axis=1)).max(initial=-1))
        self.used[0] = 1 + last

    def fields(self) -> Iterator[Field]:
        """Yield the number of rows in use, these rows of the events in the window, and the clock."""
        rows = slice(int(self.used[0]))
        yield self._field._replace(name="window", part=rows, used="there")
        yield Field("clock", "counters", 0.0, LARGEST_COUNT, whole=True)

    @property
    def live(self) -> Live:
        """The window."""
        return [(self._field, self.coefficients)]

    @property
    def _field(self) -> Field:
        return Field("coefficients", "recent events", -FINITE, FINITE, possible=self._are_events)

    def _are_events(self, rows: AnyArray) -> bool:
        """Return whether numbers are a window, or the first rows of one, or copies of windows."""
        rows = rows.reshape(-1, WINDOW)
        labels, weights = (rows[row::_ROWS] for row in (_LABEL, _WEIGHT))
        possible = not self.classes or (labels % 1.0 == 0.0) & (labels >= 0.0) & (labels < self.outputs)
        return bool(np.all(weights >= 0.0) and np.all(possible))

    def load_state_dict(self, arrays: Arrays) -> None:
        """Load the arrays of a model file; raise a ValueError if they are impossible."""
        self.used[0] = min(len(arrays["window"]), _ROWS)
        self.coefficients[:] = 0.0
        super().load_state_dict(arrays)


@implements(evaluate, Nearby)
def _evaluate(expert, e, phi, i, outputs):
    window, distances = expert.coefficients[0, 0], expert.scratch
    for w in range(WINDOW):
        distances[w] = np.float32(0.0) if window[_WEIGHT * WINDOW + w] > 0.0 else np.float32(np.inf)
    first, inputs = i * phi.shape[1] + 1, expert.used[0] - _INPUTS
    add_distances(distances, window, _INPUTS * WINDOW, WINDOW, phi, first, inputs)
    count, total = _nearest(distances, expert.places), 0.0
    gains, most = expert.gains, outputs.shape[2]
    for n in range(count):
        place = expert.places[n]
        farthest = np.float64(distances[expert.places[count - 1]])
        near = np.float64(distances[place]) + _BANDWIDTH * farthest
        gains[n] = window[_WEIGHT * WINDOW + place] / (near if farthest > 0.0 else 1.0)
        total += gains[n]
    for k in range(most):
        outputs[e, ITERATE, k] = np.float32(-1.0 if expert.classes and count else 0.0)
    for n in range(count):
        label, share = window[_LABEL * WINDOW + expert.places[n]], gains[n] / total
        if expert.classes:
            outputs[e, ITERATE, int(label)] += np.float32(2.0 * share)
        else:
            outputs[e, ITERATE, 0] += np.float32(share * label)
    for k in range(most):
        outputs[e, FINAL, k] = outputs[e, ITERATE, k]


@njit(**INNER)
def _nearest(distances, places):
    """Fill ``places`` with the nearest events, in order; return how many there are."""
    count, limit = 0, np.float32(np.inf)
    for start in range(0, WINDOW, LANES):
        near = below(distances, start, limit)  # few are, once five are known
        while near:
            w = start + first_set(near)
            near &= near - np.uint32(1)
            distance = distances[w]
            if distance < limit:
                place = min(count, _NEAREST - 1)
                while place > 0 and distances[places[place - 1]] > distance:
                    places[place] = places[place - 1]
                    place -= 1
                places[place] = w
                count = min(count + 1, _NEAREST)
                if count == _NEAREST:
                    limit = distances[places[_NEAREST - 1]]
    return count


@implements(keep, Nearby)
def _keep(expert, e, kept, outputs):
    for s in range(outputs.shape[1]):
        for k in range(outputs.shape[2]):
            outputs[e, s, k] = kept[e, s, k]


@implements(step, Nearby)
def _step(expert, e, observation):
    phi, i, _, aim, _, weight, _, _ = observation
    window, last = expert.coefficients[0, 0], _INPUTS
    w = int(expert.clock[EVENTS]) % WINDOW
    window[_LABEL * WINDOW + w] = np.float32(aim)
    window[_WEIGHT * WINDOW + w] = np.float32(min(weight, _HEAVIEST))
    for row in range(_INPUTS, _ROWS):
        value = phi[i, row - _INPUTS + 1]
        if value != 0.0:
            last = row + 1
        window[row * WINDOW + w] = value
    expert.used[0] = max(expert.used[0], last)
    count_step(expert.clock, expert.coefficients)
