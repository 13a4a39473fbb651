"""Scales that follow the stream: when the statistics of an input must begin anew.

**Scales follow the stream** if there is a ``horizon``: ``count`` ends there, so that older values fade, and
what has no precedent begins statistics anew: 32 values in a row, no two neighbours the same, six deviations
from the mean (a shift); or changes from one value to the next 64 times smaller, in their running mean square,
than ever before (another unit). Numbers that stay the same for long, or switch between few values, do
neither. Six more numbers are kept then: ``(run, previous, step, least, recent, age)``.
"""

from __future__ import annotations

from numba import njit

from streamk.compiling import INNER

# Columns of the statistics; the last six are kept where they follow
COUNT, MEAN, SQUARES, HELD, RUN, PREVIOUS, STEP, LEAST, RECENT, AGE = range(10)
MOST_VARIANCES = 16.0  # by which one value moves a variance at most, while counts are small
_FAR, _MOST_RUN = 6.0, 32.0
_WINDOW, _EPOCH, _SHRUNK = 64.0, 512.0, 64.0


@njit(inline="always", **INNER)
def departs(value, statistics, at):
    """Note one value of an input that is followed; return whether its statistics must begin anew.

    ``age`` counts up to the window, and then from the window to the end of an epoch, again and again.
    """
    change, age = value - statistics[at, PREVIOUS], statistics[at, AGE] + 1.0
    statistics[at, PREVIOUS], statistics[at, AGE] = value, age
    departed = False
    if age > 1.0 and change != 0.0:
        change *= change
        distance, squares = value - statistics[at, MEAN], statistics[at, SQUARES]
        far = distance * distance * statistics[at, COUNT] > _FAR * _FAR * squares and squares > 0.0
        run = statistics[at, RUN] + 1.0 if far else 0.0
        step, least = statistics[at, STEP], statistics[at, LEAST]
        if age <= 4.0:  # of the first three changes, an absurd value makes two
            step = min(step, change) if step > 0.0 else change
        else:
            change = min(change, MOST_VARIANCES * step) if step > 0.0 else change
            step += (change - step) * (1.0 / _WINDOW if age >= _WINDOW else 1.0 / (age - 1.0))
        statistics[at, STEP], statistics[at, RUN] = step, run
        departed = run >= _MOST_RUN or step < least / _SHRUNK
        if age > _WINDOW:
            recent = statistics[at, RECENT]
            statistics[at, RECENT] = step if recent == 0.0 else min(recent, step)
            if age >= _WINDOW + _EPOCH:
                _end_epoch(statistics, at)
        if departed:
            _forget(value, statistics, at)
    return departed


@njit(**INNER)
def _end_epoch(statistics, at):
    least, recent = statistics[at, LEAST], statistics[at, RECENT]
    statistics[at, LEAST] = recent if least == 0.0 else min(least, recent)
    statistics[at, RECENT], statistics[at, AGE] = statistics[at, STEP], _WINDOW


@njit(**INNER)
def _forget(value, statistics, at):
    statistics[at, RUN:] = 0.0
    statistics[at, PREVIOUS], statistics[at, AGE] = value, 1.0
