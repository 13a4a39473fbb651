"""Stacked experts: the combiner with a weight for each expert, learned at several rates of forgetting.

For classes, ``p = softmax(Σ_e w_e s_e)``, where ``s_e`` are the outputs of expert ``e`` clipped to ±4; the
weights also calibrate. Some experts have a second output, the *saturated* one, with a separate weight::

    2 softmax(4 s_e) − 1                    (of several experts together: its mean over them)

The weight of an output decides how much is certain far from a boundary, and the saturated output how much is
certain right behind it. Where some labels are wrong, nothing is more certain far away, and without it the
other experts would have to say so, which bends the boundary (5 % wrong labels, two classes: log loss .26 with
``s_e`` alone, .23 with both). Weights follow Newton's method on the log loss, with ``s̄ = Σ_c p_c s_c``::

    A ← λA + (1 − λ) 10 I + Σ_c p_c s_c s_cᵀ − s̄ s̄ᵀ          w ← w − A⁻¹ (s̄ − s_y)

For numbers, ``f = Σ_e w_e s_e`` of standardised outputs, by the same method with ``A ← … + s sᵀ`` and the
gradient ``s (f − z)``: recursive least squares.

Initially, ``A = 10 I`` and weights are equal. There are three such *sets* of weights, with ``λ`` = 1, 0.9995
and 0.99. For classes, the share of a set follows Bayes' rule: it is multiplied by the probability that the
set gave to the label. For numbers, sets, single experts and the mean target have shares, multiplied by::

    exp(−½ (((f + g)/2 − z)² − (f − z)²)/mean (f − z)²)

where ``f`` is the mean of all predictions, and ``g`` is one of them: what counts is what it adds to the
others. The quotient is clipped to between −1 and 25, so that one unusual target hardly raises a share. After
every event the shares move by a thousandth towards the initial ones, so that none vanishes (Herbster and
Warmuth 1998). These are equal, but the mean target has a fifth. In ``f``, a share ``s``
weighs ``s²/(s + s*/200)``, where ``s*`` is the largest: otherwise twenty useless experts with a thousandth
each would decide small predictions. The squared error of every expert is tracked, too.

An event of weight ``w`` adds ``w`` times to ``A`` and to the gradient, and ``λ`` becomes ``λʷ``. Shares move
by the weight in units of the mean weight.

Experts and weights learn a target as if it were at most 12 deviations from its prediction, so that a wrong
one does little harm, and large ones that inputs explain are learned in a few steps. Outputs are clipped to
±12 deviations, too, or to the farthest target so far while that makes the sum of recent squared errors
smaller: what no input explains should not be predicted. There, no event counts for more than one error of 12.

If errors have heavy tails on both sides (:mod:`streamk.learners.tails`), a target is learned as if it were at
most ``reach`` = 2 mean absolute errors off: the residuals of Huber (1964). Intervals learn the unchanged
targets, and none of events that experts have learned before, whose errors are smaller. From the eighth target
in a row that is farther off on the same side, targets are not limited so, since the level has shifted.

Where many labels come late at once, shares follow what is true of the last events, and seldom of the next
thousands. So the second set of numbers may become *patient*: it forgets nothing, and has no share. It learns
while ``patient``, and not from events that experts have learned before; of an error of more than three
deviations, it learns three. Where ``f`` is the prediction by shares and ``g`` that of the set, its share in
the combined one is ``α``, that of ``f + α (g − f)`` by least squares over all that it has learned
(:func:`streamk.combining.combiner.part_of`; 100 events are added that say 0.3). When experts start again, its
weights stay: it learns how good they are in the end.

If labels come ``D`` events late, they say less about the next event. Sets then remember ``D`` events more,
``λ = 1 − 1/(1/(1 − λ₀) + D)``, and shares move with the power ``1/√(1 + D)``.
"""

from __future__ import annotations

import math
from collections import namedtuple
from collections.abc import Iterator, Sequence
from typing import Self

