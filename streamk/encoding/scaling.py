"""Running standardisation: each number is scaled by the statistics of the events before it.

The statistics of one number are ``(count, mean, squares, held)``: Welford's recurrence in float64 ::

    count += 1;   δ = v − mean;   mean += δ/count;   squares += δ (v − mean)

and ``z = (v − mean)/√(squares/count)``, 0 while there is no spread. Since only earlier events set the scales,
a prediction needs no knowledge of its event, and learning the event scales it by the same numbers.

A single extreme value has no effect. The value farthest from the mean is *held*: it is not counted until a
farther one replaces it, whether it is the first value or the last. Also, no value adds more to the variance
than half of it (a sixteenth where scales forget; ``16/count`` while that is more). So a few extreme values
have little effect, while repeated ones change the scale.

An input also encodes presence. It is ``1 + z`` for a number that is present and has been learned before, and
0 for an absent one: a word whose count is always 1 is an input of 1, like a category. A number that is
explicitly missing is at its mean, an input of 1. For a kernel of differences the 1 cancels if all events have
the number. Inputs that are not scaled keep their values.

``z`` is clipped to ±4, and once 16 events are counted to half a deviation more than the distance of the
farthest value, the held one. What a learner would predict beyond the values that it has learned is arbitrary,
and until their labels come, nothing corrects it.

An event of weight ``w`` adds ``w`` to ``count``, ``w δ/count`` to ``mean`` and ``w δ (v − mean)`` to
``squares``, like ``w`` events except for the bound; no weight exceeds the sum of all before it.

*Cautious* scales, for classes in a mixture, use each value as if it and the held one had been counted. With
``m`` and ``s`` from the values before and the held one (at most four deviations off), ``n`` in all ::

    z = (v − m)/√(s² + max((v − m)² − 3 s², 0)/(n + 1))

so ``|z|`` is at most ``√(n + 1)``: two or three values say little of how far is far. With many values, ``z``
is as above. Where numbers are predicted, such scales would bend a line that the first events show exactly.

With a finite ``horizon``, scales follow the stream: ``count`` stops there, so that older values fade, and
unprecedented values restart the statistics. These are 32 values in a row, no two successive ones equal, six
deviations from the mean (a shift); or changes between successive values whose running mean square is 64 times
smaller than ever before (another unit). Numbers that are constant, or switch between few values, cause no
restart. Such statistics have six more numbers: ``(run, previous, step, least, recent, age)``.

*Given* scales are set once and do not learn, so they can be the same in several learners: their held value is
infinite, and no value is farther from the mean.

:func:`pooled` returns the statistics of several learners as those of one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numba import njit
from numpy.typing import NDArray

from streamk.arrays import Array, Floats, Integers
from streamk.compiling import CALLED, ENTRY, INNER, both
from streamk.encoding.rows import ABSENT, CATEGORY, UNSCALED, EncodedRows
from streamk.encoding.seen import is_seen

# Columns of the statistics; the last six exist with a finite horizon
COUNT, MEAN, SQUARES, HELD, RUN, PREVIOUS, STEP, LEAST, RECENT, AGE = range(10)
MOST_VARIANCES = 16.0  # by which one value moves a variance at most, while counts are small
_FAR, _MOST_RUN = 6.0, 32.0
_WINDOW, _EPOCH, _SHRUNK = 64.0, 512.0, 64.0


@njit(inline="always", **INNER)
def detect_shift(value, statistics, at):
    """Record one value of an input with a finite horizon; return whether its statistics must restart.

    ``age`` counts up to the window, and then repeatedly from the window to the end of an epoch.
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


FIXED, FOLLOWING = 4, 10  # numbers kept of each input
GIVEN = np.inf  # held by fixed statistics
CLIP = 4.0
TARGET_CLIP = 6.0
WIDE_CLIP, FARTHEST = 12.0, 100.0  # of targets and outputs of ``KernelRegressor``
_CONSTANT = 1e-12  # a spread below this part of the mean is rounding, not variation
_LEAST_VARIANCE = 1e-300  # the inverse of less is not finite
_SHARE, _SHARE_FOLLOWED = 0.5, 0.0625  # of the variance, that one value moves it by
_STRAY, _BEYOND, _KNOWN_WELL = 10.0, 3.0, 16.0
_USUAL = 3.0  # square of a deviation that is believed whatever the number of values
_FARTHER = 0.5  # deviations beyond the farthest value that an input may be
_SLOWEST = 10_000.0  # events in which scales forget at the fastest
_LONG = 1e6  # events from which on they hardly forget


