"""The expert for the size of errors: the ratio to their usual size, as a function of the inputs.

The combiner measures errors in units of their usual size at the prediction, ``b = |e|/σ(f)``
(:mod:`streamk.combining.intervals`). The expert's output ``u = v·φ`` is the logarithm of the mean of ``b``,
and is fitted to the *working response*

    z = u + min(b exp(−u), 4) − 1

by recursive least squares with forgetting (:mod:`streamk.experts.least_squares`). This is Fisher scoring,
event by event, of a generalised linear model with a logarithmic link, whose responses have a variance that
grows with the square of their mean (McCullagh and Nelder 1989, chapters 2.5 and 8).

It uses the coarsest features of the map. They stay the same for the lifetime of a learner: relevance does not
change them, and they do not depend on labels. Events that are learned again are skipped: they have no new
error.
"""

from __future__ import annotations

from collections import namedtuple

from streamk.arrays import Array
from streamk.dispatch import implements
from streamk.experts.expert import Observation, step
from streamk.experts.least_squares import LeastSquares
from streamk.handles import make_handle

_PENALTY = 20.0  # of a squared coefficient, in units of one event
_FORGETTING = 0.9995


ErrorScaling = namedtuple("ErrorScaling", "first coefficients fitting response")


class ErrorScale(LeastSquares):
    """The logarithm of how large errors are, by the inputs.

    Parameters
    ----------
    loss, columns
        As for :class:`streamk.experts.expert.Expert`; the loss is squared.
    response
        Where the combiner leaves ``z``, ``(1,)``.
    """

    rule = "error scale"
    is_relative = True

    def __init__(self, loss: int, columns: slice, response: Array) -> None:
        super().__init__(loss, _PENALTY, _FORGETTING, columns, 1.0)
        self.response = response

    @property
    def record(self) -> tuple[object, ...]:
        """The expert as compiled code sees it."""
        return ErrorScaling(self.first, self.coefficients, make_handle(super().record), self.response)


@implements(step, ErrorScaling)
def _step(expert, e, observation):
    phi, i, outputs, _, known, weight, residual, again = observation
    if again:  # the response is that of another event
        return
    wanted = Observation(phi, i, outputs, expert.response[0], known, weight, residual, again)
    step(expert.fitting, e, wanted)
