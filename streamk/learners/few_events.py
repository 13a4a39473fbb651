"""Few events: kernel ridge regression on all of them, which predicts together with the experts.

Experts learn an event once, on scales of the events before it. While events are few, the exact solution on
all of them predicts better, and takes little time: a least-squares support vector machine (Andrecut 2016) on
the inputs ``x`` and the label memory ``m``. Inputs are standardised by all the events, clipped to ±3, and
divided by the root of their mean number an event::

    k(x, z) = (1 − h) exp(−½ (‖x − z‖² + c ‖m_x − m_z‖²)) + h (xᵀz + c m_xᵀm_z)
    f(x) = ȳ + Σ_i k(x, x_i) a_i                   (K + λW⁻¹) a = y − ȳ

with weights ``W`` in units of their mean, at most 100. Of the values 0 and ½ of ``h``, 0 and 1 of ``c``,
and 0.03, 0.3 and 1 of ``λ``, those with the highest marginal likelihood are chosen, with every scale of ``y``
equally likely (MacKay 1992). For numbers, ``y`` are standardised targets. For classes, ``y`` is 1 for the
class of an event and 0 for others, and probabilities are ``softmax(β f)``, where ``β`` is the one of 1, 2, 3,
4, 6, 8 and 12 with the least log loss. Losses and errors are those of the prediction of an event by those
before it, ``y_i − l_ii (L⁻¹(y − ȳ))_i``, where ``L`` is the Cholesky factor of ``K + λW⁻¹``.

With ``g`` the prediction of the experts, that after ``n`` events is ``g + α (f − g)``::

    α = min(1, 2 − n/128)/(1 + min(max(n/32 − 1, 0), 1) (e_f/e_b)⁴)        for classes
    α = min(1, 2 − n/128)/(1 + (e_f/e_g)²)                                 for numbers

and 0 from ``n`` = 256 on. ``e_f`` and ``e_g`` are mean squared errors, and ``e_b`` is that of the best
expert, which means little at first. Where labels come later than before the next prediction, ``e_g`` and
``e_b`` are those of predictions with fewer events, and the first labels say little about events long after::

    α = ½ min(1, 2 − n/128) min(1, n/64)

Nothing is stored: all of this is a function of the sample (:mod:`streamk.features.sample`). The solution is
that of its first events, all of them up to 16, and then a sixteenth more at a time. Events of more than 64
inputs are in no sample.

The label memory of numbers is computed again from all targets on one scale, since their first scales say
little. It is no input where labels come later.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.special import softmax

from streamk.arrays import Array, Places
from streamk.encoding.label_history import COLUMNS, after_each
from streamk.encoding.rows import ABSENT, CATEGORY, EncodedRows
from streamk.features.sample import Sampled
from streamk.features.sections import Sections
from streamk.learners.tails import EARLY
from streamk.threads import one_blas_thread

FEW = EARLY  # events, from which on only experts predict; until then no input has a transform
_FEWEST, _GROWTH, _ALONE, _LATE = 2, 16, 32, 64
_CLIP, _WEIGHTS = 3.0, (1e-6, 100.0)
_LINEAR, _PENALTIES = (0.0, 0.5), (0.03, 0.3, 1.0)
_BETAS = 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0
_TINY = 1e-9  # of a variance


class ScaledInputs(NamedTuple):
    """Sorted keys of inputs, the moments that standardise them, and how many an event has on average."""

    keys: NDArray[np.uint64]
    means: Array
    deviations: Array
    an_event: float

    @classmethod
    def of(cls, rows: EncodedRows) -> ScaledInputs:
        """Return the inputs of rows; values of categories are not standardised."""
        keys, slots = (np.broadcast_to(array, rows.values.shape) for array in (rows.keys, rows.slots))
        there = keys != ABSENT
        known, places = np.unique(keys[there], return_inverse=True)
        numbers, values = slots[there] >= 0, rows.values[there]
        means, deviations = np.zeros(len(known)), np.ones(len(known))
        for place in np.unique(places[numbers]):
            means[place], deviations[place] = _moments(values[numbers & (places == place)])
        return cls(known, means, deviations, max(float(there.sum(axis=1).mean()), 1.0))

    def matrix(self, rows: EncodedRows, memory: Array) -> Array:
        """Return the scaled inputs of rows, and after them their label memory, ``(n, d + 64)``."""
        keys = np.broadcast_to(rows.keys, rows.values.shape)
        places = np.searchsorted(self.keys, keys)
        known = (places < len(self.keys)) & (keys != ABSENT)
        known[known] = self.keys[places[known]] == keys[known]
        column, values = places[known], rows.values[known]
        slots = np.broadcast_to(rows.slots, keys.shape)[known]
        scaled = np.clip((values - self.means[column]) / self.deviations[column], -_CLIP, _CLIP)
        scaled[(slots > CATEGORY) & (slots < -1)] = 0.0  # explicitly missing
        matrix = np.zeros((len(keys), len(self.keys) + COLUMNS))
        matrix[np.nonzero(known)[0], column] = scaled / math.sqrt(self.an_event)
        matrix[:, len(self.keys) :] = memory
        return matrix


class KernelRidge(NamedTuple):
    """A solution.

    Attributes
    ----------
    events
        Their inputs and, if ``c`` is 1, their label memory, ``(m, d)`` or ``(m, d + 64)``.
    coefficients
        ``(m, K)``: ``a``.
    codes
        Of the classes of the columns.
    unit, mean
        Of the targets: predictions are ``mean + unit · Σ_i k(x, x_i) a_i``.
    linear
        ``h``.
    beta
        0 for numbers.
    error
        ``e_f``, of probabilities or of standardised targets.
    """

    inputs: ScaledInputs
    events: Array
    coefficients: Array
    codes: Places
    unit: float
    mean: Array
    linear: float
    beta: float
    error: float

    def predict(self, rows: EncodedRows, memory: Array) -> Array:
        """Return predictions ``(n, K)`` of rows with their label memory ``(n, 64)``."""
        sums = np.zeros((len(rows.values), len(self.mean)))
        for i, x in enumerate(self.inputs.matrix(rows, memory)[:, : self.events.shape[1]]):
            near = np.exp(-0.5 * ((self.events - x) ** 2).sum(axis=1))
            similarity = (1.0 - self.linear) * near + self.linear * (self.events * x).sum(axis=1)
            sums[i] = (similarity[:, None] * self.coefficients).sum(axis=0)
        answers: Array = self.mean + self.unit * sums
        return np.asarray(softmax(self.beta * answers, axis=1)) if self.beta else answers


class LabelsSoFar(NamedTuple):
    """Labels before a prediction.

    Attributes
    ----------
    memory
        The label memory ``(2, 64)``, without rows where labels are no inputs.
    recent
        Which rows are predicted with the label memory of now; others are with its mean.
    late
        Whether labels come later than before the next prediction.
    """

    memory: Array
    recent: NDArray[np.bool_]
    late: bool


class FewEvents:
    """Predictions while events are few. Its cache is no part of a learner's state."""

    def __init__(self) -> None:
        self._solved: tuple[int, bool, KernelRidge | None] = 0, False, None

    def mixed(
        self,
        predictions: Array,
        rows: EncodedRows,
        labels: LabelsSoFar,
        sections: Sections,
        least: float | None,
    ) -> Array:
        """Return predictions ``(n, K)``, of more columns perhaps, in which the solution has its share.

        Parameters
        ----------
        sections
            Of the map: its sample holds all events.
        least
            Of classes, the mean squared error of the best expert; None for numbers.
        """
        memory, recent, late = labels
        sample, classes = sections.sample, least is not None
        used = len(memory) > 0 and (classes or not late)
        events = _solved_at(len(sample))
        if self._solved[:2] != (events, used):
            solution = solve(sample.events().select(np.arange(events)), sections.amplitude, used, classes)
            self._solved = events, used, solution
        ridge = self._solved[2]
        if ridge is None:
            return predictions
        now, mean = memory if used else np.zeros((2, COLUMNS))
        if least is None:
            predicted, actual = sample.record.said[:, 1 : len(sample)] / ridge.unit
            least = float(np.mean((predicted - actual) ** 2))
            if used:
                states = _states((sample.record.goal[0, : len(sample)] - ridge.mean) / ridge.unit)
                now, mean = states[-1], states[1:].mean(axis=0)
        share = share_of(len(sample), ridge.error, None if late else least, classes)
        answers = ridge.predict(rows, np.where(recent[:, None], now, mean))
        out, known = predictions.copy(), predictions[:, ridge.codes]
        if classes:  # those that came after the solution are as probable as by the experts
            answers *= known.sum(axis=1, keepdims=True)
        out[:, ridge.codes] = known + share * (answers - known)
        return out