import numpy as np
from numba import njit

from streamk.arrays import AnyArray, Array, Arrays
from streamk.combining.combiner import (
    COMPARED,
    PENALTY,
    PRODUCTS,
    SQUARES,
    Combiner,
    adapt,
    clipped,
    combine,
    limit,
    part_in,
    part_of,
    rate,
    relative,
    share,
    softmax,
    within_limits,
)
from streamk.combining.intervals import STEEPEST, Intervals, follow, spread_at
from streamk.combining.level_shift import LevelShift, is_away, is_shifted, last_target, watch
from streamk.compiling import CALLED, INNER
from streamk.dispatch import implements
from streamk.encoding.codec import EVENTS, KNOWN, aim_of, decode, is_learned, reach_of, unclipped
from streamk.encoding.rows import LARGEST
from streamk.encoding.scaling import WIDE_CLIP
from streamk.handles import Handle, make_handle
from streamk.state import MEAN, Field, Stateful
from streamk.vector.newton import SETS, add_products, by_set, fade, newton_steps, scratch_of, side_by_side

CLIP = 4.0  # of outputs
_STEEP = 4.0  # by which outputs are multiplied before they are saturated


StackedClasses = namedtuple(
    "StackedClasses", "forgetting weights curvature shares initial error losses pace penalty logits saturated"
)
SPANS = (math.inf, 2000.0, 100.0)  # events that a set remembers
assert len(SPANS) == SETS
_MEAN = 0.2  # initial share of the mean target
_MOST = 1e100
_ROUNDING = 1e-9  # of a trace, by which heavy events may move the smallest eigenvalue
_REACH = 2.0  # mean absolute errors
_SCALE = np.log(8.0) / STEEPEST  # of the output of the expert for the size of errors
_RATE = 0.5
_FEW = 1 / 200  # share, relative to the largest, that weighs half of itself
_REMEMBERED = 0.999  # of what far outputs have gained
_GAIN, _LOSS = 1.0, 25.0  # of one event, in mean squared errors
_ERROR = 0  # place in a running mean
_LIMIT, _RUN = 0, 1  # mean absolute errors; targets in a row, negative below


@njit(**INNER)
def _fill_scores(combiner, outputs, scores, row):
    """Fill ``scores`` ``(known, E + X)`` with clipped outputs of experts, and after them the saturated ones.

    ``row`` ``(known,)`` is scratch.
    """
    experts, known = outputs.shape[0], row.shape[0]
    scores[:, experts:] = 0.0
    for e in range(experts):
        for k in range(known):
            scores[k, e] = clipped(outputs, e, k, CLIP)
        used = False
        for x in range(combiner.saturated.shape[0]):
            used = used or combiner.saturated[x, e] > 0.0
        if used:
            for k in range(known):
                row[k] = _STEEP * scores[k, e]
            softmax(row)
            for x in range(combiner.saturated.shape[0]):
                for k in range(known):
                    scores[k, experts + x] += combiner.saturated[x, e] * (2.0 * row[k] - 1.0)


@njit(**INNER)
def _probabilities(combiner, s, scores, out):
    """Fill ``out`` ``(known,)`` with the class probabilities of set ``s`` of weights."""
    for k in range(scores.shape[0]):
        total = 0.0
        for e in range(scores.shape[1]):
            total += combiner.weights[s, e] * scores[k, e]
        out[k] = total
    softmax(out)


@implements(combine, StackedClasses)
def _combine_classes(combiner, coding, outputs, scratch, out):
    out[:] = 0.0
    known = int(coding.counts[KNOWN])
    scores, probabilities, row, _, _, _ = scratch.value
    _fill_scores(combiner, outputs, scores[:known], row[:known])
    for s in range(combiner.shares.shape[0] if known > 0 else 0):
        _probabilities(combiner, s, scores[:known], probabilities[s, :known])
        for k in range(known):
            out[k] += combiner.shares[s] * probabilities[s, k]


