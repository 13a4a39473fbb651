"""The mean of the experts' numbers: the combiner of regressors without a stacked one.

The prediction is ``ȳ + σ Σ_e f_e/E``, with the mean ``ȳ`` and the deviation ``σ`` of earlier targets. Nothing
is learned, so there is nothing to save or to merge.
"""

from __future__ import annotations

from collections import namedtuple

from streamk.combining.combiner import Combiner, adapt, combine, mean_output
from streamk.dispatch import implements
from streamk.encoding.codec import decode

Averaging = namedtuple("Averaging", "experts")


class Mean(Combiner):
    """The mean of the experts' numbers, in the units of the target.

    Parameters
    ----------
    experts
        How many there are.
    """

    record_type = Averaging

    def __init__(self, experts: int) -> None:
        self.experts = experts


@implements(combine, Averaging)
def _combine(combiner, coding, outputs, scratch, out):
    mean = scratch.value[0]
    mean_output(outputs, mean)
    out[0] = decode(coding, mean[0])


@implements(adapt, Averaging)
def _adapt(combiner, earlier, coding, outputs, scratch, combined, goal):
    pass