def share_of(events: int, error: float, other: float | None, classes: bool) -> float:
    """Return the share ``α`` of a solution with this ``error``.

    ``other`` is that of experts, None where labels come later.

    Examples
    --------
    >>> share_of(32, 1.0, 1.0, True), share_of(100, 1.0, 1.0, True), share_of(192, 1.0, 1.0, False)
    (1.0, 0.5, 0.25)
    """
    share = min(1.0, 2.0 - 2.0 * events / FEW)
    if other is None:
        return 0.5 * share * min(events / _LATE, 1.0)
    odds = max(error, _TINY) / max(other, _TINY)
    odds = min(max(events / _ALONE - 1.0, 0.0), 1.0) * odds**4 if classes else odds**2
    return share / (1.0 + odds)


def solve(sampled: Sampled, amplitude: float, with_memory: bool, classes: bool) -> KernelRidge | None:
    """Return the solution of events, None of fewer than two; their label memory is times ``amplitude``."""
    if len(sampled) < _FEWEST:
        return None
    targets, weights = sampled.goal
    weights = np.clip(weights / weights.mean(), *_WEIGHTS)
    middle, unit = (0.0, 1.0) if classes else _moments(targets)
    codes = np.zeros(1, dtype=np.intp)
    if classes:
        codes, columns = np.unique(targets.astype(np.intp), return_inverse=True)
        y = np.eye(len(codes))[columns]
    else:
        y = ((targets - middle) / unit)[:, None]
    mean = np.average(y, axis=0, weights=weights)
    memory = sampled.labels / np.float64(amplitude) if classes else _states(y[:, 0] - mean)[:-1]
    inputs = ScaledInputs.of(sampled.rows)
    x = inputs.matrix(sampled.rows, memory)
    with one_blas_thread():
        systems = (
            _System(part, linear, kernel + np.diag(penalty / weights), y - mean)
            for part in (x[:, : len(inputs.keys)], x)[: 1 + with_memory]
            for linear, kernel in _kernels(part)
            for penalty in _PENALTIES
        )
        best = max(systems, key=lambda system: system.likelihood)
        errors, coefficients = best.errors[1:], best.coefficients
    beta, scores = 0.0, y[1:] - errors
    if classes:
        beta = _beta(scores, y[1:] == 1.0)
        errors = softmax(beta * scores, axis=1) - y[1:]
    error = float((errors**2).sum(axis=1).mean())
    return KernelRidge(
        inputs, best.x, coefficients, codes, unit, middle + unit * mean, best.linear, beta, error
    )