@implements(adapt, StackedClasses)
def _adapt_classes(combiner, earlier, coding, outputs, scratch, combined, goal):
    target, weight = goal
    known = int(coding.counts[KNOWN])
    if target < known and known > 1:
        _learn_class(combiner, outputs, scratch, known, int(target), abs(weight))


@njit(**INNER)
def _learn_class(combiner, outputs, scratch, known, y, weight):
    sets, experts = combiner.weights.shape
    scores, probabilities, row, slopes, deviations, factors = scratch.value
    scores, row = scores[:known], row[:known]
    total, moved = 0.0, rate(combiner.error, weight)
    pace = combiner.pace * relative(combiner.error, weight)
    for e in range(experts):
        loss = 0.0
        for k in range(known):
            row[k] = scores[k, e] if e < outputs.shape[0] else 0.5 * scores[k, e] + 0.5
        if combiner.logits[e]:
            softmax(row)
        for k in range(known):
            loss += (row[k] - (1.0 if k == y else 0.0)) ** 2
        combiner.losses[e] += moved * (loss - combiner.losses[e])
    for s in range(sets):
        row = probabilities[s, :known]
        combiner.shares[s] *= max(row[y], 1e-12) ** pace
        if combiner.pace < 1.0:  # labels come late, and these are probabilities by earlier weights
            _probabilities(combiner, s, scores, row)
        total += combiner.shares[s]
        for e in range(experts):
            mean = 0.0
            for k in range(known):
                mean += row[k] * scores[k, e]
            slopes[e, s] = mean
    fade(combiner.curvature, combiner.forgetting, combiner.penalty, weight)
    for k in range(known):
        parts = weight * probabilities[0, k], weight * probabilities[1, k], weight * probabilities[2, k]
        add_products(combiner.curvature, scores, k, slopes, parts, deviations)
    for e in range(experts):
        for s in range(sets):
            slopes[e, s] = weight * (slopes[e, s] - scores[y, e])
    newton_steps(combiner.weights, combiner.curvature, slopes, factors)
    share(combiner.shares, combiner.initial, total, weight)


_IN_A_ROW = 8.0
_PATIENT = 1  # set
_BY_SHARES = -2  # place among predictions
_FIRST_PART, _BEFORE = 0.3, 100.0  # of the patient set, and events that say so
_FARTHEST = 3.0  # error of which the patient set learns, in deviations


StackedNumbers = namedtuple(
    "StackedNumbers",
    "forgetting weights curvature shares initial error losses intervals level_shift reach evidence pace "
    "penalty compared patient",
)


@njit(**INNER)
def _number(combiner, s, outputs, clip):
    """Return the prediction of set ``s`` of weights, within ±``clip`` as all outputs.

    Indices after the last set are single experts, and the last index is the mean target, 0.
    """
    sets, experts = combiner.weights.shape
    if s >= sets + experts:
        return 0.0
    if s >= sets:
        return clipped(outputs, s - sets, 0, clip)
    total = 0.0
    for e in range(experts):
        total += combiner.weights[s, e] * clipped(outputs, e, 0, clip)
    return min(max(total, -clip), clip)


@njit(**INNER)
def _fill_numbers(combiner, outputs, clip, numbers):
    """Fill ``numbers`` with a prediction for each share, their mean by shares, and the combined one."""
    for s in range(combiner.shares.shape[0]):
        numbers[s] = _number(combiner, s, outputs, clip)
    numbers[_BY_SHARES] = numbers[-1] = _mean_by_shares(combiner.shares, numbers, 0.0)
    if combiner.compared.shape[0] > 0 and combiner.compared[COMPARED] > 0.0:
        part = part_in(combiner.compared, _FIRST_PART, _BEFORE)
        numbers[-1] = _mean_by_shares(combiner.shares, numbers, part)


