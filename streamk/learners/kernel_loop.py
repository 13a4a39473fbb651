"""The compiled loop over events: codec → map → experts → combiner.

One function serves ``predict_one``, ``learn_one``, their many-row forms and the prequential pass, so all of
them give the same bits: a pass over rows *is* the loop over events. Rows are processed in small tiles, which
keeps frequencies in the processor's cache; no result depends on the size of a tile. A tile therefore ends
with a row whose inputs get columns, since these columns change how later rows are transformed.

Experts are passed in *groups* of one type each, and Numba compiles one loop per group: twelve experts of
three rules are three loops. How many experts a group has is no part of its type, so learners that differ only
in that share compiled code.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numba.extending import overload

from streamk.combining.combiner import adapt, combine, limit
from streamk.compiling import CALLED, ENTRY, INNER, ZERO
from streamk.encoding.codec import EVENTS, KNOWN, aim_of, is_learned, observe_target, outputs_after
from streamk.encoding.label_history import MEAN, NOW, THEN, remember
from streamk.encoding.rows import CATEGORY, first_bad
from streamk.encoding.scaling import observe_row, scale_of, scale_row
from streamk.encoding.seen import mark_seen
from streamk.experts.expert import evaluate, step
from streamk.experts.neighbours import Nearby
from streamk.features.activation import AMPLITUDE
from streamk.features.cross_moments import add_products
from streamk.features.exchange import count_test, drawn, exchange_field, pool_event
from streamk.features.grids import fill_cells
from streamk.features.plain import fill_labels, fill_plain, tag_columns
from streamk.features.quadratic import fill_quadratic
from streamk.features.relevance import (
    add_gradients,
    follow_gaps,
    is_due,
    step_of,
    transform_row,
)
from streamk.features.sample import sample_event
from streamk.features.sources import featurize, room_for_row, rows_at_once
from streamk.handles import Handle, unowned
from streamk.learners.stale import is_drawn

DONE, OVERFLOWED, TOO_SMALL = -1, -2, -3


class ModelView(NamedTuple):
    """Parameters of the loop: codec, features, groups of experts, combiner, tests of fields.

    ``coding`` (:class:`streamk.encoding.codec.Coding`), ``features``
    (:class:`streamk.features.map.MapRecord`; its cache of frequencies never changes a result), the records of
    experts and that of the combiner change by learning. ``source`` is of :mod:`streamk.features.sources`.
    """

    coding: Handle
    source: object
    features: Handle
    groups: tuple[Handle, ...]
    combiner: Handle
    exchanges: Handle | None


def evaluate_all(groups: object, phi: object, i: object, outputs: object, e: object) -> None:
    """Let every expert fill its part of ``outputs``, the first being number ``e`` (in compiled code)."""
    raise NotImplementedError("for compiled code")


def step_all(*arguments: object) -> None:
    """Let every expert learn the event of row ``i`` (in compiled code).

    Arguments are the experts, in a group for each rule, and those of ``step``.
    """
    raise NotImplementedError("for compiled code")


@overload(evaluate_all, jit_options=INNER)
def _evaluate_all(groups, phi, i, outputs, e):
    if not len(groups):
        return lambda groups, phi, i, outputs, e: None

    def each(groups, phi, i, outputs, e):
        group = groups[0]
        for g in range(len(group)):
            evaluate(group[g], phi, i, outputs, e + g)
        evaluate_all(groups[1:], phi, i, outputs, e + len(group))

    return each


@overload(step_all, jit_options=INNER)
def _step_all(groups, phi, i, outputs, e, aim, known, weight, residual):
    if not len(groups):
        return lambda groups, phi, i, outputs, e, aim, known, weight, residual: None

    def each(groups, phi, i, outputs, e, aim, known, weight, residual):
        group = groups[0]
        for g in range(len(group)):
            step(group[g], phi, i, outputs, e + g, aim, known, weight, residual)
        step_all(groups[1:], phi, i, outputs, e + len(group), aim, known, weight, residual)

    return each


def keep_neighbours(groups: object, kept: object, outputs: object, e: object) -> None:
    """Replace the ``outputs`` of nearest neighbours by those ``kept`` (in compiled code)."""
    raise NotImplementedError("for compiled code")


@overload(keep_neighbours, jit_options=INNER)
def _keep_neighbours(groups, kept, outputs, e):
    if not len(groups):
        return lambda groups, kept, outputs, e: None
    nearby = groups[0].handle.instance_class is Nearby

    def each(groups, kept, outputs, e):
        count = len(groups[0])
        if nearby:
            for g in range(e, e + count):  # number by number, like inputs in ``_take_gradients``
                for s in range(outputs.shape[1]):
                    for k in range(outputs.shape[2]):
                        outputs[g, s, k] = kept[g, s, k]
        keep_neighbours(groups[1:], kept, outputs, e + count)

    return each


@njit(nogil=True, **ENTRY)
def process_rows(learning, late, rarely, reuse, buffers, rows, views, goal, out):  # noqa: PLR0912  # one loop
    """Predict rows, and learn each after its prediction if ``learning``.

    Parameters
    ----------
    learning : bool
    late : bool
        Whether labels come late.
    rarely : int
        One event in so many is learned by the combiner of ``stale``; 0 for none.
    reuse : bool
        Whether the scratch arrays and ``out`` hold the features and outputs of this one row, and nothing was
        learned since.
    buffers
        A handle of scratch arrays (:mod:`streamk.learners.scratch`): those for a tile of rows, and those for
        a row that relevance changes.
    rows
        Encoded rows (:class:`streamk.encoding.rows.Rows`).
    views
        A handle of three handles, each of a :class:`ModelView`: of present parameters; of those of the time
        when the learned event was predicted, the first itself unless labels come late; and of copied
        coefficients and their combiner (:mod:`streamk.learners.stale`).
    goal
        ``(2, n)`` float64: class index or number, and weight (0: predicted, not learned).
    out
        ``(n, K)`` float64, or ``(0, K)`` if predictions are not wanted. For numbers that are predicted and
        not learned there may be a second column, which stacked experts fill with the size of errors.

    Returns
    -------
    int
        ``DONE``, or ``OVERFLOWED`` (done, and a larger frequency cache would be faster), or, if nothing was
        changed: ``TOO_SMALL − r`` if the cache must hold at least ``r`` frequencies, or the flat index of the
        first value that is not finite or too large.
    """
    rows, goal, out = unowned(rows), unowned(goal), unowned(out)
    handle, before, stale = views.value
    coding, source = handle.coding, handle.source
    features = handle.features
    bad = first_bad(rows, coding.largest)
    if bad >= 0:
        return bad
    n = rows.values.shape[0]
    needed = room_for_row(source, rows.keys)
    if needed > features.frequencies.shape[0]:
        return TOO_SMALL - needed
    scratch, spare = buffers.value
    inputs, found, of, widths = scratch.inputs, scratch.keys, scratch.slots, scratch.counts
    raw, phi, outputs, working = scratch.raw, scratch.columns, scratch.outputs, scratch.working
    residual = scratch.residual
    tile = min(widths.shape[0], rows_at_once(needed, rows.keys, features.frequencies))
    if phi.shape[1] == 0:
        phi = raw
    start = 0
    while start < n:
        size, full, gets_column = ZERO, min(tile, n - start), False
        reused = reuse and tag_columns(features.sections, found, of, widths[0], 0)
        while size < full:
            i, size = size, size + 1
            if not reused:
                widths[i] = scale_row(
                    rows, start + i, coding.statistics, coding.exponents, coding.seen, inputs, found, of, i
                )
                gets_column = transform_row(features.sections, inputs, found, of, widths[i], i)
            if learning and goal[1, start + i] > 0.0:
                observe_row(rows, start + i, coding.statistics, coding.horizon, goal[1, start + i])
                mark_seen(coding.seen, rows, start + i)
                if gets_column:
                    break  # the next row is transformed by it
        if not reused:
            _featurize(handle, inputs, found[:size], widths[:size], raw)
        for i in range(size):
            learned = learning and goal[1, start + i] > 0.0
            unit = scale_of(widths[i], coding.exponents[0])
            if not reused:
                fill_plain(features.sections, inputs, found, of, widths[i], i, learned, raw, phi)
                fill_cells(features.sections, inputs, found, of, widths[i], i, unit, phi)
                fill_quadratic(features.sections, inputs, found, of, widths[i], i, unit, phi)
            if learned and is_drawn(rarely, coding.counts[EVENTS]):
                reused = False
                _answer(stale, np.int64(MEAN), phi, np.int64(i), outputs, working, residual)
                _adapt(stale, stale, outputs, working, residual, goal[0, start + i], goal[1, start + i])
            given = out[start + i] if out.shape[0] > 0 else residual
            if not reused:
                _answer(handle, np.int64(NOW), phi, np.int64(i), outputs, working, given)
            target, weight = goal[0, start + i], goal[1, start + i]
            if learned:
                actual, predicted = target, 0.0 if coding.classes else given[0]
                target = limit(handle.combiner, coding, given, actual)
                follow_gaps(features.sections, rows, start + i, inputs, found, widths[i], i, unit)
                if is_due(features.sections, coding.counts[EVENTS], widths[i]):
                    _take_gradients(handle, spare, inputs, found, of, widths[i], i, outputs, given, weight)
                tests = handle.exchanges
                _take_test(handle, tests, spare, inputs, found, of, widths[i], i, given, target, weight)
                if late:
                    given = residual
                    _answer(before, np.int64(THEN), phi, np.int64(i), outputs, working, given)
                _adapt(handle, before, outputs, working, given, actual, weight)
                if late:
                    _answer(handle, np.int64(THEN), phi, np.int64(i), outputs, working, given)
                if is_learned(coding, target):
                    sample_event(
                        features.sections,
                        rows,
                        start + i,
                        phi,
                        i,
                        coding.counts[EVENTS],
                        target,
                        weight,
                        predicted,
                        0.0 if coding.classes else actual,
                    )
                _learn(handle, inputs, found, widths[i], phi, np.int64(i), outputs, target, weight, residual)
        start += size
    return OVERFLOWED if features.counts[1] > 0 else DONE


@njit(**CALLED)
def _featurize(handle, inputs, found, widths, raw):
    """Fill ``raw`` with the features of rows of scaled inputs."""
    featurize(handle.source, handle.features, inputs, found, widths, AMPLITUDE, raw)


@njit(**CALLED)
def _answer(handle, when, phi, i, outputs, working, out):
    """Predict row ``i`` of ``phi``, with the labels that have arrived ``when``, into ``out``."""
    coding, features = handle.coding, handle.features
    fill_labels(features.sections, coding.memory, when, phi, i)
    evaluate_all(handle.groups, phi, i, outputs, 0)
    combine(handle.combiner, coding, outputs, working, out)


@njit(**CALLED)
def _adapt(handle, before, outputs, working, given, target, weight):
    """Let the combiner learn from ``outputs`` that were combined to the prediction ``given``."""
    combiner, earlier = handle.combiner, before.combiner
    adapt(combiner, earlier, handle.coding, outputs, working, given, target, weight)


@njit(**CALLED)
def _learn(handle, inputs, found, count, phi, i, outputs, target, weight, residual):
    """Let relevance and the experts learn row ``i`` of ``count`` inputs; ``outputs`` are the experts'."""
    coding = handle.coding
    if is_learned(coding, target):
        aim, known = aim_of(coding, target), outputs_after(coding, target)
        _take_products(handle, inputs, found, count, i, aim, weight)
        step_all(handle.groups, phi, i, outputs, 0, aim, known, weight, residual)
        remember(coding.memory, coding.queue, aim, coding.classes)
    observe_target(coding, target, weight)


