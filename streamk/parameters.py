"""Checks of the parameters of learners and feature maps."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from streamk.arrays import Json
from streamk.combining.intervals import HIGHEST
from streamk.encoding.keys import AUTO, DIRECTIONS
from streamk.encoding.targets import number
from streamk.features.plans import BUDGETS
from streamk.features.sketch import sketch_size
from streamk.features.spectra import CAUCHY, family, mixable
from streamk.kernels import Kernel, Polynomial
from streamk.kernels import kernel as kernel_named
from streamk.schedules import GROWTHS
from streamk.vector.lanes import LANES
from streamk.vector.random_numbers import GROUP

CHOICES = (*DIRECTIONS, AUTO)


def kernels_of(kernel: object) -> tuple[Kernel, ...]:
    """Return the kernels that a parameter names: a string, or several strings.

    Raises
    ------
    ValueError
        If a kernel is unknown, or there are several and one of them is not of cosines.
    """
    texts = kernel if isinstance(kernel, tuple) else (kernel,)
    kernels = tuple(map(kernel_named, texts))
    if not kernels:
        raise ValueError(f"kernel={kernel!r}: kernel must name at least one kernel")
    if len(kernels) > 1:
        for text, each in zip(texts, kernels, strict=True):
            if not mixable(each):
                raise ValueError(
                    f"kernel={kernel!r}: {text!r} cannot be mixed with other kernels; use it alone"
                )
    return kernels


def directions_of(kernels: tuple[Kernel, ...], directions: str) -> str:
    """Return the directions in use: automatic ones are keyed where a kernel has none that are structured."""
    return "keyed" if directions == AUTO and any(family(k) == CAUCHY for k in kernels) else directions


def check_parameters(values: Json, losses: Sequence[str]) -> None:
    """Raise a ValueError that names the first parameter of a learner with a value it cannot have."""
    check_map(values)
    loss = values["loss"]
    _require(("loss", loss, _among(loss, losses), " or ".join(map(repr, losses))))
    for name, value in values.items():
        if name in _CHECKS:
            valid, wanted = _CHECKS[name]
            _require((name, value, valid(value), wanted))
    if "rank" in values:
        rank, features = values["rank"], values["features"]
        _require(("rank", rank, rank < features, f"less than features={features}"))
    if values.get("growth", "fixed") != "fixed":
        features, most = values["features"], values["max_features"]
        _require(
            ("features", features, features % GROUP == 0, f"a multiple of {GROUP} if they grow"),
            ("max_features", most, most >= features, f"at least features={features}"),
        )


_EXPERTS = "binning", "neighbours", "products", "logarithm", "retired"


def check_mixture(values: Json, parts: int) -> None:
    """Raise a ValueError that names the first parameter of a mixture with a value it cannot have."""
    whole, features, seed = parts * GROUP, values["features"], values["seed"]
    fits = _whole(features, whole, 2**20 + 1) and features % whole == 0
    _require(
        ("features", features, fits, f"a multiple of {whole}, at most {2**20:,}"),
        ("label_memory", values["label_memory"], _flag(values["label_memory"]), "True or False"),
        ("relevance", values["relevance"], _flag(values["relevance"]), "True or False"),
        *((name, values[name], _flag(values[name]), "True or False") for name in _EXPERTS if name in values),
        ("budget", values["budget"], _among(values["budget"], BUDGETS), " or ".join(map(repr, BUDGETS))),
        _seed(seed),
    )


def check_detector(values: Json, shortest: int) -> None:
    """Raise a ValueError that names the first parameter of a drift detector with a value it cannot have.

    ``shortest`` is the number of events of its shortest window.
    """
    rate, size, window, features, seed = (
        values[name] for name in ("false_alarms", "reference", "window", "features", "seed")
    )
    fits = _whole(size, 64, 2**20 + 1)
    _require(("reference", size, fits, "a whole number from 64 to 1,048,576"))
    most = 0.75 / size
    power = _whole(window, shortest, size + 1) and window & (window - 1) == 0
    blocks = _whole(features, 1, 2**16 + 1) and features % GROUP == 0
    _require(
        ("false_alarms", rate, 0.0 < number(rate) <= most, f"above 0 and at most 0.75/reference, {most:g}"),
        ("window", window, power, f"a power of two from {shortest} to reference={size}"),
        ("features", features, blocks, f"a multiple of {GROUP}, at most 65,536"),
        _seed(seed),
    )


def check_exact(values: Json, **choices: tuple[str, ...]) -> None:
    """Raise a ValueError that names the first parameter of an exact solver with a value it cannot have.

    ``choices`` are the strings that some parameters may be.
    """
    kernel_named(values["kernel"])
    bandwidth = values["bandwidth"]
    _require(
        ("bandwidth", bandwidth, bandwidth is None or _positive(bandwidth), "None or a number above 0"),
        *((name, values[name], _among(values[name], each), " or ".join(map(repr, each)))
          for name, each in choices.items()),
        *((name, value, _EXACT[name][0](value), _EXACT[name][1])
          for name, value in values.items() if name in _EXACT),
        _seed(values["seed"]),
    )  # fmt: skip


def check_level(level: float) -> None:
    """Raise a ValueError if this cannot be the level of a prediction interval."""
    _require(("level", level, _positive(level) and level <= HIGHEST, f"above 0 and at most {HIGHEST:g}"))


def check_map(values: Json) -> None:
    """Raise a ValueError that names the first parameter of a feature map with a value it cannot have."""
    kernels, bandwidth = kernels_of(values["kernel"]), values["bandwidth"]
    scales, features = values["scales"], values["features"]
    directions, seed = values["directions"], values["seed"]
    _require(
        ("bandwidth", bandwidth, bandwidth is None or _positive(bandwidth), "None or a number above 0"),
        ("scales", scales, _all_positive(scales), "a tuple of numbers above 0"),
        ("features", features, _whole(features, 1, 2**24 + 1), f"a whole number from 1 to {2**24:,}"),
        ("directions", directions, _among(directions, CHOICES), " or ".join(map(repr, CHOICES))),
        _seed(seed),
    )
    if isinstance(kernels[0], Polynomial):
        sketch_size(features, len(scales))
    if directions == "structured" and any(family(kernel) == CAUCHY for kernel in kernels):
        raise ValueError(
            "directions='structured': the laplacian kernel has a direction for every feature and input, "
            "which no fast transform makes; use 'keyed' or 'dense'"
        )


def _require(*requirements: tuple[str, object, bool, str]) -> None:
    for name, value, valid, wanted in requirements:
        if not valid:
            raise ValueError(f"{name}={value!r}: {name} must be {wanted}")


def _seed(seed: object) -> tuple[str, object, bool, str]:
    """Return what is required of a seed."""
    return "seed", seed, seed is None or _whole(seed, 0, 2**63), "None or a whole number below 2**63"


def _positive(value: object, least: float = math.ulp(0.0)) -> bool:
    return least <= number(value) < math.inf and not isinstance(value, bool)


def _all_positive(values: Sequence[object]) -> bool:
    return isinstance(values, (tuple, list)) and len(values) > 0 and all(map(_positive, values))


def _whole(value: object, least: int, limit: float = math.inf) -> bool:
    return (
        isinstance(value, (int, np.integer)) and not isinstance(value, bool) and least <= int(value) < limit
    )


def _among(value: object, choices: Collection[str]) -> bool:
    return isinstance(value, str) and value in choices


def _flag(value: object) -> bool:
    return isinstance(value, bool)


_Checks = dict[str, tuple[Callable[[Any], bool], str]]
_FLAG = _flag, "True or False"
_EXACT: _Checks = {
    "gamma": (lambda v: _positive(v, 1e-12) and v <= 1e12, "a number from 1e-12 to 1e12"),
    "block": (lambda v: _whole(v, 1, 2**16), "a whole number, at least 1 and below 65,536"),
    "columns": (
        lambda v: v is None or _whole(v, 1, 2**16),
        "None or a whole number, at least 1 and below 65,536",
    ),
    "ridge": (lambda v: _positive(v, 1e-12) and v <= 1e12, "a number from 1e-12 to 1e12"),
    "penalty": (lambda v: _positive(v, 1e-12) and v <= 1e12, "a number from 1e-12 to 1e12"),
    "tolerance": (lambda v: 1e-12 <= number(v) < 1.0, "a number from 1e-12 to below 1"),
    "keep_columns": _FLAG,
    "steps": (lambda v: v is None or _whole(v, 1, 2**31), "None or a whole number, at least 1"),
    "committee": (lambda v: _whole(v, 1, 1024), "a whole number from 1 to 1,023"),
    "validation": (lambda v: 0.0 <= number(v) <= 0.5, "a number from 0 to 0.5"),
    "rows": (lambda v: _whole(v, 1, 2**31), "a whole number, at least 1 and below 2**31"),
    "scale_inputs": _FLAG,
    "centers": (lambda v: _whole(v, 1, 2**16), "a whole number, at least 1 and below 65,536"),
    "epochs": (lambda v: _whole(v, 1, 2**31), "a whole number, at least 1"),
    "subsample": (lambda v: v is None or _whole(v, 1, 2**16), "None or a whole number, at least 1"),
    "rank": (lambda v: v is None or _whole(v, 0, 2**16), "None or a whole number, at least 0"),
    "batch": (lambda v: v is None or _whole(v, 1, 2**24), "None or a whole number, at least 1"),
}
_CHECKS: _Checks = {
    "growth": (lambda v: _among(v, GROWTHS), " or ".join(map(repr, GROWTHS))),
    "period": (lambda v: _whole(v, 1, 2**53), "a whole number, at least 1"),
    "max_features": (lambda v: _whole(v, 1, 2**24 + 1), f"a whole number from 1 to {2**24:,}"),
    "batch_size": (lambda v: _whole(v, 1, 2**31), "a whole number, at least 1 and below 2**31"),
    "precondition": _FLAG,
    "step": (lambda v: v is None or (_positive(v) and v <= 1e12), "None or a number above 0, at most 1e12"),
    "revisits": (lambda v: _whole(v, 0, 2**31), "a whole number, at least 0"),
    "quantile": (lambda v: 0.0 < number(v) < 1.0, "a number between 0 and 1"),
    "ridge": (lambda v: _positive(v, 1e-12) and v <= 1e12, "a number from 1e-12 to 1e12"),
    "rank": (lambda v: _whole(v, 1, 4097) and v % LANES == 0, f"a multiple of {LANES}, at most 4096"),
    "regularization": (lambda v: _positive(v, 0.0), "a number, at least 0"),
    "memory": (lambda v: v is None or _whole(v, 0, 2**53), "None or a whole number"),
    "average": _FLAG,
    "block_size": (lambda v: _whole(v, 1, 2**31), "a whole number, at least 1 and below 2**31"),
    "scale_inputs": _FLAG,
    "scale_target": _FLAG,
}
