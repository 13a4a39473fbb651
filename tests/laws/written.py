"""What every learner's state must be: finite, and what is written can be read."""

import numpy as np

import streamk
from streamk.encoding.scaling import HELD

_WITH_HELD = ("codec.statistics", "codec.target")  # of a scale that has one value, or is given, none is held


def infinite(arrays):
    """Names of the arrays of a model file that hold what is no finite number."""
    found = []
    for name, array in arrays.items():
        numbers = np.delete(array, HELD, axis=1) if name in _WITH_HELD else array
        if numbers.dtype.kind == "f" and not np.isfinite(numbers).all():
            found.append(name)
    return found


def check_written(learner):
    """A learner's file is finite, and a learner read from it writes the same bytes."""
    data = learner.to_bytes()
    assert infinite(learner._to_parts()[1]) == []
    assert streamk.loads(data).to_bytes() == data