@njit(**CALLED)
def _take_products(handle, inputs, found, count, i, aim, weight):
    """Let relevance learn how the target of row ``i`` depends on each pair of inputs."""
    coding, features = handle.coding, handle.features
    output, value = (int(aim), 1.0) if coding.classes else (0, aim)
    unit = scale_of(count, coding.exponents[0])
    add_products(
        features.sections, inputs, found, count, i, unit, coding.counts[EVENTS], output, value, weight
    )


@njit(**CALLED)
def _evaluate_changed(handle, spare, keys, slots, unit):
    """Fill the outputs of ``spare`` with those of all experts for its inputs, which are not learned."""
    sections, row = handle.features.sections, np.int64(0)
    inputs, counts, raw, phi = spare.inputs, spare.counts, spare.raw, spare.columns
    transform_row(sections, inputs, keys, slots, counts[0], row)
    _featurize(handle, inputs, keys, counts, raw)
    fill_plain(sections, inputs, keys, slots, counts[0], row, np.bool_(False), raw, phi)
    fill_cells(sections, inputs, keys, slots, counts[0], row, unit, phi)
    fill_quadratic(sections, inputs, keys, slots, counts[0], row, unit, phi)
    fill_labels(sections, handle.coding.memory, np.int64(NOW), phi, row)
    evaluate_all(handle.groups, phi, row, spare.outputs, 0)


