"""The way of an event, compiled: scale → features → evaluate → the learner's rule.

One function serves ``predict_one``, ``learn_one``, their many-row forms and the prequential pass, so they
cannot drift apart: a pass over rows *is* the loop over events, to the last bit. Rows are handled in small
tiles only so that frequencies are found in the processor's cache; no result depends on the tile.

The state vector (float64) of a learner
    ``[events, steps, outputs known, target count, target mean, target m2, calibration…]``
"""

from __future__ import annotations

import numpy as np
from numba import njit

from streamk.expansion import evaluate
from streamk.features.activation import AMPLITUDE
from streamk.features.lanes import empty_aligned
from streamk.features.sources import featurize, room_for_row, rows_at_once
from streamk.learners.rules import move
from streamk.losses import FIRST_REGRESSION, residuals
from streamk.probabilities import STATE, calibrate, probabilities
from streamk.rows import first_bad
from streamk.scaling import observe, observe_row, scale_row, spread, standardise
from streamk.schedules import averaging_weight, regularization_at

EVENTS, STEPS, KNOWN, TARGET, CALIBRATION = 0, 1, 2, 3, 6
LOSS, RHO, MEMORY, LEAST_OUTPUTS = 0, 1, 2, 3
TARGET_CLIP = 6.0
DONE, OVERFLOWED, LACKING = -1, -2, -3


@njit(cache=True, error_model="numpy")
def predict(loss, outputs, state, expert, out):  # type: ignore[no-untyped-def]
    """Fill ``out`` with class probabilities of the known outputs, or the target in its own units."""
    if loss >= FIRST_REGRESSION:
        out[0] = state[TARGET + 1] + spread(state, TARGET) * outputs[0]
        return
    out[:] = 0.0
    known = int(state[KNOWN])
    if known > 0:
        memory = state[CALIBRATION + STATE * expert : CALIBRATION + STATE * (expert + 1)]
        probabilities(loss, outputs[:known], memory, out[:known])


@njit(cache=True, error_model="numpy")
def average(coefficients, first, outputs, step):  # type: ignore[no-untyped-def]
    """Move the average (the ``outputs`` rows after the iterate's) towards the iterate."""
    weight = np.float32(averaging_weight(step))
    for k in range(first, first + outputs):
        for f in range(coefficients.shape[1]):
            mean = coefficients[k + outputs, f]
            coefficients[k + outputs, f] = mean + weight * (coefficients[k, f] - mean)


@njit(cache=True, error_model="numpy")
def outputs_after(target, rules, state):  # type: ignore[no-untyped-def]
    """Return how many outputs are known once an event with this target is learned."""
    grown = max(int(state[KNOWN]), int(rules[0, LEAST_OUTPUTS]))
    if int(rules[0, LOSS]) < FIRST_REGRESSION:
        grown = max(grown, int(target) + 1)
    return grown


@njit(cache=True, error_model="numpy")
def learn_event(  # type: ignore[no-untyped-def]
    coefficients, active, phi, i, features, rules, state, target, weight, outputs, work
):  # fmt: skip
    """Learn the event of row ``i``, whose outputs ``(experts, sets, K)`` are already evaluated.

    ``coefficients`` are flat rows, ``work`` is scratch of shape ``(2, K)`` float64.
    """
    known = int(state[KNOWN])
    classes = int(rules[0, LOSS]) < FIRST_REGRESSION
    aim = target if classes else standardise(target, state, TARGET, TARGET_CLIP)
    grown = outputs_after(target, rules, state)
    experts, sets, most = outputs.shape
    for e in range(experts):
        loss, first = int(rules[e, LOSS]), e * sets * most
        if classes and target < known:
            memory = state[CALIBRATION + STATE * e : CALIBRATION + STATE * (e + 1)]
            final = outputs[e, sets - 1, :known]
            given = work[0, :known]
            probabilities(loss, final, memory, given)
            calibrate(loss, final, given, int(target), state[EVENTS], memory)
        residual = work[1, :grown]
        length = residuals(loss, outputs[e, 0, :grown], aim, residual)
        rho = regularization_at(rules[e, RHO], rules[e, MEMORY], state[EVENTS]) / weight
        move(active, coefficients, first, phi, i, length, residual, rho * features, weight)
        if sets > 1:
            average(coefficients, first, most, state[STEPS] + 1.0)
    if not classes:
        observe(target, state, TARGET)
    state[KNOWN] = grown
    state[EVENTS] += 1.0
    state[STEPS] += 1.0


