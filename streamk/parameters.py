"""What a learner's parameters and sample weights may be."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from streamk.batches import targets
from streamk.features.directions import AUTO, DIRECTIONS
from streamk.features.normal import GROUP
from streamk.features.sketch import sketch_size
from streamk.kernels import Polynomial
from streamk.kernels import kernel as kernel_named
from streamk.schedules import GROWTHS

if TYPE_CHECKING:
    from streamk.learners.state import LearnerState

Array = NDArray[np.float64]
CHOICES = (*DIRECTIONS, AUTO)


def check_weight(weight: Any) -> float:
    """Return a sample weight as a float, refusing what is not a finite number at least 0."""
    value = _number(weight)
    if not 0.0 <= value < math.inf:
        raise ValueError(f"the weight is {weight!r}; a sample weight must be a finite number, at least 0")
    return value


def check_weights(w: Any, rows: int, what: str = "w") -> Array:
    """Return sample weights of many rows (or models), ones if ``w`` is None."""
    if w is None:
        return np.ones(rows)
    return np.array([check_weight(value) for value in targets(w, rows, what)], dtype=np.float64)


def check_parameters(learner: LearnerState, losses: Sequence[str]) -> None:
    """Raise a ValueError that names the first parameter of a learner with a value it cannot have."""
    bandwidth = 1.0 if learner.bandwidth is None else learner.bandwidth
    check_map(learner.kernel, bandwidth, learner.scales, learner.features, learner.directions, learner.seed)
    _require(("loss", learner.loss, _among(learner.loss, losses), " or ".join(map(repr, losses))))
    for name, value in learner._get_params().items():
        if name in _CHECKS:
            valid, wanted = _CHECKS[name]
            _require((name, value, valid(value), wanted))
    if learner.growth != "fixed":
        features, most = learner.features, learner.max_features
        _require(
            ("features", features, features % GROUP == 0, f"a multiple of {GROUP} if they grow"),
            ("max_features", most, most >= features, f"at least features={features}"),
        )


def check_map(kernel: Any, bandwidth: Any, scales: Any, features: Any, directions: Any, seed: Any) -> None:
    """Raise a ValueError that names the first parameter of a feature map with a value it cannot have."""
    named = kernel_named(kernel)
    _require(
        ("bandwidth", bandwidth, _positive(bandwidth), "a number above 0"),
        ("scales", scales, _all_positive(scales), "a tuple of numbers above 0"),
        ("features", features, _whole(features, 1, 2**24 + 1), f"a whole number from 1 to {2**24:,}"),
        ("directions", directions, _among(directions, CHOICES), " or ".join(map(repr, CHOICES))),
        ("seed", seed, seed is None or _whole(seed, 0, 2**63), "None or a whole number below 2**63"),
    )
    if isinstance(named, Polynomial):
        sketch_size(features, len(scales))


def _require(*requirements: tuple[str, Any, bool, str]) -> None:
    for name, value, valid, wanted in requirements:
        if not valid:
            raise ValueError(f"{name}={value!r}: {name} must be {wanted}")


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


def _among(value: Any, choices: Sequence[str]) -> bool:
    return isinstance(value, str) and value in choices


def _flag(value: Any) -> bool:
    return isinstance(value, bool)


_FLAG = _flag, "True or False"
_CHECKS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "growth": (lambda v: _among(v, GROWTHS), " or ".join(map(repr, GROWTHS))),
    "period": (lambda v: _whole(v, 1, 2**53), "a whole number, at least 1"),
    "max_features": (lambda v: _whole(v, 1, 2**24 + 1), f"a whole number from 1 to {2**24:,}"),
    "batch_size": (lambda v: _whole(v, 1, 2**31), "a whole number, at least 1 and below 2**31"),
    "precondition": _FLAG,
    "step": (lambda v: v is None or (_positive(v) and v <= 1e12), "None or a number above 0, at most 1e12"),
    "revisits": (lambda v: _whole(v, 0, 2**31), "a whole number, at least 0"),
    "quantile": (lambda v: 0.0 < _number(v) < 1.0, "a number between 0 and 1"),
    "ridge": (lambda v: _positive(v, 1e-12) and v <= 1e12, "a number from 1e-12 to 1e12"),
    "regularization": (lambda v: _positive(v, 0.0), "a number, at least 0"),
    "memory": (lambda v: v is None or _whole(v, 0, 2**53), "None or a whole number"),
    "average": _FLAG,
    "block_size": (lambda v: _whole(v, 1, 2**31), "a whole number, at least 1 and below 2**31"),
    "scale_inputs": _FLAG,
}
