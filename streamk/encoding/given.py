"""Scales that are given: found once, and then the same for everybody."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from streamk.encoding.codec import Codec
from streamk.encoding.following import COUNT, HELD
from streamk.encoding.scaling import GIVEN

Array = NDArray[np.float64]


def give_scales(codec: Codec) -> None:
    """Let the scales that a codec has found be given.

    What is held, the farthest value of each, stays out of them. Numbers whose names are met later are scaled
    by what came before, as ever.
    """
    for statistics in (codec.inputs.statistics[: codec.inputs.slots], codec.target):
        statistics[statistics[:, COUNT] > 0.0, HELD] = GIVEN


def given_scales(codec: Codec) -> dict[str | None, Array]:
    """Return the statistics that are given, by name; of the targets, under None."""
    found = dict[str | None, Array]({None: codec.target[0]})
    if codec.inputs.scaled:
        found |= {name: codec.inputs.statistics[slot] for name, slot in codec.inputs.numbers.items()}
    return {name: row for name, row in found.items() if row[HELD] == GIVEN}
