"""Heavy tails: detection in the sampled events, transforms of inputs, limits of errors.

After 256 events, and again after 1,000, the sample (:mod:`streamk.features.sample`) still holds all events.
Inputs with heavy tails in it get a transform (:mod:`streamk.encoding.transforms`), and the learner restarts:
it learns the sampled events once more, transformed. Transforms are fixed after 1,000 events; inputs whose
tails become heavy later get none.

For numbers, the sampled predictions are checked whenever blocks of features are due (after 1,000 events,
2,000, 4,000, …). If errors have heavy tails on *both* sides, the learner limits errors from then on
(:mod:`streamk.combining.stacking`), which hardly moves the mean. Where only one tail is heavy, as for amounts
of money, a limit would move the mean, so there is none. If limits begin after 1,000 events, the learner also
restarts, with targets clipped to twice the interquartile range beyond the quartiles: a single target may have
distorted the scale of all.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from streamk.arrays import Array
from streamk.encoding.codec import EVENTS, KNOWN
from streamk.encoding.rows import EncodedRows
from streamk.encoding.scaling import CLIP, GIVEN, HELD
from streamk.encoding.transforms import LEAST, Transform, has_heavy_tails
from streamk.features.sample import EVENTS as MOST
from streamk.features.sample import Sampled
from streamk.threads import one_blas_thread

_Kernel = Any  # a learner of :mod:`streamk.learners.kernel`

EARLY = 256  # events after which inputs are checked first
_GROUP = 64  # events with similar predictions
_HEAVY, _LIGHT = 7.0, 5.0  # of a tail: its 1 % quantile in quartiles; 3.4 for a normal variable
_ENDS = 0.01, 0.5, 0.99
_MATTERS = 0.25  # 1 % quantile of errors relative to that of predictions
_SMALL = 0.05  # added to absolute errors before the logarithm
_PENALTY = 10.0
_FENCE = 2.0  # ranges of the middle half
WHOLE = 0.9  # of the events, that the sample must hold


def look(learner: _Kernel) -> None:
    """Check the tails of a default learner's sampled events; set transforms and limits of errors."""
    sections = learner._map.sections
    if sections is None or not sections.learned or len(sections.sample) < LEAST:
        return
    sampled, inputs, combiner = sections.sample.events(), learner._codec.inputs, learner._combiner
    all_there = WHOLE * learner.events <= len(sampled) < MOST
    rows = inputs.restore_values(sampled.rows)
    transforms = _transforms_for(rows, learner) if all_there else {}
    robust = combiner.is_robust
    if not learner.classifies and learner.events > EARLY:
        late = sampled.select(np.arange(len(sampled) // 2 if all_there else 0, len(sampled)))
        robust = errors_are_heavy(late, _LIGHT if robust else _HEAVY)
    begins = robust and not combiner.is_robust
    if transforms or (begins and all_there):
        goal = _within_fences(sampled.goal) if begins else sampled.goal
        inputs.set_transforms(inputs.transforms | transforms)
        _restart(learner, rows, goal)
    learner._combiner.be_robust(robust)


def restarted_since(learner: _Kernel, base: _Kernel) -> bool:
    """Return whether a learner that continues from ``base`` has restarted since."""
    now, before = learner._codec.inputs.transforms, base._codec.inputs.transforms
    if now.keys() != before.keys() or not all(now[name].is_same(before[name]) for name in now):
        return True
    if learner.classifies or base.events >= MOST or learner._map.sections is None:
        return False
    return bool(learner._combiner.is_robust and not base._combiner.is_robust)


def errors_are_heavy(sampled: Sampled, least: float) -> bool:
    """Return whether errors have heavy tails on both sides that the inputs do not explain.

    On both sides, the 1 % quantile of scaled errors must be more than ``least`` times as far from the median
    as the quartile, and the 1 % quantile of errors more than a quarter as far from it as that of predictions:
    smaller errors do little harm.
    """
    predicted, actual = sampled.outcomes
    errors = actual - predicted
    low, middle, high = np.quantile(errors, _ENDS)
    lowest, median, highest = np.quantile(predicted, _ENDS)
    matters = high - middle > _MATTERS * (highest - median) and middle - low > _MATTERS * (median - lowest)
    scaled = _scaled(errors, predicted, _sizes(sampled.rows))
    lowest, low, middle, high, highest = np.quantile(scaled, (0.01, 0.25, 0.5, 0.75, 0.99))
    above, below = highest - middle > least * (high - middle), middle - lowest > least * (middle - low)
    return bool(matters and low < middle < high and above and below)


def _scaled(errors: Array, predicted: Array, sizes: Array) -> Array:
    """Return errors divided by their expected size for such predictions and such ``sizes`` of inputs.

    Events are grouped by prediction, and the errors of each group are divided by their median absolute
    deviation. All are then divided by the exponential of a ridge regression of their logarithm on the sizes.
    """
    scaled = errors.copy()
    for group in np.array_split(np.argsort(predicted, kind="stable"), max(2, len(predicted) // _GROUP)):
        deviations = errors[group] - np.median(errors[group])
        scaled[group] = deviations / (np.median(abs(deviations)) or 1.0)
    logarithms = np.log(abs(scaled) + _SMALL)
    logarithms -= logarithms.mean()
    with one_blas_thread():
        gram = sizes.T @ sizes + _PENALTY * np.eye(sizes.shape[1])
        explained = sizes @ np.linalg.solve(gram, sizes.T @ logarithms)
    return np.asarray(scaled / np.exp(explained))


def _sizes(rows: EncodedRows) -> Array:
    """Return distances of numbers from their means and the squares of these, standardised ``(n, 2 d)``."""
    slots = np.broadcast_to(rows.slots, rows.values.shape)
    columns = [np.zeros((len(slots), 0))]
    for slot in np.unique(slots[slots >= 0]):
        there = slots == slot
        values = rows.values[there]
        distances = np.zeros(len(slots))
        deviations = values - values.mean()
        distances[there.any(axis=1)] = np.minimum(abs(deviations) / (deviations.std() or 1.0), CLIP)
        columns.append(np.column_stack([distances, distances**2]))
    sizes = np.concatenate(columns, axis=1)
    return np.asarray(sizes - sizes.mean(axis=0))


def _transforms_for(rows: EncodedRows, learner: _Kernel) -> dict[str, Transform]:
    """Return transforms of numbers with heavy tails, and new fits of transforms that exist."""
    inputs, transforms = learner._codec.inputs, {}
    slots = np.broadcast_to(rows.slots, rows.values.shape)
    counts = np.bincount(slots[slots >= 0], minlength=len(inputs.numbers))
    for name, slot in inputs.numbers.items():
        if counts[slot] < LEAST or inputs.statistics[slot, HELD] == GIVEN:
            continue
        values = rows.values[slots == slot]
        if name in inputs.transforms or has_heavy_tails(values):
            transforms[name] = Transform.fit(values)
    return transforms


def _within_fences(goal: Array) -> Array:
    """Return goals with targets clipped to the fences of Tukey (1977)."""
    low, high = np.quantile(goal[0], (0.25, 0.75))
    margin = _FENCE * (high - low)
    return np.array([np.clip(goal[0], low - margin, high + margin), goal[1]])


def _restart(learner: _Kernel, rows: EncodedRows, goal: Array) -> None:
    """Reset all but names, transforms, labels and seed, and learn the events."""
    made, codec = learner._map, learner._codec
    fresh = type(learner)(**learner._get_params())
    fresh._looked = learner._looked
    inputs, again = codec.inputs, fresh._codec
    inputs.statistics[inputs.statistics[:, HELD] != GIVEN] = 0.0
    if codec.target[0, HELD] == GIVEN:
        again.target[:] = codec.target
    again.inputs, again.labels, inputs.waiting = inputs, codec.labels, fresh._pending
    counts = codec.counts.copy()
    again.counts[2] = counts[2]
    fresh._make_map(made.seed, made.slots)
    fresh._grow(learner._outputs, made.features)
    fresh._learn_rows(rows, goal, np.arange(goal.shape[1]), np.zeros((0, learner._outputs)))
    again.counts[[EVENTS, KNOWN]] = counts[[EVENTS, KNOWN]]
    codec.__dict__.update(again.__dict__)
    learner._waiting.exchange(list(range(len(learner._experts))), learner.events)
    stays = {
        name: learner.__dict__[name] for name in ("_codec", "_rehearsal", "_shuffled", "_level", "_waiting")
    }
    learner.__dict__.update({**fresh.__dict__, **stays})
    inputs.samples = learner._map.sections.sample, learner._rehearsal, learner._shuffled
    learner._follow_lateness()
    learner._stale_experts.begin_parts()