@njit(**CALLED)
def _take_gradients(handle, spare, inputs, found, of, count, i, answered, given, weight):
    """Let relevance learn how the prediction of row ``i`` changes with every input.

    ``count`` is that of its inputs, ``answered`` are the outputs of the experts, and ``given`` is its
    prediction. The neighbours keep their outputs, which follow single events and not the target.
    """
    coding, features = handle.coding, handle.features
    keys, slots = found[i : i + 1], of[i : i + 1]
    kinds, _, w = inputs.shape
    most = given.shape[0]
    slopes = np.zeros((count, most))
    changed, outputs, out = spare.inputs, spare.outputs, spare.residual
    spare.counts[0] = count
    families = coding.exponents.shape[0]
    unit = scale_of(count, coding.exponents[0])
    for j in range(count):
        # number by number: an assignment of arrays compiles for seconds, for the sake of its errors
        for k in range(kinds):
            for m in range(w):
                changed[k, 0, m] = inputs[k, i, m]
        value = np.float64(inputs[0, i, j]) / unit
        step = 0.0 if slots[0, j] <= CATEGORY else step_of(features.sections, keys[0, j], value)
        if step == 0.0:
            continue  # the slope stays 0: this input has no step yet
        for k in range(families):
            changed[k, 0, j] += np.float32(step * scale_of(count, coding.exponents[k]))
        _evaluate_changed(handle, spare, keys, slots, unit)
        keep_neighbours(handle.groups, answered, outputs, 0)
        combine(handle.combiner, coding, outputs, spare.working, out)
        for k in range(most):
            slopes[j, k] = (aim_of(coding, out[k]) - aim_of(coding, given[k])) / step
    add_gradients(features.sections, slopes, keys, count, 0, weight)


