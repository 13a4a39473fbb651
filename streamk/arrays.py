"""Types of arrays, and of what model files and checkpoints hold.

A model file is a header of JSON values and named arrays; a state is the pair of both.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Floats = NDArray[np.float32]  # features, coefficients, outputs of experts
Integers = NDArray[np.int64]
Places = NDArray[np.intp]
AnyArray = NDArray[Any]
Arrays = dict[str, AnyArray]
Json = dict[str, Any]
SavedState = tuple[Json, Arrays]