@njit(**INNER)
def _mean_by_shares(shares, numbers, part):
    """Return the mean of predictions; ``part`` of the whole is the share of the patient set."""
    largest, mean, total = max((1.0 - part) * shares.max(), part), 0.0, 0.0
    for s in range(shares.shape[0]):
        share = (1.0 - part) * shares[s] + (part if s == _PATIENT else 0.0)
        weight = share * share / (share + _FEW * largest)
        mean += weight * numbers[s]
        total += weight
    return mean / total


@njit(**INNER)
def _clip(combiner, coding):
    """Return how far outputs may be: farther than 12 deviations if errors have become smaller by that."""
    return reach_of(coding) if combiner.evidence[0] > 0.0 else WIDE_CLIP


@njit(**CALLED)
def _compare_clips(combiner, coding, outputs, aim):
    """Learn whether errors are smaller if outputs may be as far as the farthest target."""
    reach = reach_of(coding)
    if reach > WIDE_CLIP:
        near = far = 0.0
        for s in range(combiner.shares.shape[0]):
            near += combiner.shares[s] * _number(combiner, s, outputs, WIDE_CLIP)
            far += combiner.shares[s] * _number(combiner, s, outputs, reach)
        if near != far:
            gain = (near - aim) ** 2 - (far - aim) ** 2
            gain = min(max(gain, -(WIDE_CLIP**2)), WIDE_CLIP**2)
            combiner.evidence[0] = _REMEMBERED * combiner.evidence[0] + gain


@njit(**INNER)
def _error_scale(combiner, outputs):
    """Return the output of the expert for the size of errors, the one after those with weights, or 0."""
    experts = combiner.weights.shape[1]
    return clipped(outputs, experts, 0, _SCALE) if outputs.shape[0] > experts else 0.0


@njit(**CALLED)
def _limited(combiner, coding, predicted, target, reach):
    """Return a target as it is learned where ``predicted``, standardised, was predicted.

    ``reach`` is in mean absolute errors. If it is infinite, an outlier stays as it is, since it is not
    learned; and after a target out of range, which may begin a run, the mean takes the prediction's place.
    """
    if reach != np.inf:
        farthest = reach * spread_at(combiner.intervals, predicted)
    elif is_learned(coding, target):
        farthest = WIDE_CLIP
        predicted = 0.0 if is_away(combiner.level_shift) else predicted
    else:
        return target
    actual = unclipped(coding, target)
    limited = min(max(actual, predicted - farthest), predicted + farthest)
    return target if limited == actual else min(max(decode(coding, limited), -LARGEST), LARGEST)


@njit(**INNER)
def _reach(combiner):
    """Return how far off targets are learned; after a run of them on one side, the level has shifted."""
    return combiner.reach[_LIMIT] if abs(combiner.reach[_RUN]) < _IN_A_ROW else np.inf


@implements(within_limits, StackedNumbers)
def _within_limits(combiner, coding, combined, target):
    return _limited(combiner, coding, unclipped(coding, combined[0]), target, _reach(combiner))


@implements(limit, StackedNumbers)
def _limit(combiner, coding, combined, target):
    predicted, reach = unclipped(coding, combined[0]), combiner.reach
    limited = _limited(combiner, coding, predicted, target, reach[_LIMIT])
    if reach[_LIMIT] == np.inf:
        return limited
    side = np.sign(target - limited)
    reach[_RUN] = side + (reach[_RUN] if reach[_RUN] * side > 0.0 else 0.0)
    return _limited(combiner, coding, predicted, target, _reach(combiner))


@implements(combine, StackedNumbers)
def _combine_numbers(combiner, coding, outputs, scratch, out):
    numbers = scratch.value[0]
    _fill_numbers(combiner, outputs, _clip(combiner, coding), numbers)
    shifted = is_shifted(combiner.level_shift)
    out[0] = last_target(combiner.level_shift) if shifted else decode(coding, numbers[-1])
    if out.shape[0] > 1:  # for an interval
        out[1] = _error_scale(combiner, outputs)