@njit(cache=True, nogil=True, error_model="numpy")
def run(  # type: ignore[no-untyped-def]
    learning, slots, keys, values, statistics, source, block_keys, waves, kind, features, table, counts,
    frequencies, coefficients, active, rules, state, targets, out,
):  # fmt: skip
    """Predict rows, and learn each after its prediction if ``learning``.

    Parameters
    ----------
    learning : bool
    slots, keys, values
        Encoded rows (:class:`streamk.rows.Rows`): ``(n or 1, w)`` int32, uint64; ``(n, w)`` float64.
    statistics
        Of the inputs, ``(slots, 3)`` float64; changed by learning.
    source, block_keys, waves, kind, features, coefficients
        Of the expansion; coefficients are changed by learning.
    table, counts, frequencies
        The frequency cache; never changes a result.
    active
        The open block of features, or None (:mod:`streamk.learners.rules`); changed by learning.
    rules
        ``(experts, 4)`` float64: loss, ρ, memory, least number of outputs.
    state
        See the module; changed by learning.
    targets
        ``(2, n)`` float64: class index or number, and weight (0: predicted, not learned).
    out
        ``(n, experts, K)`` float64, or ``(0, …)`` if predictions are not wanted.

    Returns
    -------
    int
        ``DONE``, or ``OVERFLOWED`` (done, and the frequency cache would like to grow), or, when nothing was
        changed: ``LACKING − r`` if the cache must have room for ``r`` frequencies, or the flat index of the
        first value that is not finite or too large.
    """
    bad = first_bad(slots, keys, values)
    if bad >= 0:
        return bad
    n, w = values.shape
    experts, sets, most, width = coefficients.shape
    flat = coefficients.reshape(experts * sets * most, width)
    spreads = statistics.reshape(statistics.size)
    room = room_for_row(source, keys)
    if room > frequencies.shape[0]:
        return LACKING - room
    tile = max(1, min(n, rows_at_once(room, keys, frequencies)))
    inputs = np.empty((tile, w), dtype=np.float32)
    found = np.empty((tile, w), dtype=np.uint64)
    widths = np.empty(tile, dtype=np.int64)
    phi = empty_aligned(tile * width).reshape(tile, width)
    outputs = np.empty((experts, sets, most), dtype=np.float32)
    work = np.empty((2, most), dtype=np.float64)
    for start in range(0, n, tile):
        rows = min(tile, n - start)
        for i in range(rows):
            shared = min(start + i, slots.shape[0] - 1)
            widths[i] = scale_row(slots, keys, shared, values, start + i, spreads, inputs, found, i)
            if learning and targets[1, start + i] > 0.0:
                observe_row(slots, shared, values, start + i, spreads)
        featurize(
            source, inputs, found[:rows], widths[:rows], block_keys, waves, table, counts, frequencies,
            kind, features, AMPLITUDE, phi,
        )  # fmt: skip
        for i in range(rows):
            for e in range(experts):
                for s in range(sets):
                    evaluate(flat, (e * sets + s) * most, phi, i, outputs[e, s])
                if out.shape[0] > 0:
                    predict(int(rules[e, LOSS]), outputs[e, sets - 1], state, e, out[start + i, e])
            if learning and targets[1, start + i] > 0.0:
                learn_event(
                    flat, active, phi, i, features, rules, state,
                    targets[0, start + i], targets[1, start + i], outputs, work,
                )  # fmt: skip
    return OVERFLOWED if counts[1] > 0 else DONE