@njit(**CALLED)
def _take_test(handle, exchanges, spare, inputs, found, of, count, i, given, target, weight):
    """Let relevance test whether a field of row ``i`` helps to predict its target, if a test is due."""
    if exchanges is not None and handle.features.sections.learned:
        _test_field(handle, exchanges, spare, inputs, found, of, count, i, given, target, weight)


@njit(**CALLED)
def _test_field(handle, exchanges, spare, inputs, found, of, count, i, given, target, weight):
    """Test the field whose turn it is, and put the event into the pool if that is due."""
    coding = handle.coding
    events, families = coding.counts[EVENTS], coding.exponents.shape[0]
    j = drawn(events, count)
    if j >= 0 and is_learned(coding, target) and (not coding.classes or target < coding.counts[KNOWN]):
        w, most = inputs.shape[2], given.shape[0]
        slots, counts, out = spare.slots, spare.counts, spare.residual
        unit = np.empty(families)
        for k in range(families):
            unit[k] = scale_of(count, coding.exponents[k])
        for m in range(w):
            slots[0, m] = of[i, m]
        counts[0] = exchange_field(
            exchanges, inputs, found, of, count, i, j, events, unit, spare.inputs, spare.keys, slots
        )
        squares, products, errors = 0.0, 0.0, 0.0
        if counts[0] >= 0:
            _evaluate_changed(handle, spare, spare.keys, slots, unit[0])
            combine(handle.combiner, coding, spare.outputs, spare.working, out)
            for k in range(most):
                d = aim_of(coding, out[k]) - aim_of(coding, given[k])
                wanted = aim_of(coding, target)
                if coding.classes:
                    wanted = 1.0 if k == int(target) else 0.0
                e = wanted - aim_of(coding, given[k])
                squares += d * d
                products += d * e
                errors += e * e
        moved = counts[0] >= 0
        count_test(exchanges, of[i, j], found[i, j], squares, products, errors, weight, moved)
    pool_event(exchanges, inputs, found, of, count, i, events, scale_of(count, coding.exponents[0]))


@njit(**INNER)
def _copy_row(outputs, i, one):
    """Copy the outputs of row ``i``, number by number, as in ``_take_gradients``."""
    for e in range(one.shape[0]):
        for s in range(one.shape[1]):
            for k in range(one.shape[2]):
                one[e, s, k] = outputs[e, s, i, k]


@njit(**ENTRY)
def combine_many(coding, combiner, working, outputs, out):
    """Fill ``out`` ``(m, K)`` with predictions from ``outputs`` ``(E, 2, m, K)``; ``working`` is scratch."""
    experts, _, rows, most = outputs.shape
    one = np.empty((experts, 2, most), dtype=np.float32)
    for i in range(rows):
        _copy_row(outputs, i, one)
        combine(combiner, coding, one, working, out[i])


@njit(**ENTRY)
def adapt_many(coding, combiner, working, outputs, targets, weights, aims):
    """Let the combiner learn from a block; fill ``aims``, and set the weight of outliers to 0."""
    experts, _, rows, most = outputs.shape
    one = np.empty((experts, 2, most), dtype=np.float32)
    given = np.empty(most)
    events = coding.counts[0]
    for i in range(rows):
        _copy_row(outputs, i, one)
        combine(combiner, coding, one, working, given)
        adapt(combiner, combiner, coding, one, working, given, targets[i], weights[i])
        coding.counts[0] += 1.0
        aims[i] = aim_of(coding, targets[i])
        if not is_learned(coding, targets[i]):
            weights[i] = 0.0
    coding.counts[0] = events


@njit(**ENTRY)
def observe_block(coding, rows, targets, weights):
    """Let scales and counters learn from a block."""
    for i in range(targets.shape[0]):
        observe_row(rows, i, coding.statistics, coding.horizon, weights[i])
        mark_seen(coding.seen, rows, i)
        observe_target(coding, targets[i], weights[i])
