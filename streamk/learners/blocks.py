"""Learning by blocks of events: gather rows by count, make their features by matrix products, fit.

Blocks are cut by count alone, so when and in what portions events arrive changes nothing. The contributions
of tiles of features to a sum are added in the order of the tiles, so the result does not depend on the number
of threads. What a block does to the coefficients is the learner's rule; the rest is here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from streamk.expansion import Expansion
from streamk.features.activation import AMPLITUDE
from streamk.features.matrix import fill
from streamk.features.products import distinct_inputs, features_of, products_on_threads, tiles_of
from streamk.learners import events
from streamk.learners.events import CALIBRATION, EVENTS, KNOWN, LOSS, STEPS, TARGET
from streamk.losses import FIRST_REGRESSION
from streamk.probabilities import STATE, calibrate, probabilities
from streamk.rows import Rows, slices
from streamk.scaling import observe, observe_row, scale_rows, standardise
from streamk.schedules import averaging_weight

Array = NDArray[np.float64]
Floats = NDArray[np.float32]
HEAVIEST = 1e12  # weight that still counts, relative to the usual 1
_ROWS = 256  # rows predicted at once
_LOOKED_AT = 2**23  # features in memory at once


class Gathered(NamedTuple):
    """A block of events as a rule sees it.

    ``targets`` and ``weights`` are ``(m,)``; inputs are scaled by ``statistics``; ``outputs`` are those known
    once the block is learned. The rule may change the calibration and nothing else of ``state``.
    """

    rows: Rows
    targets: Array
    weights: Array
    statistics: Array
    rules: Array
    state: Array
    outputs: int

    def aims(self, expert: int, final: Floats) -> Array:
        """Return what each event asks for, class or standardised number; the calibration learns first.

        ``final`` are the outputs ``(m, K)`` that predictions are made from.
        """
        memory = self.state[CALIBRATION + STATE * expert : CALIBRATION + STATE * (expert + 1)]
        aims = np.empty(len(self.targets))
        _aim(final, self.targets, int(self.rules[expert, LOSS]), self.state, memory, aims)
        return aims


def learn(
    e: Expansion, rows: Rows, goal: Array, statistics: Array, rules: Array, state: Array,
    fit: Callable[[Expansion, Gathered], None],
) -> None:  # fmt: skip
    """Learn one block of events by the rule ``fit``; ``goal`` is ``(2, m)``: targets and weights.

    Inputs and targets are scaled by the statistics of the blocks before this one; the first block
    by its own, for want of any.
    """
    targets, weights = np.ascontiguousarray(goal[0]), np.minimum(goal[1], HEAVIEST)
    regression = rules[0, LOSS] >= FIRST_REGRESSION
    first = state[STEPS] == 0.0
    if first:
        _observe(rows.slots, rows.values, statistics, targets, regression, state)
    grown = events.outputs_after(targets.max(), rules, state)
    fit(e, Gathered(rows, targets, weights, statistics, rules, state, grown))
    if not first:
        _observe(rows.slots, rows.values, statistics, targets, regression, state)
    state[KNOWN] = grown
    state[EVENTS] += len(targets)
    state[STEPS] += 1.0


def predict(e: Expansion, rows: Rows, statistics: Array, rules: Array, state: Array, out: Array) -> None:
    """Fill ``out`` (n, experts, K) with predictions."""
    final = e.coefficients[:, -1]
    for part in slices(len(out), _ROWS):
        features = features_by_tile(e, rows.select(part), statistics)

        def outputs_of(tile: slice, features: Any = features) -> Floats:
            product: Floats = features(tile) @ final[:, :, tile].transpose(0, 2, 1)
            return product

        outputs = total(products_on_threads(outputs_of, tiles_of(e.width)))
        _predict(outputs, rules, state, out[part])


def features_by_tile(e: Expansion, rows: Rows, statistics: Array) -> Callable[[slice], Floats]:
    """Return a function that gives the features of the rows in a tile of columns."""
    if e.source is None:
        scaled, found, _ = scale_rows(rows, statistics)
        keys, dense = distinct_inputs(found, scaled)
        e.hold_frequencies(keys)
        return lambda tile: features_of(e, keys, dense, tile)
    phi = np.empty((len(rows.values), e.width), dtype=np.float32)
    fill(e, rows, statistics, AMPLITUDE, phi)
    return lambda tile: phi[:, tile]


def look(e: Expansion, block: Gathered, columns: Sequence[slice]) -> tuple[Floats, list[Floats]]:
    """Return the outputs of a block, ``(experts, sets, m, K)``, and its features in some slices of columns.

    Only so many rows are looked at at once that their features take 32 MiB.
    """
    count = len(block.targets)
    outputs, kept = [], [np.empty((count, c.stop - c.start), dtype=np.float32) for c in columns]
    for part in slices(count, max(1, _LOOKED_AT // e.width)):
        features = features_by_tile(e, block.rows.select(part), block.statistics)

        def of_tile(tile: slice, features: Any = features, part: slice = part) -> Floats:
            phi = features(tile)
            for c, into in zip(columns, kept, strict=True):
                first, last = max(tile.start, c.start), min(tile.stop, c.stop)
                if first < last:
                    found = phi[:, first - tile.start : last - tile.start]
                    into[part, first - c.start : last - c.start] = found
            product: Floats = phi @ e.coefficients[:, :, :, tile].transpose(0, 1, 3, 2)
            return product

        outputs.append(total(products_on_threads(of_tile, tiles_of(e.width))))
    return np.concatenate(outputs, axis=2), kept


def average(e: Expansion, steps: float) -> None:
    """Move the averages towards the iterates after so many steps before this one."""
    if e.coefficients.shape[1] > 1:
        iterate, mean = e.coefficients[:, 0], e.coefficients[:, 1]
        mean += np.float32(averaging_weight(steps + 1.0)) * (iterate - mean)


def total(parts: Iterable[Floats]) -> Floats:
    """Return the sum of some arrays, in their order."""
    first, *others = parts
    result = first
    for part in others:
        result = result + part
    return result


@njit(cache=True, error_model="numpy")
def _observe(slots, values, statistics, targets, regression, state):  # type: ignore[no-untyped-def]
    flat = statistics.reshape(statistics.size)
    for i in range(values.shape[0]):
        observe_row(slots, min(i, slots.shape[0] - 1), values, i, flat)
        if regression:
            observe(targets[i], state, TARGET)


@njit(cache=True, error_model="numpy")
def _aim(final, targets, loss, state, calibration, out):  # type: ignore[no-untyped-def]
    known = int(state[KNOWN])
    work = np.empty(max(known, 1))
    for i in range(targets.shape[0]):
        out[i] = targets[i]
        if loss >= FIRST_REGRESSION:
            out[i] = standardise(targets[i], state, TARGET, events.TARGET_CLIP)
        elif targets[i] < known:
            probabilities(loss, final[i, :known], calibration, work[:known])
            calibrate(loss, final[i, :known], work[:known], int(targets[i]), state[EVENTS] + i, calibration)


@njit(cache=True, error_model="numpy")
def _predict(outputs, rules, state, out):  # type: ignore[no-untyped-def]
    for i in range(out.shape[0]):
        for e in range(out.shape[1]):
            events.predict(int(rules[e, LOSS]), outputs[e, i], state, e, out[i, e])
