"""The level of parts: how much the errors of one part of a stream say about the next.

Where labels of numbers come in parts (:mod:`streamk.learners.rehearsal`), targets may move from part to part
with nothing in the inputs but the time, which predictions do not follow: readings of a meter, or prices.
With errors of predictions without a correction, ``x`` is their mean at the end of a part, over about 64
events, and ``z`` their mean in the part after it. All predictions of the next part are corrected by ``β x``,
where ``β`` is 1 if the target is time-like (:mod:`streamk.learners.time_like`). Otherwise it comes from least
squares of ``z`` on ``x`` over the parts so far, and one more with ``z = 0``. Its standard error is taken off,
enlarged where parts are few, and the result is limited to between 0 and 1::

    b = Σ x z/((1 + 1/K) Σ x²)        β = b − (1 + 2/K) √(Σ (z − b x)²/(K Σ x²))

``K`` counts the pairs of parts. Earlier ones count a fiftieth less with every part. Targets are limited to 12
deviations from their mean before the part. Weights of events do not count.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from streamk.arrays import Array, Arrays, typed
from streamk.compiling import ENTRY
from streamk.encoding.rows import LARGEST

COUNT, ALL, END = range(3)  # of predictions or targets: how many, their mean, and their mean at the end
_PREDICTED, _LEARNED, _BOUNDS, _SUMS = slice(0, 3), slice(3, 6), slice(6, 8), slice(8, 12)
_BEFORE, _BEGUN = 12, 13  # ``x`` of the part before, and how many parts in a row have been learned
_SPAN, _FEWEST = 64, 32  # events of the end of a part; labels that a part needs
_KEPT = 0.98
_MOST = LARGEST * LARGEST * 1e6


class Level:
    """The errors of parts.

    Attributes
    ----------
    state
        Of the last part, three numbers each of predictions and of targets, and the bounds of targets; of
        pairs of parts, ``K`` and sums of ``x z``, ``x²`` and ``z²``; ``x`` of the part before; and how many
        parts there were.
    since
        Three numbers of the predictions since the last label; not saved.
    """

    def __init__(self) -> None:
        self.state: Array = np.zeros(14)
        self.since: Array = np.zeros(3)

    def predict(self, predictions: Array) -> None:
        """See predictions ``(n,)`` without a correction."""
        _follow(self.since, np.ascontiguousarray(predictions), -LARGEST, LARGEST)

    def begin(self, lowest: float, highest: float) -> None:
        """See the first label of a part, whose targets are limited."""
        state = self.state
        state[_SUMS], state[_BEFORE] = self._sums(), self._at_end
        state[_BEGUN] = state[_BEGUN] + 1.0 if self._is_known else 0.0
        state[_PREDICTED], state[_LEARNED], state[_BOUNDS] = self.since, 0.0, (lowest, highest)
        self.since[:] = 0.0

    def learn(self, targets: Array) -> None:
        """See targets ``(n,)`` of the part."""
        if self.state[_PREDICTED][COUNT]:
            _follow(self.state[_LEARNED], np.ascontiguousarray(targets), *self.state[_BOUNDS].tolist())

    def forget(self) -> None:
        """See that labels do not come late."""
        self.state[:] = self.since[:] = 0.0

    def correction(self, time_like: bool) -> float:
        """Return what to add to the predictions of the next part; whether the target is ``time_like``."""
        if not self._is_known:
            return 0.0
        if time_like:
            return self._at_end
        pairs, products, squares, after = self._sums().tolist()
        if squares == 0.0:
            return 0.0
        b = products / ((1.0 + 1.0 / pairs) * squares)
        left = max(after - 2.0 * b * products + b * b * squares, 0.0)
        error = (1.0 + 2.0 / pairs) * math.sqrt(left / (pairs * squares))
        beta: float = min(max(b - error, 0.0), 1.0)
        return beta * self._at_end

    @property
    def _is_known(self) -> bool:
        """Whether the last part was predicted, and has labels."""
        return bool(self.state[_PREDICTED][COUNT] and self.state[_LEARNED][COUNT] >= _FEWEST)

    @property
    def _at_end(self) -> float:
        return float(self.state[_LEARNED][END] - self.state[_PREDICTED][END])

    def _sums(self) -> Array:
        """Return the sums of pairs, with that of the last two parts."""
        sums = self.state[_SUMS]
        if not (self._is_known and self.state[_BEGUN]):
            return sums.copy()
        x, z = float(self.state[_BEFORE]), float(self.state[_LEARNED][ALL] - self.state[_PREDICTED][ALL])
        return np.asarray(_KEPT * sums + [1.0, x * z, x * x, z * z])

    def state_dict(self) -> Arrays:
        """Return the array to store in a model file; none while labels do not come in parts."""
        return {"level.state": self.state.copy()} if self.state.any() else {}

    def load_state_dict(self, arrays: Arrays) -> None:
        """Load the array of a model file; raise a ValueError if it is impossible."""
        if "level.state" in arrays:
            state = typed(arrays, "level.state", np.float64, (14,))
            counts = [state[_PREDICTED][COUNT], state[_LEARNED][COUNT], state[_BEGUN]]
            possible = (abs(state) <= _MOST).all() and min(*counts, *state[_SUMS][[0, 2, 3]]) >= 0.0
            if not possible or any(count % 1.0 for count in counts):
                raise ValueError("its errors of parts are impossible")
            self.state = state.copy()


@njit(**ENTRY)
def _follow(means, values, lowest, highest):
    """Count values, and move their mean and that at their end."""
    for value in values:
        limited = min(max(value, lowest), highest)
        means[COUNT] += 1.0
        means[ALL] += (limited - means[ALL]) / means[COUNT]
        means[END] += (limited - means[END]) / min(means[COUNT], _SPAN)