@implements(adapt, StackedNumbers)
def _adapt_numbers(combiner, earlier, coding, outputs, scratch, combined, goal):
    target, weight = goal
    aim = aim_of(coding, target)
    prediction, size = scratch.value[0][-1], _error_scale(earlier, outputs)
    last, off = unclipped(coding, last_target(combiner.level_shift)), unclipped(coding, target)
    again = weight < 0.0
    if again:
        weight = -weight
    elif is_shifted(combiner.level_shift):
        follow(combiner.intervals, earlier.intervals, last, size, off, weight)
    else:
        follow(combiner.intervals, earlier.intervals, prediction, size, aim, weight)
    limited = _limited(combiner, coding, prediction, target, _reach(combiner))
    if combiner.reach[_LIMIT] != np.inf:
        target, aim, off = limited, aim_of(coding, limited), unclipped(coding, limited)
    watch(combiner.level_shift, target, off, prediction, coding.counts[EVENTS])
    if is_learned(coding, limited):
        clip = _clip(combiner, coding)
        _compare_clips(combiner, coding, outputs, aim)
        _learn_number(combiner, outputs, scratch, aim_of(coding, limited), weight, clip, again)


@njit(**INNER)
def _learn_number(combiner, outputs, scratch, aim, weight, clip, again):
    sets, experts = combiner.weights.shape
    numbers, scores, slopes, deviations, factors = scratch.value
    count, mixed = combiner.shares.shape[0], numbers[_BY_SHARES]
    error, total, moved = (mixed - aim) ** 2, 0.0, rate(combiner.error, weight)
    is_patient = combiner.patient or (combiner.compared.shape[0] > 0 and combiner.compared[COMPARED] > 0.0)
    patient = weight if combiner.patient and not again else 0.0
    if patient > 0.0:
        difference, missed = numbers[_PATIENT] - mixed, min(max(aim - mixed, -_FARTHEST), _FARTHEST)
        combiner.compared[PRODUCTS] += patient * difference * missed
        combiner.compared[SQUARES] += patient * difference * difference
        combiner.compared[COMPARED] += patient
    pace = combiner.pace * relative(combiner.error, weight)
    combiner.error[_ERROR] += moved * (error - combiner.error[_ERROR])
    for s in range(count):
        predicted = numbers[s]
        if sets <= s < sets + experts:
            combiner.losses[s - sets] += moved * ((predicted - aim) ** 2 - combiner.losses[s - sets])
        if combiner.error[_ERROR] > 0.0:
            worse = ((0.5 * (predicted + mixed) - aim) ** 2 - error) / combiner.error[_ERROR]
            combiner.shares[s] *= np.exp(-_RATE * pace * min(max(worse, -_GAIN), _LOSS))
        total += combiner.shares[s]
    fade(combiner.curvature, combiner.forgetting, combiner.penalty, weight)
    slopes[:] = 0.0
    for e in range(experts):
        scores[0, e] = clipped(outputs, e, 0, clip)
    second = patient if is_patient else weight
    add_products(combiner.curvature, scores, 0, slopes, (weight, second, weight), deviations)
    for s in range(sets):
        predicted = 0.0
        for e in range(experts):
            predicted += combiner.weights[s, e] * scores[0, e]
        missed = weight * (predicted - aim)
        if is_patient and s == _PATIENT:
            missed = patient * min(max(predicted - aim, -_FARTHEST), _FARTHEST)
        for e in range(experts):
            slopes[e, s] = scores[0, e] * missed
    newton_steps(combiner.weights, combiner.curvature, slopes, factors)
    share(combiner.shares, combiner.initial, total, weight)


