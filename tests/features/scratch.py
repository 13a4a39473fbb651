"""Scaled inputs of one row, as the loop over events has them."""

from typing import NamedTuple

import numpy as np
from numba import njit


class Scratch(NamedTuple):
    inputs: object
    keys: object
    slots: object
    counts: object
    units: object
    raw: object


@njit
def scratch_of(inputs, keys, slots, count, unit):
    """Return scratch arrays of one row; its random features are not used."""
    return Scratch(inputs, keys, slots, np.full(1, count), np.full(1, unit), inputs[0])