def horizon_of(memory: int | None) -> float:
    """Return the horizon of the scales of a learner with this memory, in events; infinite without memory."""
    return np.inf if memory is None else max(float(memory), _SLOWEST)


def kept_numbers(horizon: float) -> int:
    """Return how many numbers the statistics of an input have."""
    return FOLLOWING if horizon < np.inf else FIXED


@njit(inline="always", **INNER)
def _varies(statistics, at):
    """Return whether an input has varied by more than rounding."""
    count, mean, squares = statistics[at, COUNT], statistics[at, MEAN], statistics[at, SQUARES]
    return count >= 2.0 and squares > count * mean * mean * _CONSTANT**2 and squares > count * _LEAST_VARIANCE


@both()
def spread(statistics, at):
    """Return the standard deviation in row ``at`` of the statistics, 0 if the input has not varied."""
    if not _varies(statistics, at):
        return 0.0
    return np.sqrt(statistics[at, SQUARES] / statistics[at, COUNT])


@both()
def standardise(value, statistics, at, clip):
    """Return ``(value − mean)/deviation`` clipped to ±``clip``, 0 while there is no deviation."""
    if not _varies(statistics, at):
        return 0.0
    inverse = np.sqrt(statistics[at, COUNT] / statistics[at, SQUARES])
    return min(max((value - statistics[at, MEAN]) * inverse, -clip), clip)


@njit(inline="always", **INNER)
def clip_of(statistics, at, most):
    """Return how many deviations from its mean an input may be: half of one farther than any value was."""
    if statistics[at, COUNT] < _KNOWN_WELL:
        return CLIP
    return min(abs(standardise(statistics[at, HELD], statistics, at, most)) + _FARTHER, most)


@njit(inline="always", **INNER)
def scaled(value, statistics, at, most, cautious):
    """Return an input on its scale, clipped; ``cautious`` as long as few values are counted."""
    clip, held = clip_of(statistics, at, most), statistics[at, HELD]
    if not cautious or held == GIVEN or statistics[at, COUNT] == 0.0:
        return standardise(value, statistics, at, clip)
    count, mean, squares = statistics[at, COUNT], statistics[at, MEAN], statistics[at, SQUARES]
    if not np.isnan(held):
        delta = held - mean
        if squares > 0.0:
            farthest = np.sqrt(MOST_VARIANCES * squares / count)
            delta = min(max(delta, -farthest), farthest)
        count += 1.0
        part = delta / count
        mean, squares = mean + part, squares + delta * (delta - part)
    if squares <= count * mean * mean * _CONSTANT**2 or squares <= count * _LEAST_VARIANCE:
        return 0.0
    delta, variance = value - mean, squares / count
    beyond = max(delta * delta - _USUAL * variance, 0.0)
    return min(max(delta / np.sqrt(variance + beyond / (count + 1.0)), -clip), clip)


@both()
def is_stray(value, statistics, at):
    """Return whether a value is an outlier: ten deviations off, and three times as far as any before it."""
    distance = abs(value - statistics[at, MEAN])
    return (
        statistics[at, COUNT] >= _KNOWN_WELL
        and distance > _STRAY * spread(statistics, at)
        and distance > _BEYOND * abs(statistics[at, HELD] - statistics[at, MEAN])
    )


@both()
def observe(value, statistics, at, horizon, weight):
    """Add one value to row ``at`` of the statistics; they follow the stream if ``horizon`` is finite."""
    _observe_one(value, statistics, at, horizon, weight)


@njit(**CALLED)
def _observe_one(value, statistics, at, horizon, weight):
    if statistics[at, HELD] != GIVEN:
        if horizon < np.inf and detect_shift(value, statistics, at):
            statistics[at, COUNT] = 0.0
        _count(value, statistics, at, horizon, weight)


@njit(inline="always", **INNER)
def _count(value, statistics, at, horizon, weight):
    if statistics[at, COUNT] < 2.0:
        _begin(value, statistics, at)
    else:
        held, mean = statistics[at, HELD], statistics[at, MEAN]
        counted = value
        if abs(value - mean) > abs(held - mean):
            statistics[at, HELD], counted = value, held
        add(counted, statistics, at, horizon, weight)


