"""The compiled loop over events: codec → map → experts → combiner.

One function serves ``predict_one``, ``learn_one``, their many-row forms and the prequential pass, so all of
them give the same bits: a pass over rows *is* the loop over events. Rows are processed in small tiles, which
keeps frequencies in the processor's cache; no result depends on the size of a tile. A tile therefore ends
with a row whose inputs get columns, since these columns change how later rows are transformed.

Experts are passed in *groups* of one type each, and Numba compiles one loop per group: twelve experts of
three rules are three loops. How many experts a group has is no part of its type, so learners that differ only
in that share compiled code.

The next rows of the same width use the same scratch arrays.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from streamk.arrays import Array, Floats, Places
from streamk.combining.combiner import Combiner, adapt, combine, limit, within_limits
from streamk.compiling import CALLED, ENTRY, INNER, ZERO
from streamk.dispatch import over, over_groups
from streamk.encoding.codec import (
    EVENTS,
    KNOWN,
    aim_of,
    is_learned,
    observe_target,
    outputs_after,
    relative_weight,
)
from streamk.encoding.label_history import HELD, MEAN, NOW, remember
from streamk.encoding.rows import CATEGORY, first_bad
from streamk.encoding.scaling import observe_row, scale_of
from streamk.encoding.seen import mark_seen
from streamk.experts.expert import Observation, evaluate, keep, step
from streamk.features.columns.family import fill, recall
from streamk.features.columns.plain import Keys, tag_columns, tag_of
from streamk.features.cross_moments import add_products
from streamk.features.exchange import count_test, drawn, exchange_field, pool_event
from streamk.features.map import FeatureMap
from streamk.features.raw_values import scale_inputs
from streamk.features.relevance import (
    BLOCKS,
    add_gradients,
    follow_gaps,
    is_due,
    step_of,
    transform_row,
)
from streamk.features.sample import sample_event
from streamk.features.sources import featurize, room_for_row, rows_at_once
from streamk.features.spectra import AMPLITUDE
from streamk.handles import Handle, make_handle, unowned
from streamk.learners.stale import RARELY, is_drawn
from streamk.vector.lanes import LANES, aligned

_MOST_WIDTHS, _MOST_FREE = 64, 4  # of rows; of tiles
DONE, OVERFLOWED, TOO_SMALL = -1, -2, -3
NOTHING, EVERYTHING, EXPERTS, COMBINER = 0, 1, 2, 3  # what learns from rows


class Buffers(NamedTuple):
    """Scratch arrays for rows, of the experts' outputs, and of the combiner."""

    inputs: Floats
    keys: Keys
    slots: NDArray[np.int32]
    codes: NDArray[np.uint64]
    wide: Floats
    counts: Places
    units: Array
    weights: Array
    raw: Floats
    columns: Floats
    outputs: Floats
    working: Handle
    residual: Array