class _System:
    """The system ``K + λW⁻¹`` of events ``x`` and one kernel, for targets ``y`` of mean 0.

    ``likelihood`` is its mean logarithm over outputs, up to a constant.
    """

    def __init__(self, x: Array, linear: float, matrix: Array, y: Array) -> None:
        self.x, self.linear = x, linear
        self._factor = np.linalg.cholesky(matrix)
        self._white = solve_triangular(self._factor, y, lower=True)
        squares = (self._white**2).sum(axis=0)
        logarithm = np.log(squares[squares > 0.0] + _TINY).mean() if squares.any() else 0.0
        self.likelihood = float(-0.5 * len(y) * logarithm - np.log(np.diag(self._factor)).sum())

    @property
    def errors(self) -> Array:
        """How much more every target is than what the events before it predict."""
        return np.asarray(np.diag(self._factor)[:, None] * self._white)

    @property
    def coefficients(self) -> Array:
        """The solution ``a``."""
        return np.asarray(solve_triangular(self._factor.T, self._white))


def _kernels(x: Array) -> Iterator[tuple[float, Array]]:
    """Yield ``h`` and the kernel matrix of events."""
    products = x @ x.T
    lengths = np.diag(products)
    near = np.exp(products - 0.5 * (lengths[:, None] + lengths))
    for linear in _LINEAR:
        yield linear, (1.0 - linear) * near + linear * products


def _beta(scores: Array, right: NDArray[np.bool_]) -> float:
    """Return the ``β`` with the least log loss; ``right`` marks the class of every event."""
    likely = [softmax(beta * scores, axis=1)[right] for beta in _BETAS]
    return _BETAS[int(np.argmax(np.log(np.maximum(likely, _TINY)).sum(axis=1)))]


def _states(targets: Array) -> Array:
    """Return the label memory of standardised targets, before the first of them and after each."""
    return np.asarray(np.clip(after_each(targets), -_CLIP, _CLIP))


def _moments(values: Array) -> tuple[float, float]:
    """Return the mean and the deviation of numbers, 1 if there is none."""
    unit = float(abs(values).max()) or 1.0  # so that no square overflows
    mean, deviation = float((values / unit).mean()), float((values / unit).std())
    return mean * unit, deviation * unit if deviation > _TINY else 1.0


def _solved_at(events: int) -> int:
    """Return after how many events the solution was made that predicts after so many."""
    made = min(events, _GROWTH)
    while made >= _GROWTH and made + made // _GROWTH <= events:
        made += made // _GROWTH
    return made