@njit(**INNER)
def _begin(value, statistics, at):
    """Add one of the first three values: of three, the two nearest to each other count."""
    first, held = statistics[at, MEAN], statistics[at, HELD]
    if statistics[at, COUNT] == 0.0:
        statistics[at, COUNT], statistics[at, MEAN], statistics[at, SQUARES] = 1.0, value, 0.0
        statistics[at, HELD] = np.nan
    elif np.isnan(held):
        statistics[at, HELD] = value
    else:
        low, high = min(first, held, value), max(first, held, value)
        middle = max(min(first, held), min(max(first, held), value))
        held = low if middle - low > high - middle else high
        other = high if held == low else low
        statistics[at, COUNT], statistics[at, HELD] = 2.0, held
        statistics[at, MEAN] = middle + 0.5 * (other - middle)
        statistics[at, SQUARES] = 0.5 * (other - middle) ** 2


@njit(cache=True, inline="always", error_model="numpy")
def add(value, statistics, at, horizon, weight):
    """Count one value ``weight`` times, with its bounded effect on the variance."""
    count, squares = statistics[at, COUNT], statistics[at, SQUARES]
    delta = value - statistics[at, MEAN]
    bound = max(MOST_VARIANCES, count * (_SHARE_FOLLOWED if horizon < _LONG else _SHARE)) * squares
    if delta * delta * count > bound and squares > 0.0:
        delta = np.copysign(np.sqrt(bound / count), delta)
    weight = min(weight, count)
    if count < horizon:
        count += weight
        statistics[at, COUNT] = count
    else:
        squares -= weight * squares / count
    part = weight * delta / count
    statistics[at, MEAN] += part
    statistics[at, SQUARES] = squares + weight * delta * (delta - part)


@njit(cache=True, inline="always", error_model="numpy")
def scale_of(present, exponent):
    """Return ``present`` to the power of 0, −½ or −1."""
    if exponent == 0.0 or present < 2:
        return 1.0
    return 1.0 / present if exponent == -1.0 else 1.0 / np.sqrt(present)


@njit(**INNER)
def scale_row(rows, i, statistics, exponents, seen, cautious, out, sorted_keys, of, to):
    """Scale row ``i`` into row ``to`` of ``out``; return how many inputs are not 0.

    Their keys go into ``sorted_keys``, and their slots into ``of``. Values of categories that are not
    ``seen`` (:mod:`streamk.encoding.seen`) are skipped.

    Inputs that are absent or 0 add nothing to an angle and are skipped; the others are sorted by their keys.
    ``out`` is ``(≥ families, ·, w)``: for each family of directions, inputs are multiplied by the
    ``exponents`` power of the number of fields present.
    """
    slots, keys, values = rows
    shared = min(i, slots.shape[0] - 1)
    count = present = 0
    for j in range(slots.shape[1]):
        key, slot = keys[shared, j], np.int64(slots[shared, j])
        if key == ABSENT:
            continue
        z = values[i, j]
        if slot != UNSCALED and slot > CATEGORY:
            missing = slot < UNSCALED
            at = -2 - slot if missing else slot
            if statistics[at, COUNT] == 0.0:
                continue
            z = 1.0 if missing else 1.0 + scaled(z, statistics, at, CLIP, cautious)
        elif slot <= CATEGORY and not is_seen(seen, key):
            continue
        present += 1
        if z != 0.0:
            place = count
            while place > 0 and sorted_keys[to, place - 1] > key:
                sorted_keys[to, place], out[0, to, place] = sorted_keys[to, place - 1], out[0, to, place - 1]
                of[to, place] = of[to, place - 1]
                place -= 1
            sorted_keys[to, place], out[0, to, place], of[to, place] = key, z, slot
            count += 1
    for j in range(count, slots.shape[1]):
        sorted_keys[to, j] = 0
        for k in range(exponents.shape[0]):
            out[k, to, j] = 0.0
    for k in range(exponents.shape[0] - 1, -1, -1):  # the first is multiplied last: all are made from it
        factor = scale_of(present, exponents[k])
        for j in range(count):
            out[k, to, j] = out[0, to, j] * factor
    return count


@njit(**INNER)
def observe_row(rows, i, statistics, horizon, weight):
    """Add row ``i`` to the statistics of its inputs."""
    slots, _, values = rows
    shared = min(i, slots.shape[0] - 1)
    for j in range(slots.shape[1]):
        at = np.int64(slots[shared, j])
        if at >= 0:
            observe(values[i, j], statistics, at, horizon, weight)