class Scratch:
    """Scratch arrays for a map, so many experts and outputs, and a combiner."""

    def __init__(self, e: FeatureMap, experts: int, outputs: int, combiner: Combiner) -> None:
        self._map, self._experts, self._outputs, self._combiner = e, experts, outputs, combiner
        self._of_row: dict[int, Handle] = {}
        self._free: dict[int, list[Handle]] = {}  # by width

    def of_row(self, width: int) -> Handle:
        """Return the arrays for single rows of so many inputs."""
        buffers = self._of_row.get(width)
        if buffers is None:
            if len(self._of_row) >= _MOST_WIDTHS:
                self._of_row.clear()
            buffers = self._of_row[width] = self._make(1, width)
        return buffers

    def take(self, width: int) -> Handle:
        """Return arrays for tiles of rows of so many inputs, which no other thread has."""
        try:
            return self._free[width].pop()
        except LookupError:
            return self._make(LANES, width)

    def put_back(self, width: int, handle: Handle) -> None:
        """Keep arrays for the next call."""
        if width not in self._free and len(self._free) >= _MOST_FREE:
            self._free = {}
        self._free.setdefault(width, []).append(handle)

    def _make(self, rows: int, width: int) -> Handle:
        return make_handle((self.arrays(rows, width), self.arrays(1, width)))

    def arrays(self, rows: int, width: int) -> Handle:
        """Return new arrays for so many rows of so many inputs."""
        e = self._map
        kinds = len(e.exponents) * (1 if e.sections is None else 1 + BLOCKS)
        columns = 0 if e.sections is None else e.columns
        buffers = Buffers(
            np.empty((kinds, rows, width), dtype=np.float32),
            np.empty((rows, width), dtype=np.uint64),
            np.empty((rows, width), dtype=np.int32),
            np.zeros((rows, width), dtype=np.uint64),
            np.zeros((rows, width), dtype=np.float32),
            np.empty(rows, dtype=np.int64),
            np.empty(rows),
            np.empty(rows),
            aligned(np.zeros((rows, e.width), dtype=np.float32)),
            aligned(np.zeros((rows, columns), dtype=np.float32)),
            np.empty((self._experts, 2, self._outputs), dtype=np.float32),
            self._combiner.scratch(self._outputs),
            np.empty(self._outputs, dtype=np.float64),
        )
        return make_handle(buffers)


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


evaluate_all, step_all, keep_all = over_groups(evaluate), over_groups(step), over_groups(keep)
fill_all, recall_all = over(fill), over(recall)


@njit(**CALLED)
def fill_columns(sections, scratch, i, learned, phi):
    """Fill all columns of row ``i`` of ``phi``, if the map has sections."""
    if sections is not None:
        fill_all(sections.families, sections, scratch, i, learned, phi)


@njit(**CALLED)
def recall_columns(sections, memory, when, phi, i):
    """Fill the columns of labels of row ``i`` of ``phi``, if the map has sections."""
    if sections is not None:
        recall_all(sections.families, sections, memory, when, phi, i)


