"""Merging learners: several that learned parts of a stream become one that knows what all of them know.

Each of the four values merges by its own rule: the codec pools names, scales and labels; the map is the same;
experts merge by what they know (first order: the weighted mean of coefficients; second order: by information,
exactly); the combiner averages its calibration. Outputs are matched by label, features by name; what one of
them lacks is 0.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from streamk.encoding.codec import Unit
from streamk.encoding.recall import SHARED
from streamk.encoding.targets import check_weights
from streamk.experts.expert import Expert
from streamk.experts.least_squares import LeastSquares
from streamk.features.plain import LINEAR, PLAIN, in_use
from streamk.features.relevance import BLOCKS
from streamk.features.sections import Sections
from streamk.features.segments import slots_of_first
from streamk.learners.base import KernelLearner
from streamk.learners.learner import Learner

_Learner = TypeVar("_Learner", bound=KernelLearner)


def merge(models: Sequence[_Learner], weights: Sequence[float] | None = None) -> _Learner:
    """Return one learner that knows what several know together.

    If numbers and targets are not scaled (``scale_inputs=False``, ``scale_target=False``), the outputs of
    Kaczmarz and doubly stochastic learners are the weighted mean of the models' outputs, and an open block of
    least squares is that of one learner which saw all events, but for rounding. Running scales differ from
    model to model; they are pooled, and the merged model is as close as the scales are to one another. The
    learners must have the same parameters and the same seed; they are left as they are.

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
        If the models are of different classes, parameters or seeds, if events wait for their block in one of
        them, if a learner with nothing to tune was closed, or if positions of numbers differ where directions
        are tied to them.

    Examples
    --------
    >>> import streamk
    >>> halves = [streamk.KaczmarzClassifier(seed=7) for _ in range(2)]
    >>> for i in range(200):
    ...     halves[i % 2].learn_one({"x": i % 5}, i % 5 > 2)
    >>> whole = streamk.merge(halves)
    >>> whole.events, whole.predict_one({"x": 4})
    (200, True)
    """
    if not isinstance(models, Sequence) or not all(isinstance(model, Learner) for model in models):
        raise ValueError("models must be a list of streamk learners")
    if not models:
        raise ValueError("there is no model to merge; give at least one")
    for model in models:
        if not isinstance(model, KernelLearner):
            raise ValueError(
                f"{type(model).__name__} keeps events or centers and cannot be merged; let one learner learn "
                "the events of all"
            )
    shares = _shares(models, weights)
    _check_alike(models)
    learned = [k for k, model in enumerate(models) if model._map is not None]
    _check_maps(models, learned)
    chosen = [k for k in learned if shares[k] > 0.0]
    if len(chosen) < 2:
        only = chosen[0] if chosen else shares.index(max(shares))
        return models[only]._from_parts(*models[only]._to_parts())
    total = sum(shares[k] for k in chosen)
    return _merged([models[k] for k in chosen], [shares[k] / total for k in chosen])


def _merged(parts: Sequence[_Learner], shares: Sequence[float]) -> _Learner:
    first = parts[0]._map
    assert first is not None
    merged = type(parts[0])(**parts[0]._get_params())
    merged._codec.absorb([part._codec for part in parts])
    latest = max(parts, key=lambda part: part._growth.openings)._growth
    merged._growth.count(latest.openings)
    made = merged._make_map(first.seed, first.slots)
    columns = [_places(part, merged) for part in parts]
    if made.sections is not None:
        made.sections.take([_sections(part) for part in parts], columns)
        made.renew()
    merged._grow(merged._codec.outputs, latest.blocks * latest.size)
    moves = [_moves(part, merged) for part in parts] if made.sections is not None else []
    for k, expert in enumerate(merged._experts):
        experts = [part._experts[k] for part in parts]
        if moves:
            experts = [_moved(expert, places) for expert, places in zip(experts, moves, strict=True)]
        expert.take(experts, shares, columns)
    if not all(expert.is_open for expert in merged._experts):
        merged._growth.open_again()
    merged._combiner.take([part._combiner for part in parts], shares)
    if merged._asked is not None:
        merged._asked.begin(merged._live(), merged.events)
    return merged


def _sections(part: KernelLearner) -> Sections:
    assert part._map is not None
    assert part._map.sections is not None
    return part._map.sections


def _moved(expert: Expert, places: NDArray[np.int64]) -> Expert:
    """Return a copy of an expert whose columns have moved."""
    copied = copy.deepcopy(expert)
    copied.rearrange(places)
    return copied


def _moves(part: KernelLearner, merged: KernelLearner) -> NDArray[np.int64]:
    """Return where the columns of a part's map stand in the merged learner's, −1 for nowhere.

    Features under another relevance than the merged learner's are other features: it knows nothing of them.
    """
    ours, theirs = _sections(merged), _sections(part)
    columns = {key: column for column, key in enumerate(in_use(ours.keys), 1)}
    plain = np.full(PLAIN, -1)
    plain[0] = 0
    for column, key in enumerate(in_use(theirs.keys), 1):
        plain[column] = columns.get(key, -1)
    labels = range(LINEAR, PLAIN)
    plain[labels] = labels
    if part._classifies:
        rows, _ = _places(part, merged)
        plain[labels] = -1
        for k, row in enumerate(rows[:SHARED]):
            if row < SHARED:
                plain[[LINEAR + k, LINEAR + SHARED + k]] = [LINEAR + row, LINEAR + SHARED + row]
    places = np.arange(ours.width)
    for part_of in range(1 + BLOCKS):
        start = ours.columns_of_part(part_of).start
        places[start : start + PLAIN] = np.where(plain < 0, -1, plain + start)
        if part_of and not ours.has_block_of(theirs, part_of - 1):
            places[start + PLAIN : ours.columns_of_part(part_of).stop] = -1
    return places


def _places(part: KernelLearner, merged: KernelLearner) -> tuple[list[int], Unit]:
    """Return where the outputs of a part go, and the unit of its targets."""
    unit = part._codec.unit_in(merged._codec)
    if part._codec.labels is None or merged._codec.labels is None:
        return [0], unit
    codes = merged._codec.labels.codes
    return [codes[label] for label in part._codec.labels.values[: part._outputs]], unit


def _shares(models: Sequence[KernelLearner], weights: Sequence[float] | None) -> list[float]:
    if weights is None:
        return [float(model.events) for model in models]
    given = check_weights(weights, len(models), "weights").tolist()
    if not any(given):
        raise ValueError("all weights are 0; at least one model must count")
    return [weight / max(given) for weight in given]


def _check_alike(models: Sequence[KernelLearner]) -> None:
    for k, model in enumerate(models):
        if type(model) is not type(models[0]):
            raise ValueError(
                f"model {k} is a {type(model).__name__} and model 0 a {type(models[0]).__name__}"
            )
        ours, theirs = ({**m._get_params(), "seed": None} for m in (models[0], model))
        for name in ours:
            if ours[name] != theirs[name]:
                raise ValueError(f"model {k} has {name}={theirs[name]!r} and model 0 {name}={ours[name]!r}")
        if model.pending:
            raise ValueError(
                f"{model.pending} events of model {k} wait for their block to fill; flush() it first"
            )
        if any(_is_closed(expert) for expert in model._experts):
            raise ValueError(
                f"model {k} was closed, and does not know any more how well it knows its coefficients; "
                "merge models as they were before closed()"
            )


def _is_closed(expert: Expert) -> bool:
    """Return whether least squares have coefficients, and no knowledge of how well these are known."""
    return isinstance(expert, LeastSquares) and not len(expert.joined) and bool(expert.coefficients.any())


def _check_maps(models: Sequence[KernelLearner], learned: Sequence[int]) -> None:
    """Raise a ValueError unless the models that have learned have the same features."""
    for k in learned[1:]:
        first = learned[0]
        ours, theirs = (_identity(models[m]) for m in (first, k))
        for name, remedy in _REMEDIES.items():
            if ours[name] != theirs[name]:
                raise ValueError(
                    f"model {k} has {name} {theirs[name]!r} and model {first} {ours[name]!r}: "
                    f"their features differ, so they cannot be merged; {remedy}"
                )
        known = [models[m]._codec.labels for m in (first, k)]
        kinds = [type(labels.values[0]).__name__ for labels in known if labels is not None and labels.values]
        if len(set(kinds)) > 1:
            raise ValueError(f"model {k} has labels of type {kinds[1]} and model {first} {kinds[0]}")
        if models[k]._codec.inputs.positional:
            names = [list(models[m]._codec.inputs.numbers) for m in (first, k)]
            shared = min(map(len, names))
            if names[0][:shared] != names[1][:shared]:
                raise ValueError(
                    f"model {k} met its numbers in another order than model {first}, and "
                    f"{ours['directions']} directions are tied to their positions; use directions='keyed'"
                )


_REMEDIES = {
    "seed": "give all models the same seed before they learn",
    "directions": "use directions='keyed', which do not depend on the first event",
    "slots": "use directions='keyed', or let the first events have as many numbers",
}


def _identity(model: KernelLearner) -> dict[str, Any]:
    assert model._map is not None
    slots = model._map.slots
    return {
        "seed": model._map.seed,
        "directions": model._codec.inputs.directions,
        "slots": None if slots is None else slots_of_first(slots),
    }