@njit(nogil=True, **ENTRY)
def _scale_rows(rows, statistics, exponents, out, keys, of, counts):
    for i in range(counts.shape[0]):
        counts[i] = scale_row(rows, i, statistics, exponents, None, False, out, keys, of, i)


def scale_rows(
    rows: EncodedRows, statistics: Array, exponents: tuple[float, ...]
) -> tuple[Floats, NDArray[np.uint64], Integers]:
    """Return scaled inputs ``(families, n, w)``, their keys ``(n, w)``, and how many each row has."""
    count, width = rows.values.shape
    scaled = np.empty((len(exponents), count, width), dtype=np.float32)
    keys = np.empty((count, width), dtype=np.uint64)
    counts = np.empty(count, dtype=np.int64)
    of = np.empty((count, width), dtype=np.int32)
    _scale_rows(rows, statistics, np.array(exponents), scaled, keys, of, counts)
    return scaled, keys, counts


def pooled(parts: Sequence[Array], horizon: float, base: Array | None = None) -> Array:
    """Return the statistics of the values behind several others (Chan, Golub and LeVeque 1979).

    Of the held values, the farthest is held again and the others are counted. If all continue from ``base``,
    its values are counted once; statistics that follow a stream fade, so they are pooled as if they had no
    values in common. Fixed statistics do not change.
    """
    if fixed := [part for part in parts if part[HELD] == GIVEN]:
        return fixed[0].copy()
    if base is not None and base[COUNT] > 0.0 and horizon == np.inf:
        return _pooled_since(parts, base)
    seen = [part for part in parts if part[COUNT] > 0.0]
    if len(seen) < 2:
        return seen[0].copy() if seen else np.zeros(kept_numbers(horizon))
    whole, table = np.zeros(kept_numbers(horizon)), np.array(seen)
    counts, means = table[:, COUNT], table[:, MEAN]
    whole[COUNT], whole[MEAN] = counts.sum(), counts @ means / counts.sum()
    whole[SQUARES] = table[:, SQUARES].sum() + counts @ (means - whole[MEAN]) ** 2
    held = table[~np.isnan(table[:, HELD]), HELD]
    order = np.argsort(np.abs(held - whole[MEAN]), kind="stable")
    whole[HELD] = held[order[-1]] if len(held) else np.nan
    for value in held[order[:-1]]:
        add(value, whole[None], 0, np.inf, 1.0)
    whole[COUNT] = min(whole[COUNT], horizon)
    if whole[COUNT] < counts.sum():
        whole[SQUARES] *= whole[COUNT] / (counts.sum() + max(len(held) - 1, 0))
    if len(whole) == FOLLOWING:
        whole[PREVIOUS], whole[AGE] = table[-1, PREVIOUS], table[:, AGE].max()
        whole[STEP] = counts @ table[:, STEP] / counts.sum()
        for column in (LEAST, RECENT):
            known = table[table[:, column] > 0.0, column]
            whole[column] = known.min() if len(known) else 0.0
    return whole


def _pooled_since(parts: Sequence[Array], base: Array) -> Array:
    """Return statistics pooled by sums about the mean of ``base``, with each value of ``base`` counted once.

    Parts that hold another value than ``base`` have counted its held value.
    """
    table, centre, held = np.array([part for part in parts if part[COUNT] > 0.0]), base[MEAN], base[HELD]
    other = ~np.isnan(table[:, HELD]) & (table[:, HELD] != held)
    surplus = (
        0.0 if np.isnan(held) else max(other.sum() - 1.0, 0.0)
    )  # counts of the held value after the first
    means, distance = table[:, MEAN] - centre, 0.0 if np.isnan(held) else held - centre
    count = base[COUNT] + (table[:, COUNT] - base[COUNT]).sum() - surplus
    total = (table[:, COUNT] * means).sum() - surplus * distance
    added = table[:, SQUARES] + table[:, COUNT] * means**2 - base[SQUARES]
    squares = base[SQUARES] + added.sum() - surplus * distance**2 - total**2 / count
    whole = base.copy()
    whole[COUNT], whole[MEAN], whole[SQUARES] = count, centre + total / count, max(squares, 0.0)
    values = table[other, HELD]
    order = np.argsort(np.abs(values - whole[MEAN]), kind="stable")
    if len(values):
        whole[HELD] = values[order[-1]]
    for value in values[order[:-1]]:
        add(value, whole[None], 0, np.inf, 1.0)
    return whole
