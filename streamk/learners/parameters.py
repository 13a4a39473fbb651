"""What a learner's parameters and sample weights may be."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from streamk.batches import targets
from streamk.features.directions import DIRECTIONS
from streamk.kernels import kernel
from streamk.losses import CODES

if TYPE_CHECKING:
    from streamk.learners.base import KernelLearner

Array = NDArray[np.float64]


def check_weight(weight: Any) -> float:
    """Return a sample weight as a float, refusing what is not a finite number at least 0."""
    value = _number(weight)
    if not 0.0 <= value < math.inf:
        raise ValueError(f"the weight is {weight!r}; a sample weight must be a finite number, at least 0")
    return value


def check_weights(w: Any, rows: int) -> Array:
    """Return sample weights of many rows, ones if ``w`` is None."""
    if w is None:
        return np.ones(rows)
    return np.array([check_weight(value) for value in targets(w, rows, "w")], dtype=np.float64)


def check_parameters(learner: KernelLearner, kind: str) -> None:
    """Raise a ValueError that names the first parameter with a value it cannot have."""
    kernel(learner.kernel)
    losses = [name for target, name in CODES if target == kind]
    requirements: Iterable[tuple[str, bool, str]] = (
        ("bandwidth", learner.bandwidth is None or _positive(learner.bandwidth), "None or above 0"),
        ("scales", _all_positive(learner.scales), "a tuple of numbers above 0"),
        ("features", _whole(learner.features, 1), "a whole number, at least 1"),
        ("loss", learner.loss in losses, " or ".join(map(repr, losses))),
        ("regularization", _positive(learner.regularization, 0.0), "a number, at least 0"),
        ("memory", learner.memory is None or _whole(learner.memory, 0, 2**53), "None or a whole number"),
        ("average", isinstance(learner.average, bool), "True or False"),
        ("block_size", _whole(learner.block_size, 1), "a whole number, at least 1"),
        ("scale_inputs", isinstance(learner.scale_inputs, bool), "True or False"),
        ("directions", learner.directions in DIRECTIONS, " or ".join(map(repr, DIRECTIONS))),
        (
            "seed",
            learner.seed is None or _whole(learner.seed, 0, 2**63),
            "None or a whole number below 2**63",
        ),
    )
    for name, valid, wanted in requirements:
        if not valid:
            raise ValueError(f"{name}={getattr(learner, name)!r}: {name} must be {wanted}")


def _positive(value: Any, least: float = math.ulp(0.0)) -> bool:
    return least <= _number(value) < math.inf and not isinstance(value, bool)


def _number(value: Any) -> float:
    """Return a number as a float, NaN if it is none or has no float."""
    if not isinstance(value, (int, float, np.integer, np.floating)) or isinstance(value, np.timedelta64):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.nan


def _all_positive(values: Sequence[Any]) -> bool:
    return isinstance(values, (tuple, list)) and len(values) > 0 and all(map(_positive, values))


def _whole(value: Any, least: int, limit: float = math.inf) -> bool:
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    return whole and least <= int(value) < limit