@njit(nogil=True, **ENTRY)
def process_rows(learning, late, rarely, reuse, buffers, rows, views, goal, out):  # noqa: PLR0912  # one loop
    """Predict rows, and learn each after its prediction.

    Parameters
    ----------
    learning : int
        What learns: ``NOTHING``; ``EVERYTHING``; all but the combiners, if the experts have learned these
        rows before (``EXPERTS``); or the combiners only, if the experts never learned them (``COMBINER``).
    late : int
        The labels with which an event is learned: ``NOW``, those that have arrived; ``HELD``, those that had
        arrived when it was predicted, and the combiner learns from the outputs at that time; ``MEAN``, if
        labels come so late that they say nothing about it.
    rarely : int
        One event in so many is learned by the combiner of ``stale``; 0 for none.
    reuse : bool
        Whether the scratch arrays and ``out`` hold the features and outputs of this one row, and nothing was
        learned since.
    buffers
        A handle of scratch arrays (:class:`Scratch`): those for a tile of rows, and those for a row that
        relevance changes.
    rows
        Encoded rows (:class:`streamk.encoding.rows.Rows`).
    views
        A handle of three handles, each of a :class:`ModelView`: of present parameters; of label memory and
        combiner at the time when the learned event was predicted; and of copied coefficients and their
        combiner (:mod:`streamk.learners.stale`). Then the outputs of experts ``(E, 2, K)`` when the event
        was predicted. ``HELD`` takes the second and the last.
    goal
        ``(2, n)`` float64: class index or number, and weight (0: predicted, not learned; negative: that of
        an earlier event that experts learn again, and nothing else does).
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
    handle, before, stale, asked = views.value
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
    widths, raw, phi, residual = scratch.counts, scratch.raw, scratch.columns, scratch.residual
    tile = min(widths.shape[0], rows_at_once(needed, rows.keys, features.frequencies))
    if phi.shape[1] == 0:
        phi = raw
    start = 0
    while start < n:
        size, full, gets_column = ZERO, min(tile, n - start), False
        reused = reuse and tag_columns(features.sections, scratch, 0)
        while size < full:
            i, size = size, size + 1
            if not reused:
                scale_inputs(coding, rows, start + i, scratch, i)
                gets_column = transform_row(features.sections, scratch, i)
            counts = learning != NOTHING and learning != COMBINER and goal[1, start + i] > 0.0
            scratch.weights[i] = relative_weight(coding, abs(goal[1, start + i]), counts)
            if counts:
                observe_row(rows, start + i, coding.statistics, coding.horizon, scratch.weights[i])
                mark_seen(coding.seen, rows, start + i)
                if gets_column:
                    break  # the next row is transformed by it
        if not reused:
            _featurize(handle, scratch, size)
        for i in range(size):
            learned = learning != NOTHING and learning != COMBINER and goal[1, start + i] > 0.0
            if not reused:
                fill_columns(features.sections, scratch, np.int64(i), learned, phi)
            if learning == COMBINER and goal[1, start + i] > 0.0:
                _compare(handle, stale, scratch, phi, np.int64(i), goal[0, start + i])
                continue
            if learning != NOTHING and goal[1, start + i] < 0.0:
                _learn_again(handle, stale, rarely, scratch, phi, np.int64(i), goal[0, start + i])
                continue
            if learned and learning != EXPERTS and is_drawn(rarely, coding.counts[EVENTS]):
                reused = False
                _answer(stale, np.int64(MEAN), phi, np.int64(i), scratch, residual)
                drawn = scratch.weights[i] * (rarely / RARELY)  # if more are drawn, each counts less
                _adapt(stale, stale, scratch, residual, goal[0, start + i], drawn)
            prediction = out[start + i] if out.shape[0] > 0 else residual
            if not reused:
                labels = np.int64(MEAN) if late == MEAN else np.int64(NOW)
                _answer(handle, labels, phi, np.int64(i), scratch, prediction)
            target, weight = goal[0, start + i], scratch.weights[i]
            if learned:
                actual, predicted = target, 0.0 if coding.classes else prediction[0]
                target = limit(handle.combiner, coding, prediction, actual)
                follow_gaps(features.sections, rows, start + i, scratch, i)
                if is_due(features.sections, coding.counts[EVENTS], widths[i]):
                    _take_gradients(handle, scratch, spare, i, prediction, weight)
                _take_test(handle, handle.exchanges, buffers, i, prediction, target, weight)
                if late == HELD:
                    prediction = residual
                    _copy_outputs(asked, scratch.outputs)
                    combine(before.combiner, coding, scratch.outputs, scratch.working, prediction)
                if learning != EXPERTS:
                    _adapt(handle, before if late == HELD else handle, scratch, prediction, actual, weight)
                if late == HELD:
                    recall_columns(features.sections, before.coding.memory, np.int64(NOW), phi, np.int64(i))
                    evaluate_all(handle.groups, 0, phi, np.int64(i), scratch.outputs)
                if is_learned(coding, target):
                    noted = target, goal[1, start + i], predicted, 0.0 if coding.classes else actual
                    sample_event(features.sections, rows, start + i, phi, i, coding.counts[EVENTS], noted)
                _learn(handle, scratch, phi, np.int64(i), target, weight, learning == EXPERTS)
        start += size
    return OVERFLOWED if features.counts[1] > 0 else DONE


@njit(**CALLED)
def _featurize(handle, scratch, size):
    """Fill the first ``size`` rows of ``raw`` with the features of rows of scaled inputs."""
    keys, widths = scratch.keys[:size], scratch.counts[:size]
    featurize(handle.source, handle.features, scratch.inputs, keys, widths, AMPLITUDE, scratch.raw)


@njit(**CALLED)
def _answer(handle, when, phi, i, scratch, out):
    """Predict row ``i`` of ``phi``, with the labels that have arrived ``when``, into ``out``."""
    coding = handle.coding
    recall_columns(handle.features.sections, coding.memory, when, phi, i)
    evaluate_all(handle.groups, 0, phi, i, scratch.outputs)
    combine(handle.combiner, coding, scratch.outputs, scratch.working, out)


@njit(**CALLED)
def _adapt(handle, before, scratch, prediction, target, weight):
    """Let the combiner learn from outputs that were combined to ``prediction``."""
    combiner, earlier, outputs = handle.combiner, before.combiner, scratch.outputs
    adapt(combiner, earlier, handle.coding, outputs, scratch.working, prediction, (target, weight))


@njit(**CALLED)
def _compare(handle, stale, scratch, phi, i, target):
    """Let both combiners learn row ``i``, which no expert has learned."""
    weight, prediction = scratch.weights[i], scratch.residual
    _answer(handle, np.int64(MEAN), phi, i, scratch, prediction)
    _adapt(handle, handle, scratch, prediction, target, weight)
    combine(stale.combiner, handle.coding, scratch.outputs, scratch.working, prediction)
    _adapt(stale, stale, scratch, prediction, target, weight)


@njit(**CALLED)
def _learn(handle, scratch, phi, i, target, weight, again):
    """Let relevance and the experts learn row ``i``, ``again`` or for the first time."""
    coding = handle.coding
    if is_learned(coding, target):
        aim, known = aim_of(coding, target), outputs_after(coding, target)
        _take_products(handle, scratch, i, aim, weight)
        observation = Observation(phi, i, scratch.outputs, aim, known, weight, scratch.residual, again)
        step_all(handle.groups, 0, observation)
        remember(coding.memory, coding.arrived, aim, coding.classes)
    observe_target(coding, target, weight)


@njit(**CALLED)
def _learn_again(handle, stale, rarely, scratch, phi, i, target):
    """Let the experts learn row ``i``, an earlier event, and rarely the combiner of stale ones."""
    coding, prediction, weight = handle.coding, scratch.residual, scratch.weights[i]
    _answer(handle, np.int64(MEAN), phi, i, scratch, prediction)
    within = within_limits(handle.combiner, coding, prediction, target)
    if is_drawn(rarely, coding.counts[EVENTS]):
        combine(stale.combiner, coding, scratch.outputs, scratch.working, prediction)
        _adapt(stale, stale, scratch, prediction, target, -weight * (rarely / RARELY))
    if is_learned(coding, within):
        aim, known = aim_of(coding, within), outputs_after(coding, within)
        observation = Observation(phi, i, scratch.outputs, aim, known, weight, scratch.residual, True)
        step_all(handle.groups, 0, observation)


@njit(**CALLED)
def _take_products(handle, scratch, i, aim, weight):
    """Let relevance learn how the target of row ``i`` depends on each pair of inputs."""
    coding = handle.coding
    output, value = (int(aim), 1.0) if coding.classes else (0, aim)
    add_products(handle.features.sections, scratch, i, coding.counts[EVENTS], output, value, weight)


@njit(**CALLED)
def _evaluate_changed(handle, spare):
    """Fill the outputs of ``spare`` with those of all experts for its inputs, which are not learned."""
    sections, row = handle.features.sections, np.int64(0)
    transform_row(sections, spare, row)
    _featurize(handle, spare, np.int64(1))
    fill_columns(sections, spare, row, np.bool_(False), spare.columns)
    recall_columns(sections, handle.coding.memory, np.int64(NOW), spare.columns, row)
    evaluate_all(handle.groups, 0, spare.columns, row, spare.outputs)


@njit(**CALLED)
def _take_gradients(handle, scratch, spare, i, prediction, weight):
    """Let relevance learn how ``prediction``, that of row ``i``, changes with every input.

    Experts whose outputs follow single events, and not the target, keep theirs.
    """
    coding, features = handle.coding, handle.features
    inputs, count, unit = scratch.inputs, scratch.counts[i], scratch.units[i]
    kinds, _, w = inputs.shape
    most = prediction.shape[0]
    slopes = np.zeros((count, most))
    changed, keys, slots, out = spare.inputs, spare.keys, spare.slots, spare.residual
    spare.counts[0], spare.units[0] = count, unit
    for m in range(w):
        keys[0, m], slots[0, m] = scratch.keys[i, m], scratch.slots[i, m]
        spare.codes[0, m], spare.wide[0, m] = scratch.codes[i, m], scratch.wide[i, m]
    families = coding.exponents.shape[0]
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
        spare.wide[0, j] = scratch.wide[i, j] + np.float32(step * unit)
        _evaluate_changed(handle, spare)
        spare.wide[0, j] = scratch.wide[i, j]
        keep_all(handle.groups, 0, scratch.outputs, spare.outputs)
        combine(handle.combiner, coding, spare.outputs, spare.working, out)
        for k in range(most):
            slopes[j, k] = (aim_of(coding, out[k]) - aim_of(coding, prediction[k])) / step
    add_gradients(features.sections, slopes, spare, 0, weight)


@njit(**CALLED)
def _take_test(handle, exchanges, buffers, i, prediction, target, weight):
    """Let relevance test whether a field of row ``i`` helps to predict its target, if a test is due."""
    if exchanges is not None and handle.features.sections.learned:
        _test_field(handle, exchanges, buffers, i, prediction, target, weight)


@njit(**CALLED)
def _test_field(handle, exchanges, buffers, i, prediction, target, weight):
    """Test the field whose turn it is, and put the event into the pool if that is due."""
    scratch, spare = buffers.value
    coding, count = handle.coding, scratch.counts[i]
    events, families = coding.counts[EVENTS], coding.exponents.shape[0]
    j = drawn(events, count)
    if j >= 0 and is_learned(coding, target) and (not coding.classes or target < coding.counts[KNOWN]):
        slots, out = spare.slots, spare.residual
        unit = np.empty(families)
        for k in range(families):
            unit[k] = scale_of(count, coding.exponents[k])
        for m in range(scratch.inputs.shape[2]):
            slots[0, m] = scratch.slots[i, m]
        spare.counts[0], spare.units[0] = (
            exchange_field(exchanges, scratch, i, j, events, unit, spare),
            unit[0],
        )
        squares, products, errors = 0.0, 0.0, 0.0
        moved = spare.counts[0] >= 0
        if moved:
            _evaluate_changed(handle, spare)
            combine(handle.combiner, coding, spare.outputs, spare.working, out)
            for k in range(prediction.shape[0]):
                d = aim_of(coding, out[k]) - aim_of(coding, prediction[k])
                wanted = aim_of(coding, target)
                if coding.classes:
                    wanted = 1.0 if k == int(target) else 0.0
                e = wanted - aim_of(coding, prediction[k])
                squares += d * d
                products += d * e
                errors += e * e
        tag = tag_of(scratch.slots[i, j], scratch.keys[i, j])
        count_test(exchanges, tag, squares, products, errors, weight, moved)
    pool_event(exchanges, scratch, i, events)


@njit(**INNER)
def _copy_outputs(outputs, copied):
    """Copy the outputs of a row, number by number, as in ``_take_gradients``."""
    for e in range(copied.shape[0]):
        for s in range(copied.shape[1]):
            for k in range(copied.shape[2]):
                copied[e, s, k] = outputs[e, s, k]


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
    prediction = np.empty(most)
    events = coding.counts[0]
    for i in range(rows):
        _copy_row(outputs, i, one)
        combine(combiner, coding, one, working, prediction)
        adapt(combiner, combiner, coding, one, working, prediction, (targets[i], weights[i]))
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