class Stacking(Combiner):
    """Stacked experts.

    Parameters
    ----------
    experts
        How many there are.
    classes
        Whether labels are classes.
    logits
        For each expert of classes, whether its outputs are logits; its error is then that of their softmax.
    spans
        Events that each set of weights remembers.
    settled
        Events by which labels seem to come later; shortens the steps of intervals.
    penalty
        Of a squared weight, in units of one event.
    saturated
        The experts of each saturated output; only for classes.
    may_be_patient
        Whether the second set may become patient; only for numbers.
    """

    def __init__(
        self,
        experts: int,
        classes: bool,
        logits: Sequence[bool] | None = None,
        spans: Sequence[float] = SPANS,
        settled: int = 0,
        penalty: float = PENALTY,
        saturated: Sequence[Sequence[int]] = (),
        may_be_patient: bool = False,
    ) -> None:
        sets, self.penalty = len(spans), penalty
        self._saturated = np.zeros((len(saturated), experts))
        for row, several in zip(self._saturated, saturated, strict=True):
            row[list(several)] = 1.0 / len(several)
        self.logits = np.array([*(logits or [False] * experts), *[False] * len(saturated)])
        experts += len(saturated)
        self.classes, self._spans, self._settled = classes, spans, settled
        self._half = (slice(None), *np.tril_indices(experts))
        self.weights: Array = np.full((sets, experts), (2.0 if classes else 1.0) / experts)
        self._curvature = side_by_side(np.array([penalty * np.eye(experts)] * sets))
        self._initial = np.full(sets, 1.0 / sets)
        self.shares: Array = self._initial.copy()
        self.compared: Array = np.zeros(3 if may_be_patient else 0)
        self.patient = False
        if not classes:
            self.start_shares((1.0 - _MEAN) * sets / (sets + experts), _MEAN)
        self.error: Array = np.zeros(3)
        self.losses: Array = np.zeros(experts)
        self.intervals = None if classes else Intervals(steady=settled > 0)
        self.level_shift = LevelShift()
        self.set_delay(0)
        self.reach: Array = np.array([np.inf, 0.0])
        self.evidence: Array = np.zeros(1)

    def start_shares(self, of_sets: float, of_mean: float) -> None:
        """Start with such shares of all sets and of the mean target; single experts have what remains."""
        sets, experts = self.weights.shape
        parts = (of_sets, sets), (1.0 - of_sets - of_mean, experts), (of_mean, 1)
        self._initial = np.concatenate([np.full(count, part / count) for part, count in parts])
        self.shares = self._initial.copy()

    def set_delay(self, delay: int) -> None:
        """Set how many events late labels arrive; the record changes."""
        self.pace = 1.0 / math.sqrt(1.0 + delay)
        self.forgetting = np.array([1.0 - 1.0 / (span + delay) for span in self._spans])
        if self.intervals is not None:
            self.intervals.set_delay(delay + self._settled)
        self.level_shift.set_delay(delay)

    @property
    def _has_compared(self) -> bool:
        """Whether the patient set has learned."""
        return bool(len(self.compared) and self.compared[COMPARED] > 0.0)

    @property
    def has_patient(self) -> bool:
        """Whether the second set is patient."""
        return self.patient or self._has_compared

    @property
    def _first_shares(self) -> Array:
        """Shares to start with, towards which they move."""
        first = self._initial.copy()
        if self.has_patient:
            first[: len(self.weights)] = first[: len(self.weights)].sum() / (len(self.weights) - 1)
            first[_PATIENT] = 0.0  # its part is learned otherwise
        return first

    @property
    def record(self) -> StackedClasses | StackedNumbers:
        """The combiner as compiled code sees it."""
        forgetting = self.forgetting.copy()
        if self.has_patient:
            forgetting[_PATIENT] = 1.0
        shares = self.shares, self._first_shares
        arrays = forgetting, self.weights, self._curvature, *shares, self.error, self.losses
        if self.intervals is None:
            return StackedClasses(*arrays, self.pace, self.penalty, self.logits, self._saturated)
        numbers = self.intervals.record, self.level_shift.record, self.reach, self.evidence
        return StackedNumbers(*arrays, *numbers, self.pace, self.penalty, self.compared, self.patient)

    def scratch(self, most: int) -> Handle:
        """Return a handle of scratch arrays for at most so many outputs."""
        sets, experts = self.weights.shape
        of_steps = scratch_of(experts)
        if self.classes:
            of_scores = np.empty((most, experts)), np.empty((sets, most)), np.empty(most)
            return make_handle((*of_scores, *of_steps))
        return make_handle((np.empty(len(self.shares) + 2), np.empty((1, experts)), *of_steps))

    @property
    def curvature(self) -> Array:
        """``A`` of every set, ``(sets, E, E)``: a view."""
        return by_set(self._curvature)

    @property
    def has_learned(self) -> bool:
        """Whether it has learned from any event."""
        return bool(self.error[1])

    @property
    def least_error(self) -> float:
        """The mean error of the best expert; 0 before any event."""
        return float(self.losses.min())

    @property
    def mean_error(self) -> float:
        """The mean squared error of standardised predictions; of the best expert for classes."""
        return self.least_error if self.classes else float(self.error[_ERROR])

    @property
    def is_robust(self) -> bool:
        """Whether targets far from their predictions are limited when they are learned."""
        return bool(self.reach[0] < np.inf)

    def be_robust(self, robust: bool) -> None:
        """Set whether targets far from their predictions are limited."""
        if robust != self.is_robust:
            self.reach[:] = _REACH if robust else np.inf, 0.0

    def final_state(self) -> Arrays:
        """Return the state for a combiner that learns no more: the part of the patient set is a share."""
        state = self.state_dict()
        state.pop("stacking.compared", None)
        if self._has_compared:
            part = part_of(self.compared, _FIRST_PART, _BEFORE)
            shares = state["stacking.shares"] = (1.0 - part) * self.shares
            shares[_PATIENT] += part
        return state

    def forget_shift(self) -> None:
        """Expect the next target in range."""
        self.level_shift.state[:] = 0.0

    def restart(self) -> None:
        """Start again with equal weights; errors and intervals stay."""
        experts = self.weights.shape[1]
        self.weights[:] = (2.0 if self.classes else 1.0) / experts
        self.curvature[:] = self.penalty * np.eye(experts)
        self.shares[:] = self._first_shares

    def skip(self, experts: Sequence[int]) -> None:
        """Give no weight to experts that start again; the others get those that are best without them.

        Near its least, the loss is ``½ (w − w*)ᵀ A (w − w*)``. With some weights ``w_e`` at 0, it is least at
        ``w_o + A_oo⁻¹ A_oe w_e`` for the others.
        """
        uses = self._saturated[:, list(experts)].any(axis=1)
        gone = np.zeros(self.weights.shape[1], dtype=bool)
        gone[[*experts, *(self._saturated.shape[1] + np.flatnonzero(uses))]] = True
        sets = list(zip(self.weights, self.curvature, strict=True))
        if self.has_patient:
            del sets[_PATIENT]
        for weights, lower in sets:
            whole = np.tril(lower) + np.tril(lower, -1).T
            moved = np.linalg.solve(whole[np.ix_(~gone, ~gone)], whole[np.ix_(~gone, gone)] @ weights[gone])
            weights[~gone] += moved
            weights[gone] = lower[gone] = lower[:, gone] = 0.0
            lower[gone, gone] = self.penalty
        if not self.classes:
            single = len(self.weights) + np.flatnonzero(gone)
            self.shares[single] = 0.0
            self.shares /= self.shares.sum()

    def start_intervals(self, other: Stacking) -> None:
        """Start with the intervals of another combiner."""
        if self.intervals is not None and other.intervals is not None:
            self.intervals.become(other.intervals)

    def follow_weights(self, other: Stacking) -> None:
        """Copy the mean weights of another combiner, and the curvature of its first set, to the last set."""
        difference = (self.penalty - other.penalty) * np.eye(self.weights.shape[1])
        self.weights[-1], self.curvature[-1] = other.mean_weights, other.curvature[0] + difference

    @property
    def mean_weights(self) -> Array:
        """The weight of every output: the mean over sets by their shares; for numbers plus its own share."""
        sets = len(self.weights)
        mean = self.shares[:sets] @ self.weights
        return np.asarray(mean if self.classes else mean + self.shares[sets:-1])

    def before(self, live: Sequence[AnyArray]) -> StackedClasses | StackedNumbers:
        """Return the record with earlier arrays in place of :attr:`live`."""
        record = self.record._replace(weights=live[0])
        if isinstance(record, StackedNumbers):
            earlier = record.intervals._replace(offsets=live[1], errors=live[2], slope=live[3])
            earlier = earlier._replace(bursts=live[4])
            return record._replace(intervals=earlier)
        return record

    def merge_from(
        self, others: Sequence[Self], shares: Sequence[float], counts: Sequence[float] | None = None
    ) -> None:
        """Become the merge of several: the information of weights adds up, shares are averaged.

        No level shift is assumed, since none of them has processed the last target of all. With ``counts``,
        all continue from the last of them: the information of sets that never forget is then added ``counts``
        times, or averaged if these are the shares, and that of the others is averaged.
        """
        penalty = self.penalty * np.eye(self.weights.shape[1])
        for s in range(len(self.weights)):
            before = penalty @ self.weights[s]
            information, moved = penalty.copy(), before.copy()
            times = [1.0] * len(others)
            if counts is not None:
                times = list(counts if self.forgetting[s] == 1.0 else shares)
            for other, count in zip(others, times, strict=True):
                information += count * (other.curvature[s] - penalty)
                moved += count * (other.curvature[s] @ other.weights[s] - before)
            self.weights[s], self.curvature[s] = np.linalg.solve(information, moved), information
        self.average(others, shares)
        robust = sum(share for share, other in zip(shares, others, strict=True) if other.is_robust)
        self.be_robust(robust >= 0.5)
        if self.intervals is not None:
            self.intervals.average([other.intervals for other in others if other.intervals], shares)

    def fields(self) -> Iterator[Field | Stateful]:
        """Yield weights, half of the curvature, shares and errors; for numbers also intervals and limits."""
        yield Field("stacking.weights", "weights of experts", -_MOST, _MOST, live=True)
        yield Field("stacking.curvature", "curvatures of experts", -_MOST, _MOST, part=self._half)
        yield Field("stacking.shares", "shares of experts", 0.0, _MOST, merge=MEAN)
        yield Field("stacking.error", "errors of predictions", 0.0, _MOST, merge=MEAN)
        yield Field("stacking.losses", "errors of experts", 0.0, _MOST, merge=MEAN)
        if self.intervals is not None:
            yield from (self.intervals, self.level_shift)
            bounds = (_REACH, -_MOST), (_REACH, _MOST)
            yield Field("stacking.evidence", "gains by far outputs", -_MOST, _MOST, merge=MEAN, default=0.0)
            if len(self.compared):
                least = -_MOST, 0.0, 0.0
                yield Field("stacking.compared", "errors of weights", least, _MOST, merge=MEAN, default=0.0)
            yield Field("stacking.reach", "limit of errors", *bounds, whole=True, default=(np.inf, 0.0))

    def complete(self) -> None:
        """Complete the curvature; raise a ValueError if no weights can be learned."""
        _, row, column = self._half
        self.curvature[:, column, row] = self.curvature[:, row, column]
        least = [np.linalg.eigvalsh(a)[0] + _ROUNDING * np.trace(a) for a in self.curvature]
        if not (self.shares.sum() > 0.0 and min(least) > 0.0):
            raise ValueError("its weights of experts are impossible")
