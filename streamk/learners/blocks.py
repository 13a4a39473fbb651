"""Learning by blocks of events: gather rows by count, make their features by matrix products, project.

Blocks are cut by count alone, so when and in what portions events arrive changes nothing. The contributions
of tiles of features to a sum are added in the order of the tiles, so the result does not depend on the number
of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from streamk.expansion import Expansion
from streamk.features.activation import AMPLITUDE
from streamk.features.matrix import fill
from streamk.features.products import (
    distinct_inputs,
    features_of,
    one_blas_thread,
    products_on_threads,
    tiles_of,
)
from streamk.learners import events
from streamk.learners.events import (
    CALIBRATION,
    EVENTS,
    KNOWN,
    LOSS,
    MEMORY,
    RHO,
    STEPS,
    TARGET,
)
from streamk.learners.projection import margin_multipliers, multipliers
from streamk.losses import FIRST_REGRESSION, MARGIN, residuals
from streamk.probabilities import STATE, calibrate, probabilities
from streamk.rows import Rows, slices
from streamk.scaling import observe, observe_row, scale_rows, standardise
from streamk.schedules import averaging_weight, regularization_at

Array = NDArray[np.float64]
Floats = NDArray[np.float32]
_ROWS = 256  # rows predicted at once
_LARGEST_RIDGE = 1e100  # of a row with next to no weight


@njit(cache=True, error_model="numpy")
def _observe(slots, values, statistics, targets, regression, state):  # type: ignore[no-untyped-def]
    flat = statistics.reshape(statistics.size)
    for i in range(values.shape[0]):
        observe_row(slots, min(i, slots.shape[0] - 1), values, i, flat)
        if regression:
            observe(targets[i], state, TARGET)


@njit(cache=True, error_model="numpy")
def _assess(outputs, final, targets, rule, state, calibration, grown, out):  # type: ignore[no-untyped-def]
    """Fill ``out`` (rows × outputs) with residuals, after learning the calibration from each row."""
    loss = int(rule[LOSS])
    known = int(state[KNOWN])
    work = np.empty(max(known, 1))
    for i in range(outputs.shape[0]):
        aim = targets[i]
        if loss < FIRST_REGRESSION:
            if aim < known:
                probabilities(loss, final[i, :known], calibration, work[:known])
                calibrate(loss, final[i, :known], work[:known], int(aim), state[EVENTS] + i, calibration)
        else:
            aim = standardise(aim, state, TARGET, events.TARGET_CLIP)
        residuals(loss, outputs[i, :grown], aim, out[i, :grown])


@njit(cache=True, error_model="numpy")
def _predict(outputs, rules, state, out):  # type: ignore[no-untyped-def]
    for i in range(out.shape[0]):
        for e in range(out.shape[1]):
            events.predict(int(rules[e, LOSS]), outputs[e, i], state, e, out[i, e])


def dense_inputs(rows: Rows, statistics: Array) -> tuple[NDArray[np.uint64], Floats]:
    """Return the distinct inputs of some rows, by ascending key, and the scaled rows over them."""
    scaled, found, _ = scale_rows(rows, statistics)
    return distinct_inputs(found, scaled)


def _features(e: Expansion, rows: Rows, statistics: Array) -> Callable[[slice], Floats]:
    """Return a function that gives the features of the rows in a tile of columns."""
    if e.source is None:
        keys, dense = dense_inputs(rows, statistics)
        e.hold_frequencies(keys)
        return lambda tile: features_of(e, keys, dense, tile)
    phi = np.empty((len(rows.values), e.width), dtype=np.float32)
    fill(e, rows, statistics, AMPLITUDE, phi)
    return lambda tile: phi[:, tile]


def predict(e: Expansion, rows: Rows, statistics: Array, rules: Array, state: Array, out: Array) -> None:
    """Fill ``out`` (n, experts, K) with predictions."""
    final = e.coefficients[:, -1]
    for part in slices(len(out), _ROWS):
        keys, dense = dense_inputs(rows.select(part), statistics)
        e.hold_frequencies(keys)

        def outputs_of(tile: slice, keys: Any = keys, dense: Any = dense) -> Floats:
            return features_of(e, keys, dense, tile) @ final[:, :, tile].transpose(0, 2, 1)

        _predict(_sum(products_on_threads(outputs_of, tiles_of(e.width))), rules, state, out[part])


def learn(e: Expansion, rows: Rows, goal: Array, statistics: Array, rules: Array, state: Array) -> None:
    """Project the coefficients onto one block of events.

    Inputs and targets are scaled by the statistics of the blocks before this one; the first block
    by its own, for want of any.
    """
    targets, weights = np.ascontiguousarray(goal[0]), goal[1]
    regression = rules[0, LOSS] >= FIRST_REGRESSION
    first = state[STEPS] == 0.0
    if first:
        _observe(rows.slots, rows.values, statistics, targets, regression, state)
    features = _features(e, rows, statistics)

    def look(tile: slice) -> tuple[Floats, Floats, Floats]:
        phi = features(tile)
        return phi, phi @ phi.T, phi @ e.coefficients[:, :, :, tile].transpose(0, 1, 3, 2)

    tiles = tiles_of(e.width)
    seen = products_on_threads(look, tiles)
    gram = _sum(gram for _, gram, _ in seen).astype(np.float64)
    outputs = _sum(outputs for _, _, outputs in seen)
    grown = events.outputs_after(targets.max(), rules, state)
    changes = []
    for expert, rule in enumerate(rules):
        residual = np.zeros((len(targets), e.coefficients.shape[2]))
        memory = state[CALIBRATION + STATE * expert : CALIBRATION + STATE * (expert + 1)]
        _assess(outputs[expert, 0], outputs[expert, -1], targets, rule, state, memory, grown, residual)
        solve = margin_multipliers if rule[LOSS] == MARGIN else multipliers
        rho = regularization_at(rule[RHO], rule[MEMORY], state[EVENTS]) * e.features
        with np.errstate(over="ignore"):
            ridge = np.minimum(rho / weights, _LARGEST_RIDGE)
        with one_blas_thread():
            changes.append(solve(gram, residual, ridge).astype(np.float32))
    weight = np.float32(averaging_weight(state[STEPS] + 1.0))

    def move(job: tuple[slice, Floats]) -> None:
        tile, phi = job
        for expert, change in enumerate(changes):
            sets = e.coefficients[expert, :, :, tile]
            sets[0] += change.T @ phi
            if len(sets) > 1:
                sets[1] += weight * (sets[0] - sets[1])

    products_on_threads(move, [(tile, phi) for tile, (phi, _, _) in zip(tiles, seen, strict=True)])
    if not first:
        _observe(rows.slots, rows.values, statistics, targets, regression, state)
    state[KNOWN] = grown
    state[EVENTS] += len(targets)
    state[STEPS] += 1.0


def _sum(parts: Iterable[Floats]) -> Floats:
    total: Floats | None = None
    for part in parts:
        total = part if total is None else total + part
    assert total is not None
    return total
