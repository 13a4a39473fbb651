"""Scaled inputs of one row, as the loop over events has them."""

from typing import NamedTuple

import numpy as np
from numba import njit


class Scratch(NamedTuple):
    inputs: object
    keys: object
    slots: object
    codes: object
    wide: object
    counts: object
    units: object
    raw: object


@njit
def scratch_of(inputs, keys, slots, count, unit):
    """Return scratch arrays of one row; its random features are not used."""
    codes = np.zeros(keys.shape, dtype=np.uint64)
    wide = inputs[0].copy()
    return Scratch(inputs, keys, slots, codes, wide, np.full(1, count), np.full(1, unit), inputs[0])
