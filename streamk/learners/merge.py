"""Merging learners: models with the same seed are linear in their coefficients.

With the same features, the weighted mean of some models' outputs is the model with the weighted mean of their
coefficients (the averaging of Andrecut 2016, eqs. 67 and 68): several machines learn parts of a stream, and
one model predicts. Outputs are matched by label, features by name; what one of them lacks is 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from streamk.learners.base import KernelLearner
from streamk.learners.events import EVENTS, KNOWN, STEPS, TARGET
from streamk.parameters import check_weights
from streamk.scaling import spread

Array = NDArray[np.float64]
_Learner = TypeVar("_Learner", bound=KernelLearner)


def merge(models: Sequence[_Learner], weights: Sequence[float] | None = None) -> _Learner:
    """Return one learner whose outputs are the weighted mean of those of several.

    Exact, but for float32 rounding, if numbers are not scaled (``scale_inputs=False``). Scaled numbers have
    statistics of their own in each model; they are pooled, and the merged model is as close to the mean as
    the statistics are to one another. Pooled targets of regression are exact. The learners must have the same
    parameters and the same seed; they are left as they are.

    Parameters
    ----------
    models
        Learners of one class. One that has learned nothing adds nothing.
    weights
        How much each counts, at least 0 and not all 0; by default the number of events it learned. One of
        weight 0 is left out.

    Raises
    ------
    ValueError
        If the models are of different classes, parameters, seeds or bandwidths, if events wait for their
        block in one of them, or if positions of numbers differ where directions are tied to them.

    Examples
    --------
    >>> import streamk
    >>> halves = [streamk.KaczmarzClassifier(scale_inputs=False, bandwidth=1.0, seed=7) for _ in range(2)]
    >>> for i in range(200):
    ...     halves[i % 2].learn_one({"x": i % 5}, i % 5 > 2)
    >>> whole = streamk.merge(halves)
    >>> whole.events, whole.predict_one({"x": 4})
    (200, True)
    """
    if not isinstance(models, Sequence) or not all(isinstance(model, KernelLearner) for model in models):
        raise ValueError("models must be a list of streamk learners")
    if not models:
        raise ValueError("there is no model to merge; give at least one")
    shares = _shares(models, weights)
    parts = [model._to_parts() for model in models]
    learned = [k for k, model in enumerate(models) if model._expansion is not None]
    _check_alike(models, [header for header, _ in parts], learned)
    learned = [k for k in learned if shares[k] > 0.0]
    if not learned:
        blank = shares.index(max(shares))
        return models[blank]._copied(*parts[blank])
    total = sum(shares[k] for k in learned)
    chosen = [Part(models[k], *parts[k], shares[k] / total) for k in learned]
    header = dict(chosen[0].header)
    header["numbers"] = _union(part.header["numbers"] for part in chosen)
    header["openings"] = max(part.header["openings"] for part in chosen)
    if "labels" in header:
        header["labels"] = _union(part.header["labels"] for part in chosen)
    state = _state(chosen, header)
    mixed: dict[str, NDArray[Any]] = {
        "state": state,
        "statistics": _statistics(chosen, header["numbers"]),
        "coefficients": _coefficients(chosen, header, state),
    }
    merged = type(models[0])._from_parts(header, mixed)
    merged._merge_open_blocks([part.model for part in chosen])
    return merged


class Part(NamedTuple):
    """One of the models, taken apart, and its share of the whole."""

    model: KernelLearner
    header: dict[str, Any]
    arrays: dict[str, NDArray[Any]]
    share: float


def _shares(models: Sequence[KernelLearner], weights: Sequence[float] | None) -> list[float]:
    if weights is None:
        return [float(model.events) for model in models]
    given = check_weights(weights, len(models), "weights").tolist()
    if not any(given):
        raise ValueError("all weights are 0; at least one model must count")
    return [weight / max(given) for weight in given]


def _check_alike(
    models: Sequence[KernelLearner], headers: Sequence[dict[str, Any]], learned: Sequence[int]
) -> None:
    for k, model in enumerate(models):
        if type(model) is not type(models[0]):
            raise ValueError(
                f"model {k} is a {type(model).__name__} and model 0 a {type(models[0]).__name__}"
            )
        ours, theirs = ({**h["parameters"], "seed": None} for h in (headers[0], headers[k]))
        for name in ours:
            if ours[name] != theirs[name]:
                raise ValueError(f"model {k} has {name}={theirs[name]!r} and model 0 {name}={ours[name]!r}")
        if model.pending:
            raise ValueError(
                f"{model.pending} events of model {k} wait for their block to fill; flush() it first"
            )
    for k in learned:
        first = headers[learned[0]]
        for name in ("seed", "bandwidth", "directions", "slots"):
            if headers[k][name] != first[name]:
                raise ValueError(
                    f"model {k} has {name} {headers[k][name]!r} and model {learned[0]} {first[name]!r}: "
                    "their features differ, so their coefficients cannot be merged; give all models the same "
                    f"{name}{_REMEDY.get(name, '')} before they learn"
                )
        kinds = [
            type(labels[0]).__name__ for labels in (first.get("labels"), headers[k].get("labels")) if labels
        ]
        if len(set(kinds)) > 1:
            raise ValueError(f"model {k} has labels of type {kinds[1]} and model {learned[0]} {kinds[0]}")
        if models[k]._inputs.positional:
            ours, theirs = first["numbers"], headers[k]["numbers"]
            shared = min(len(ours), len(theirs))
            if ours[:shared] != theirs[:shared]:
                raise ValueError(
                    f"model {k} met its numbers in another order than model {learned[0]}, and "
                    f"{first['directions']} directions are tied to their positions; use directions='keyed'"
                )


_REMEDY = {"slots": " (names of numbers in the first event)"}


def _union(lists: Iterable[list[Any]]) -> list[Any]:
    return list(dict.fromkeys(chain.from_iterable(lists)))


def _state(parts: Sequence[Part], header: dict[str, Any]) -> Array:
    """Return the counters: events and steps add up, targets are pooled, the calibration is averaged."""
    states = np.array([part.arrays["state"] for part in parts])
    shares = np.array([part.share for part in parts])
    merged: Array = shares @ states
    merged[EVENTS], merged[STEPS] = states[:, EVENTS].sum(), states[:, STEPS].sum()
    merged[KNOWN] = len(header["labels"]) if "labels" in header else states[:, KNOWN].max()
    count, mean = states[:, TARGET].sum(), merged[TARGET + 1]
    seen = np.maximum(states[:, TARGET], 1.0)
    variances = states[:, TARGET + 2] / seen + (states[:, TARGET + 1] - mean) ** 2
    merged[TARGET], merged[TARGET + 2] = count, count * (shares @ variances)
    return merged


def _statistics(parts: Sequence[Part], names: Sequence[str]) -> Array:
    """Pool the statistics of the inputs: count, mean and sum of squared deviations of all that was seen."""
    scaled = len(parts[0].arrays["statistics"]) > 0
    pooled = np.zeros((len(names) if scaled else 0, 3))
    for slot, name in enumerate(names if scaled else ()):
        seen = [part.arrays["statistics"][part.header["numbers"].index(name)] for part in parts
                if name in part.header["numbers"]]  # fmt: skip
        counts, means, squares = np.array(seen).T
        count = max(counts.sum(), 1.0)
        mean = counts @ means / count
        pooled[slot] = counts.sum(), mean, squares.sum() + counts @ (means - mean) ** 2
    return pooled


def _coefficients(parts: Sequence[Part], header: dict[str, Any], state: Array) -> NDArray[np.float32]:
    """Return the weighted mean of the coefficients, each in the units of the merged targets."""
    shapes = [part.arrays["coefficients"].shape for part in parts]
    outputs = len(header["labels"]) if "labels" in header else 1
    mean = np.zeros((*shapes[0][:2], max(outputs, 1), max(shape[3] for shape in shapes)))
    unit = spread(state, TARGET)
    for part, shape in zip(parts, shapes, strict=True):
        share = part.share
        if "labels" not in header:
            share = share * spread(part.arrays["state"], TARGET) / unit if unit else 0.0
        rows = [header["labels"].index(v) for v in part.header["labels"]] if "labels" in header else [0]
        mean[:, :, rows, : shape[3]] += share * part.arrays["coefficients"][:, :, : len(rows)]
    return mean.astype(np.float32)
