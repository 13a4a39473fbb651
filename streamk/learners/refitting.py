"""Refitting of a merged learner whose parts have different relevance, on the events that the parts sampled.

Learners trained separately have different relevance, so their blocks under relevance hold different features,
and the information of least squares on them does not add up. The moments behind their relevance do add up, so
the blocks of the merged learner use the relevance of all events. Least squares on them are fitted to the
pooled samples (:mod:`streamk.features.sample`) twice: to the targets ``z``, and to the predictions of the
parts, for each event the mean over the parts that have not learned it. The fit used is the mixture of the two
with the least squared error::

    α = τ α_z + (1 − τ) α_p          τ minimises Σ w (z − τ φᵀα_z − (1 − τ) φᵀα_p)²

where ``φᵀα_z`` is the prediction of an event without its target (leave-one-out). The more events the
parts have learned for each sampled one, the smaller ``τ`` is. The combiner then learns its weights from
outputs of experts that have not learned the events; otherwise it would prefer experts that memorise events.
They are means over the parts, but those of neighbours are one part's: a merged learner has as many recent
events as a part, and the mean of several parts would be more accurate than its neighbours are.

If the resulting errors show that more features pay, the blocks grow and are fitted again.

Where the importance of fields differs, grids have other fields, too, and the same cell holds other events.
The merged learner has the grids and the tables (:mod:`streamk.experts.tables`) of the parts with the largest
share in relation to their error. Its tables learn the pooled events of the others one by one, and the
combiner learns from these events alone, with the outputs of the tables before each. If the pooled events are
an eighth of all, grids follow the pooled importance instead, and empty tables learn all of these events.

Rows are sorted by a hash of their content, so results depend on the order of the parts only through rounding.

:func:`answers` and :func:`columns_of` compute expert outputs, predictions and columns of rows outside the
loop over events, with the label memory as an argument.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from scipy.linalg import cho_factor, cho_solve

from streamk.arrays import Array, Floats, Places
from streamk.combining.combiner import combine
from streamk.compiling import ENTRY
from streamk.encoding.codec import Unit
from streamk.encoding.inputs import Inputs
from streamk.encoding.label_history import NUMBERS, SHARED
from streamk.encoding.rows import UNSCALED, EncodedRows, moved, slices, stack
from streamk.encoding.scaling import MEAN, spread
from streamk.experts.expert import Columns, Observation
from streamk.experts.least_squares import LeastSquares
from streamk.experts.tables import Tables
from streamk.features.columns.plain import LINEAR
from streamk.features.raw_values import scale_inputs
from streamk.features.relevance import BLOCKS, transform_row
from streamk.features.sample import EVENTS, Sampled
from streamk.features.sections import WHOLE
from streamk.features.sources import featurize, room_for_row
from streamk.features.spectra import AMPLITUDE
from streamk.handles import make_group, make_handle
from streamk.learners.kernel_loop import DONE, TOO_SMALL, adapt_many, evaluate_all, fill_columns, step_all
from streamk.threads import one_blas_thread
from streamk.vector.lanes import aligned

_ROWS = 256  # whose columns are in memory at once, where only outputs are returned


def answers(model: Any, rows: EncodedRows, labels: Floats) -> tuple[Floats, Array]:
    """Return the outputs ``(E, 2, n, K)`` of all experts for rows, and the predictions ``(n, K)``.

    The learner has sections; ``labels`` is the label memory of each row.
    """
    out = np.zeros((len(labels), model._outputs))
    outputs = [
        _fill(model, rows.select(part), labels[part], out[part])[1] for part in slices(len(out), _ROWS)
    ]
    return np.concatenate(outputs, axis=2), out


def columns_of(model: Any, rows: EncodedRows, labels: Floats) -> Floats:
    """Return the columns of rows ``(n, columns)``."""
    return _fill(model, rows, labels, np.zeros((len(labels), model._outputs)))[0]


def _fill(model: Any, rows: EncodedRows, labels: Floats, out: Array) -> tuple[Floats, Floats]:
    e = model._map
    phi: Floats = aligned(np.zeros((len(labels), e.columns), dtype=np.float32))
    outputs: Floats = np.zeros((len(model._experts), 2, *out.shape), dtype=np.float32)
    labels = np.ascontiguousarray(labels)
    while True:
        handles = model._handles_of(e)
        scratch = handles.scratch.arrays(1, rows.values.shape[1])
        code = _answer_rows(handles.parameters, scratch, rows, labels, phi, outputs, out)
        if code == DONE:
            break
        e.make_room(TOO_SMALL - code)
    return phi, outputs


@njit(**ENTRY)
def _answer_rows(handle, scratch, rows, labels, phi, outputs, out):
    """Fill ``phi``, ``outputs`` and ``out``; return as ``process_rows`` does."""
    coding, source, features = handle.coding, handle.source, handle.features
    sections = features.sections
    room = room_for_row(source, rows.keys)
    if room > features.frequencies.shape[0]:
        return TOO_SMALL - room
    row = np.int64(0)
    for i in range(out.shape[0]):
        scale_inputs(coding, rows, i, scratch, row)
        transform_row(sections, scratch, row)
        featurize(source, features, scratch.inputs, scratch.keys, scratch.counts, AMPLITUDE, scratch.raw)
        fill_columns(sections, scratch, row, np.bool_(False), phi[i : i + 1])
        for p in range(sections.starts.shape[0]):
            for c in range(labels.shape[1]):
                phi[i, sections.starts[p] + LINEAR + c] = labels[i, c]
        evaluate_all(handle.groups, 0, phi, np.int64(i), scratch.outputs)
        for e in range(outputs.shape[0]):
            for s in range(2):
                for k in range(out.shape[1]):
                    outputs[e, s, i, k] = scratch.outputs[e, s, k]
        combine(handle.combiner, coding, scratch.outputs, scratch.working, out[i])
    return DONE


_MOST = 4096  # events that blocks are fitted to
_FEW = 8  # events for each one of these, up to which tables start again


class Pool(NamedTuple):
    """Sampled events of all parts, in terms of the merged learner.

    ``source`` is the index of the part that each event comes from, ``weights`` the weights of events in a
    fit, with mean 1; ``wanted`` ``(n, K)`` the targets of the experts. ``new`` are the events of parts with
    other grids, all of them if there are none.
    """

    events: Sampled
    source: Places
    weights: Array
    wanted: Array
    new: Places


def pooled(merged: Any, parts: Sequence[Any], shares: Sequence[float], columns: Columns) -> Pool:
    """Return equally many sampled events of every part, those with the first hashes, sorted by hash."""
    sampled, sources, weights = [], [], []
    for k, (part, share, places) in enumerate(zip(parts, shares, columns, strict=True)):
        events = part._map.sections.sample.events()
        events = events.select(_order(events)[: _MOST // len(parts)])
        sampled.append(_as_ours(events, part, merged, places))
        sources.append(np.full(len(events), k))
        weights.append(np.full(len(events), share / max(len(events), 1)))
    whole = Sampled(
        stack([one.rows for one in sampled]),
        np.concatenate([one.labels for one in sampled]),
        np.concatenate([one.goal for one in sampled], axis=1),
        np.concatenate([one.outcomes for one in sampled], axis=1),
    )
    order = _order(whole)
    whole, source = whole.select(order), np.concatenate(sources)[order]
    heavy = np.concatenate(weights)[order] * whole.goal[1]
    alike = [merged._map.sections.has_grids_of(part._map.sections) for part in parts]
    new = np.flatnonzero(all(alike) | ~np.array(alike)[source])
    return Pool(whole, source, heavy / heavy.mean(), _wanted(merged, whole.goal[0]), new)


def share_sample(merged: Any, pool: Pool, shares: Sequence[float]) -> None:
    """Give the merged learner a sample with events of every part in proportion to its share."""
    chosen = [
        np.flatnonzero(pool.source == k)[: int(np.ceil(share * EVENTS))] for k, share in enumerate(shares)
    ]
    places = np.sort(np.concatenate(chosen))[:EVENTS]
    merged._map.sections.sample.put(pool.events.select(places))


def refit(merged: Any, parts: Sequence[Any], shares: Sequence[float], columns: Columns, pool: Pool) -> None:
    """Fit the blocks under relevance of a merged learner, and the weights of its experts."""
    sections = merged._map.sections
    whole = sum(share for part, share in zip(parts, shares, strict=True) if _better_kind(part) == WHOLE)
    sections.pool(whole >= 0.5, merged._combiner.least_error)
    of_parts, outputs = _predict_held_out(merged, parts, shares, columns, pool)
    if len(pool.new) < len(pool.source):
        if merged.events <= _FEW * len(pool.source):
            pool = _with_new_grids(merged, pool)
        _teach_tables(merged, pool, outputs)
    _fit(merged, pool, of_parts, outputs)
    if merged._grows():
        _fit(merged, pool, of_parts, outputs)


def _with_new_grids(merged: Any, pool: Pool) -> Pool:
    """Let grids follow the importance of fields of all parts; their empty tables have learned no event."""
    merged._map.sections.importance[:] = merged._map.sections.exchanges.importance()
    for expert in merged._experts:
        if type(expert) is Tables:
            expert.coefficients[:], expert.clock[:] = 0.0, 0.0
    return pool._replace(new=np.arange(len(pool.source)))


def _teach_tables(merged: Any, pool: Pool, outputs: Floats) -> None:
    """Let tables learn the new events; ``outputs`` for these are those before each."""
    merged._map.renew()
    merged._renew_arguments()
    labels, before = pool.events.labels[pool.new], np.ascontiguousarray(outputs[:, :, pool.new])
    phi = columns_of(merged, pool.events.rows.select(pool.new), labels)
    aims = pool.events.goal[0] if merged.classifies else pool.wanted[:, 0]
    for e, expert in enumerate(merged._experts):
        if type(expert) is Tables:  # cells of single values are the same in all parts
            groups = (make_group(expert.record, [make_handle(expert.record)]),)
            _learn_rows(groups, e, 1 + len(expert.names), phi, aims[pool.new], pool.weights[pool.new], before)
    outputs[:, :, pool.new] = before


@njit(**ENTRY)
def _learn_rows(groups, e, count, phi, aims, weights, filled):
    """Let ``count`` experts from number ``e`` on learn rows; fill ``filled`` ``(E, 2, n, K)``."""
    experts, sets, rows, known = filled.shape
    outputs, residual = np.zeros((experts, sets, known), dtype=np.float32), np.empty(known)
    for i in range(rows):
        evaluate_all(groups, e, phi, i, outputs)
        for j in range(e, e + count):
            for s in range(sets):
                for k in range(known):
                    filled[j, s, i, k] = outputs[j, s, k]
        step_all(groups, e, Observation(phi, i, outputs, aims[i], known, weights[i], residual, False))


def _fit(merged: Any, pool: Pool, of_parts: Array, outputs: Floats) -> None:
    """Fit both blocks to the targets and to the predictions ``of_parts``, and then the combiner.

    ``outputs`` are those of experts that have not learned the events; the outputs of experts on the blocks
    are replaced.
    """
    sections, combiner = merged._map.sections, merged._combiner
    for block in range(BLOCKS):
        for expert in merged._experts:
            expert.forget(sections.columns_of_part(1 + block))
    merged._map.renew()
    merged._renew_arguments()
    phi = columns_of(merged, pool.events.rows, pool.events.labels)
    for block in range(BLOCKS):
        part = sections.columns_of_part(1 + block)
        mine = [k for k, expert in enumerate(merged._experts) if expert.within(part)]
        least = next(k for k in mine if isinstance(merged._experts[k], LeastSquares))
        expert = merged._experts[least]
        held_out = _fit_least_squares(expert, phi[:, part], pool, of_parts, merged.events)
        correction = held_out - phi[:, part].astype(np.float64) @ expert.coefficients[0].T.astype(np.float64)
        outputs[least] = held_out
        for k in mine:
            other = merged._experts[k]
            if k != least:  # projections start with the coefficients of least squares
                start = other.first - part.start
                columns = slice(start, start + other.coefficients.shape[2])
                other.coefficients[:] = expert.coefficients[:, :, columns]
                outputs[k] = phi[:, part][:, columns] @ other.coefficients[0].T + correction
    combiner.restart()
    targets, weights = pool.events.goal[0][pool.new], pool.weights[pool.new]
    held_out = np.ascontiguousarray(outputs[:, :, pool.new])
    adapt_many(*merged._combining(merged._map), held_out, targets, weights, np.empty(len(pool.new)))
    if combiner.intervals is not None:
        combiner.level_shift.state[:] = 0.0
    merged._renew_arguments()


def _fit_least_squares(expert: LeastSquares, phi: Floats, pool: Pool, of_parts: Array, events: int) -> Array:
    """Fit an expert; return its predictions ``(n, K)``, each without the target of its event."""
    joined = np.flatnonzero(phi.any(axis=0))
    rows = phi[:, joined].astype(np.float64)
    weighted, penalty = rows * pool.weights[:, None], expert.penalty * np.eye(len(joined))
    with one_blas_thread():
        gram = rows.T @ weighted
        factor = cho_factor(gram + penalty, lower=True)
        goals = np.concatenate([pool.wanted, of_parts], axis=1)
        solutions = cho_solve(factor, weighted.T @ goals)
        leverage = np.minimum((weighted * cho_solve(factor, rows.T).T).sum(axis=1), 0.99)
        by_targets, by_parts = np.split(rows @ solutions, 2, axis=1)
    by_targets = pool.wanted - (pool.wanted - by_targets) / (1.0 - leverage[:, None])
    difference = by_targets - by_parts
    square = float((pool.weights @ difference**2).sum())
    tau = 0.0
    if square > 0.0:
        product = float((pool.weights @ ((pool.wanted - by_parts) * difference)).sum())
        tau = float(np.clip(product / square, 0.0, 1.0))
    from_targets, from_parts = np.split(solutions, 2, axis=1)
    weights = (tau * from_targets + (1.0 - tau) * from_parts).T
    counted = tau * len(phi) + (1.0 - tau) * max(events, len(phi))
    expert.become(joined, counted / len(phi) * gram + penalty, weights, counted)
    return np.asarray(by_parts + tau * difference)


def _predict_held_out(
    merged: Any, parts: Sequence[Any], shares: Sequence[float], columns: Columns, pool: Pool
) -> tuple[Array, Floats]:
    """Return predictions and outputs of experts, for each event the mean over the parts without it.

    Outputs of neighbours are those of the first of these parts.
    """
    total, weight = np.zeros_like(pool.wanted), np.zeros((len(pool.source), 1))
    outputs, weighed = np.zeros((len(merged._experts), 2, *total.shape)), len(merged._combiner.losses)
    nearby = [e for e, expert in enumerate(merged._experts) if expert.follows_events]
    of_one_part = np.zeros((len(nearby), 2, *total.shape))
    for k, (part, share, places) in enumerate(zip(parts, shares, columns, strict=True)):
        others, (codes, unit) = np.flatnonzero(pool.source != k), places
        events = _as_theirs(pool.events.select(others), part, merged, places)
        unscaled, predicted = answers(part, events.rows, events.labels)
        cells = others[:, None], np.array(codes)
        scaled = unscaled[..., : len(codes)] * unit.scale + unit.offset
        scaled[weighed:] = unscaled[weighed:, ..., : len(codes)]  # the size of errors, which is relative
        outputs[:, :, *cells] += share * scaled
        first = weight[others, 0] == 0.0
        of_one_part[:, :, others[first, None], np.array(codes)] = scaled[nearby][:, :, first]
        total[cells] += share * (
            predicted[:, : len(codes)] if merged.classifies else _standard(merged, predicted)
        )
        weight[others] += share
    outputs /= weight
    outputs[nearby] = of_one_part
    return total / weight, outputs.astype(np.float32)


def _wanted(merged: Any, targets: Array) -> Array:
    if not merged.classifies:
        return _standard(merged, targets[:, None])
    return np.asarray(np.arange(merged._outputs) == targets[:, None], dtype=np.float64)


def _standard(merged: Any, values: Array) -> Array:
    unit, clip = merged._codec.target, merged._codec.reach
    return np.asarray(np.clip((values - unit[0, MEAN]) / (spread(unit, 0) or 1.0), -clip, clip))


def _better_kind(part: Any) -> int:
    """Return the kind of the block under relevance with the smaller error."""
    kinds = part._map.sections.kinds
    return int(kinds[int(np.argmin(part._relevant_losses()))])


def _order(events: Sampled) -> Places:
    """Return the order of events by a hash of their content."""
    rows = events.rows
    keys = np.broadcast_to(rows.keys, rows.values.shape)
    hashes = [
        blake2b(key.tobytes() + value.tobytes() + goal.tobytes(), digest_size=8).digest()
        for key, value, goal in zip(keys, rows.values, events.goal.T.copy(), strict=True)
    ]
    return np.argsort(np.array(hashes, dtype="S8"), kind="stable")


def _as_ours(events: Sampled, part: Any, merged: Any, places: tuple[list[int], Unit]) -> Sampled:
    """Return events of a part in terms of the merged learner."""
    codes, unit = places
    rows = _in_slots(events.rows, part._codec.inputs, merged._codec.inputs)
    goal, labels = events.goal.copy(), np.zeros_like(events.labels)
    if merged.classifies:
        goal[0] = np.array(codes, dtype=np.float64)[events.goal[0].astype(np.intp)]
        for k, code in enumerate(codes[:SHARED]):
            if code < SHARED:
                labels[:, [code, SHARED + code]] = events.labels[:, [k, SHARED + k]]
    elif len(merged._codec.memory):
        used, constant = slice(0, NUMBERS), unit.offset * merged._map.sections.amplitude
        labels[:, used] = unit.scale * events.labels[:, used] + constant
    return Sampled(rows, labels, goal, events.outcomes)


def _as_theirs(events: Sampled, part: Any, merged: Any, places: tuple[list[int], Unit]) -> Sampled:
    """Return events of the merged learner in terms of a part."""
    codes, unit = places
    rows = _in_slots(events.rows, merged._codec.inputs, part._codec.inputs)
    labels = np.zeros_like(events.labels)
    if merged.classifies:
        for k, code in enumerate(codes[:SHARED]):
            if code < SHARED:
                labels[:, [k, SHARED + k]] = events.labels[:, [code, SHARED + code]]
    elif len(merged._codec.memory) and unit.scale:
        used, constant = slice(0, NUMBERS), unit.offset * merged._map.sections.amplitude
        labels[:, used] = (events.labels[:, used] - constant) / unit.scale
    return Sampled(rows, labels, events.goal, events.outcomes)


def _in_slots(rows: EncodedRows, before: Inputs, after: Inputs) -> EncodedRows:
    """Return rows in the slots and transforms of other inputs; numbers without a slot there are absent."""
    places = np.full(max(before.numbers.values(), default=-1) + 1, UNSCALED, dtype=np.int32)
    for name, slot in before.numbers.items():
        places[slot] = after.numbers.get(name, UNSCALED)
    return after.transform(moved(before.restore_values(rows), places))
