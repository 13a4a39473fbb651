"""Recursive least squares for the logarithm of a number: effects of inputs that multiply.

Effects on prices, loads or counts often multiply, and such targets have a long upper tail. With ``y`` in
deviations from 0, not from the mean ``ȳ``, an expert of logarithms learns ``l(y) − l(ȳ)``,

    l(y) = sgn(y) log(1 + |y|/ε)

and its output is ``l⁻¹`` of the sum, standardised: ``ε`` is where ``l`` turns from linear to logarithmic. For
:mod:`streamk.experts.tables` it is 0.05.

:class:`Logarithm` is linear in inputs and in logarithms of recent labels. Targets may span orders of
magnitude, of which few events are near their deviation. So its ``ε`` is three deviations of ``log |y|`` below
the mean of ``log |y|``, and at most 0.05. Both are of all events that were learned, without those at 0. If
more than 1 % of these have another sign than the others, nothing multiplies, and the output is the mean.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterator

import numpy as np
from numba import njit

from streamk.arrays import Array
from streamk.compiling import INNER, both
from streamk.dispatch import implements
from streamk.encoding.label_history import NUMBERS
from streamk.encoding.scaling import MEAN, spread
from streamk.experts.expert import FINAL, ITERATE, Observation, evaluate, step
from streamk.experts.least_squares import LeastSquares
from streamk.features.columns.plain import LINEAR, PLAIN
from streamk.handles import make_handle
from streamk.state import FINITE, SUM, Field, Stateful
from streamk.vector.lanes import zeros_aligned
from streamk.vector.linear_algebra import inner_products

COUNT, SIGNS, FIRST, SECOND = range(4)  # of sizes: of targets, and moments of logarithms
SMALL = 0.05  # the largest ``ε``, in deviations
_BELOW = 3.0  # deviations of logarithms
_ONE_SIDED = 0.98  # the least mean of signs
_ZERO = 1e-12  # of the mean or the deviation: less is rounding
_LARGEST = 69.0  # of a logarithm


LogarithmRecord = namedtuple("LogarithmRecord", "coefficients constant fitting target sizes row")


class Logarithm(LeastSquares):
    """Least squares for the logarithm of a number, linear in inputs and in logarithms of recent labels.

    Parameters
    ----------
    loss, penalty, forgetting, constant
        As for :class:`streamk.experts.least_squares.LeastSquares`; the loss is squared.
    target
        The codec's statistics of the number, ``(1, n)``.

    Attributes
    ----------
    sizes
        Sums of 1, ``sgn(y)``, ``log |y|`` and ``log² |y|`` over the targets so far, ``(4,)``.
    """

    rule = "least squares of logarithms"
    is_relative = True

    def __init__(self, loss: int, penalty: float, forgetting: float, constant: float, target: Array) -> None:
        super().__init__(loss, penalty, forgetting, slice(0, PLAIN), constant)
        self.target, self.sizes = target, np.zeros(4)
        self.row = zeros_aligned(PLAIN, np.float32).reshape(1, PLAIN)

    @property
    def record(self) -> tuple[object, ...]:
        """The expert as compiled code sees it."""
        fitting = make_handle(super().record)
        return LogarithmRecord(
            self.coefficients, np.float64(self.constant), fitting, self.target, self.sizes, self.row
        )

    def fields(self) -> Iterator[Field | Stateful]:
        """Yield those of least squares, and the sums of sizes."""
        yield from super().fields()
        yield Field("sizes", "sizes of targets", (0.0, -FINITE, -FINITE, 0.0), FINITE, merge=SUM)


@both()
def relative_logarithm(z, mean, small):
    """Return ``l(y) − l(ȳ)`` of a standardised number ``z``, ``ȳ`` being ``mean`` deviations.

    Examples
    --------
    >>> float(relative_logarithm(0.0, 3.0, SMALL)), round(relative_logarithm(1.0, 3.0, SMALL), 3)
    (0.0, 0.284)
    """
    return _logarithm(z + mean, small) - _logarithm(mean, small)


@both()
def without_logarithm(relative, mean, small):
    """Return the standardised number ``z`` of a relative logarithm.

    Examples
    --------
    >>> round(without_logarithm(relative_logarithm(1.25, 3.0, SMALL), 3.0, SMALL), 6)
    1.25
    """
    whole = min(max(np.float64(relative) + _logarithm(mean, small), -_LARGEST), _LARGEST)
    return np.sign(whole) * small * np.expm1(abs(whole)) - mean


@njit(**INNER)
def _logarithm(y, small):
    return np.sign(y) * np.log1p(abs(y) / small)


@njit(**INNER)
def mean_of(target):
    """Return the mean target, in deviations from 0."""
    if target is None:
        return 0.0
    deviation = spread(target, 0)
    return target[0, MEAN] / deviation if deviation > 0.0 else 0.0


@njit(**INNER)
def _small_of(sizes, target):
    """Return ``ε``, in deviations."""
    deviation = spread(target, 0)
    if sizes[COUNT] < 2.0 or deviation <= 0.0:
        return SMALL
    mean = sizes[FIRST] / sizes[COUNT]
    variance = max(sizes[SECOND] / sizes[COUNT] - mean * mean, 0.0)
    least = np.exp(mean - _BELOW * np.sqrt(variance)) / deviation
    return min(SMALL, max(least, np.exp(-_LARGEST)))


@njit(**INNER)
def _fill_row(expert, phi, i, small):
    """Copy row ``i`` of ``phi``, and take the logarithms of its labels."""
    row, mean = expert.row, mean_of(expert.target)
    for c in range(row.shape[1]):
        row[0, c] = phi[i, c]
    for c in range(LINEAR, LINEAR + NUMBERS):
        label = np.float64(row[0, c]) / expert.constant
        row[0, c] = np.float32(expert.constant * relative_logarithm(label, mean, small))


@implements(evaluate, LogarithmRecord)
def _evaluate(expert, e, phi, i, outputs):
    small, most = _small_of(expert.sizes, expert.target), outputs.shape[2]
    _fill_row(expert, phi, i, small)
    coefficients = expert.coefficients
    inner_products(coefficients, most, expert.row, 0, coefficients.shape[2], outputs, e * 2 * most)
    outputs[e, FINAL, 0] = np.float32(0.0)
    if abs(expert.sizes[SIGNS]) > _ONE_SIDED * expert.sizes[COUNT]:
        outputs[e, FINAL, 0] = without_logarithm(outputs[e, ITERATE, 0], mean_of(expert.target), small)


@implements(step, LogarithmRecord)
def _step(expert, e, observation):
    phi, i, outputs, aim, known, weight, residual, again = observation
    target, sizes, small = expert.target, expert.sizes, _small_of(expert.sizes, expert.target)
    _fill_row(expert, phi, i, small)
    wanted = relative_logarithm(aim, mean_of(target), small)
    step(expert.fitting, e, Observation(expert.row, 0, outputs, wanted, known, weight, residual, again))
    deviation = spread(target, 0)
    y = target[0, MEAN] + deviation * aim
    if not again and abs(y) > _ZERO * max(deviation, abs(target[0, MEAN])):
        logarithm = np.log(abs(y))
        sizes[COUNT] += weight
        sizes[SIGNS] += weight * np.sign(y)
        sizes[FIRST] += weight * logarithm
        sizes[SECOND] += weight * logarithm * logarithm
