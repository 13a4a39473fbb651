"""Effects of single values: what each value of each field adds to a linear expert.

A category of thousands of values, the rate of a user, a number that is missing, a code that is not a size:
such an effect belongs to one value of one field, and is seen in few events. The outputs are those of an
earlier expert, the *base*, and a coefficient for each value of the event::

    f_k = b_k + Σ_c A_ck

A value is a cell: a value of a category, an interval of a number, or its absence
(:mod:`streamk.features.columns.cells`). Each coefficient is a Gaussian variable with the precision ``τ``
before the first event, and a step is that of a Kalman filter that keeps variances only::

    A_ck ← A_ck + v_c r_k/(1/q + Σ_c v_c)       v_c = 1/(τ + n_c)       n_c ← min(n_c + q, 1,000)

where ``q`` is the precision of an event: its weight, divided by the mean squared residual of numbers, or
times the curvature of the logistic loss of classes; ``r`` is the residual, of classes divided by that
curvature. So the effect of a value follows the mean of its residuals, shrunk to 0, and a value that many
events have, their last thousand.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterator, Sequence
from typing import Self

import numpy as np
from numba import njit

from streamk.compiling import INNER
from streamk.dispatch import implements
from streamk.experts.expert import EVENTS, FINAL, ITERATE, STEPS, Merge, evaluate, step
from streamk.experts.tables import Tables
from streamk.features.plans import VALUES
from streamk.losses import LOGISTIC, curvature_along, residuals
from streamk.state import FINITE, Field, Stateful
from streamk.vector.cells import BITS

_PRIOR = 2.0  # precision ``τ`` of an effect, in deviations of the target or in logits
_MOST = 1000.0  # precision, so that effects follow the stream
_PACE, _LEAST = 0.002, 1e-3  # of the mean squared residual
_COUNT, _FIRST = 0, 1


ValuesRecord = namedtuple(
    "ValuesRecord", "first coefficients clock loss base repeated kinds cells variances noise shift"
)


class Values(Tables):
    """Effects of single values on the outputs of an earlier expert.

    Parameters
    ----------
    loss
        As for :class:`streamk.experts.expert.Expert`.
    columns
        The columns that hold the cells of an event's values.
    base
        How far before this expert its base is.
    repeated
        Whether a value has an effect from its second event on only, since most may never come again.
    """

    rule = "values"
    record_type = ValuesRecord

    def __init__(self, loss: int, columns: slice, base: int, repeated: bool) -> None:
        self.base, self.repeated, self.shift = base, repeated, BITS - VALUES.bits[0]
        self.variances, self.noise = np.zeros(VALUES.grids), np.ones(1)
        super().__init__(loss, columns, VALUES, None)

    def merge_from(self, experts: Sequence[Self], merge: Merge) -> None:
        """Become the merge: as other tables, and the mean squared residual is a mean by shares."""
        super().merge_from(experts, merge)
        np.minimum(self.coefficients[:, _COUNT], _MOST, out=self.coefficients[:, _COUNT])
        self.noise[:] = sum(
            share * unit.scale**2 * expert.noise
            for expert, share, (_, unit) in zip(experts, merge.shares, merge.columns, strict=True)
        )

    def fields(self) -> Iterator[Field | Stateful]:
        """Yield the rows of values that were met, the clock, and the mean squared residual."""
        yield from super().fields()
        yield Field("noise", "mean squared residuals", 0.0, FINITE)


@njit(**INNER)
def _find_values(expert, phi, i):
    """Note the cells of row ``i``; return their number."""
    cells, shift, first = expert.cells, np.uint32(expert.shift), np.uint64(expert.first)
    for c in range(cells.shape[0]):
        column = phi[i, first + np.uint64(c)]
        if column < np.float32(0.0):
            return np.int64(c)
        cells[c] = np.uint32(np.int32(column)) >> shift
    return np.int64(cells.shape[0])


@implements(evaluate, ValuesRecord)
def _evaluate(expert, e, phi, i, outputs):
    count = _find_values(expert, phi, i)
    table, cells, halved = expert.coefficients, expert.cells, expert.kinds[2]
    for k in range(outputs.shape[2]):
        total = np.float32(0.0)
        for c in range(count):
            total += table[cells[c], _FIRST + (0 if halved else k)]
        if halved and k > 0:
            total = np.float32(0.0) - total
        outputs[e, ITERATE, k] = outputs[e, FINAL, k] = outputs[e - expert.base, FINAL, k] + total


@implements(step, ValuesRecord)
def _step(expert, e, observation):
    phi, i, outputs, aim, known, weight, residual, again = observation
    if again:
        return
    count, halved = _find_values(expert, phi, i), expert.kinds[2]
    table, cells, variances = expert.coefficients, expert.cells, expert.variances
    noise, clock = expert.noise, expert.clock
    residuals(expert.loss, outputs[e, ITERATE, :known], aim, residual[:known])
    total, squared = 0.0, expert.loss != LOGISTIC
    for c in range(count):
        met = table[cells[c], _COUNT]
        variances[c] = 0.0 if expert.repeated and met == 0.0 else 1.0 / (_PRIOR + met)
        total += variances[c]
    if squared:
        curvature = 1.0 / max(noise[0], _LEAST)
        pace = max(_PACE, 1.0 / (2.0 + clock[EVENTS]))
        square = residual[0] ** 2 / (1.0 + curvature * total)
        noise[0] += (1.0 - (1.0 - pace) ** weight) * (square - noise[0])
    else:
        curvature = curvature_along(expert.loss, residual[:known], aim)
    precision = weight * curvature
    scale = (precision if squared else weight) / (1.0 + precision * total)
    for c in range(count):
        row = cells[c]
        for k in range(1 if halved else known):
            table[row, _FIRST + k] += np.float32(variances[c] * scale * residual[k])
        table[row, _COUNT] = np.float32(min(table[row, _COUNT] + precision, _MOST))
    clock[EVENTS] += 1.0
    clock[STEPS] += 1.0
