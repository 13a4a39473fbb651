"""Merging learners: several that learned parts of a stream become one that knows what all of them know.

Each of the four values merges by its own rule: the codec pools names, scales and labels; the map is the same;
experts merge by what they know (first order: the weighted mean of coefficients; second order: by information,
exactly); the combiner averages its calibration. Outputs are matched by label, features by name; what one of
them lacks is 0.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from streamk.encoding.codec import Unit
from streamk.encoding.recall import SHARED
from streamk.encoding.targets import check_weights
from streamk.experts.expert import Expert
from streamk.features.plain import LINEAR, PLAIN, in_use
from streamk.features.relevance import BLOCKS
from streamk.features.sections import Sections
from streamk.learners.base import KernelLearner
from streamk.learners.learner import Learner
from streamk.learners.mergeable import check_alike, check_maps

_Learner = TypeVar("_Learner", bound=KernelLearner)


def merge(
    models: Sequence[_Learner],
    weights: Sequence[float] | None = None,
    base: _Learner | None = None,
) -> _Learner:
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
    base
        What all of them knew before they learned apart: each is a copy of it that has learned on. What it
        knows is then counted once, and what adds up is ``base + Σ (model − base)``; means are weighed by the
        events learned since. Merged models of the same base can be merged again.

    Raises
    ------
    ValueError
        If the models are of different classes, parameters or seeds, if events wait for their block in one of
        them, if a learner with nothing to tune was closed, if positions of numbers differ where directions
        are tied to them, if a model has learned less than ``base``, or if there are both weights and a base.

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
    if base is not None:
        return _merged_since(models, weights, base)
    shares, called = _shares(models, weights), [f"model {k}" for k in range(len(models))]
    check_alike(models, called)
    learned = [k for k, model in enumerate(models) if model._map is not None]
    check_maps(models, learned, called)
    chosen = [k for k in learned if shares[k] > 0.0]
    if len(chosen) < 2:
        only = chosen[0] if chosen else shares.index(max(shares))
        return models[only]._from_parts(*models[only]._to_parts())
    total = sum(shares[k] for k in chosen)
    return _merged([models[k] for k in chosen], [shares[k] / total for k in chosen])


def _merged_since(models: Sequence[_Learner], weights: Sequence[float] | None, base: _Learner) -> _Learner:
    if weights is not None:
        raise ValueError(
            "models that have learned on from a base are weighed by the events since; leave out weights"
        )
    if not isinstance(base, KernelLearner):
        raise ValueError("the base must be a streamk learner that can be merged")
    if base._map is None:
        return merge(models)
    called = ["the base", *(f"model {k}" for k in range(len(models)))]
    check_alike([base, *models], called)
    for k, model in enumerate(models):
        if model.events < base.events:
            raise ValueError(
                f"model {k} has learned {model.events} events and the base {base.events}: it has not gone on "
                "from the base"
            )
    check_maps([base, *models], range(1 + len(models)), called)
    chosen = [model for model in models if model.events > base.events]
    if len(chosen) < 2:
        only = chosen[0] if chosen else base
        return only._from_parts(*only._to_parts())
    total = sum(model.events - base.events for model in chosen)
    return _merged(chosen, [(model.events - base.events) / total for model in chosen], base)


def _merged(parts: Sequence[_Learner], shares: Sequence[float], base: _Learner | None = None) -> _Learner:
    first = parts[0]._map
    assert first is not None
    merged = type(parts[0])(**parts[0]._get_params())
    merged._codec.absorb([part._codec for part in parts], None if base is None else base._codec)
    latest = max(parts, key=lambda part: part._growth.openings)._growth
    merged._growth.count(latest.openings)
    made = merged._make_map(first.seed, first.slots)
    columns = [_places(part, merged) for part in parts]
    if made.sections is not None:
        made.sections.take([_sections(part) for part in parts], columns, base is not None)
        made.renew()
    counts = None
    if base is not None:
        counts = [1.0] * len(parts) + [1.0 - len(parts)]
        parts, shares, columns = [*parts, base], [*shares, 0.0], [*columns, _places(base, merged)]
    merged._grow(merged._codec.outputs, latest.blocks * latest.size)
    moves = [_moves(part, merged) for part in parts] if made.sections is not None else []
    for k, expert in enumerate(merged._experts):
        experts = [part._experts[k] for part in parts]
        if moves:
            experts = [_moved(expert, places) for expert, places in zip(experts, moves, strict=True)]
        expert.take(experts, shares, columns, None if base is None else _counts(k, parts, merged))
    if not all(expert.is_open for expert in merged._experts):
        merged._growth.open_again()
    merged._combiner.take([part._combiner for part in parts], shares, counts)
    if merged._asked is not None:
        merged._asked.begin(merged._live(), merged.events)
    return merged


def _counts(k: int, parts: Sequence[KernelLearner], merged: KernelLearner) -> list[float]:
    """Return how often what experts number ``k`` know is added up; the others have gone on from the last one.

    What the last one knows is in each of the others, and counts once. But an expert that has begun anew has
    forgotten it, and so has one on a block of features under relevance that has, be it under the same one.
    """
    assert merged._map is not None
    *models, base = parts
    still = [m._experts[k].goes_on_from(base._experts[k]) for m in models]
    if merged._map.sections is not None:
        sections, before = merged._map.sections, _sections(base)
        for block in range(BLOCKS):
            if merged._experts[k].within(sections.columns_of_part(1 + block)):
                still = [
                    goes_on and not _begun_anew(block, m, base) and before.has_block_of(_sections(m), block)
                    for goes_on, m in zip(still, models, strict=True)
                ]
    return [*[1.0] * len(models), float(any(still)) - sum(still)]


def _begun_anew(block: int, part: KernelLearner, base: KernelLearner) -> bool:
    """Return whether a block under relevance has begun anew since a learner went on from another."""
    return any(opening % BLOCKS == block for opening in part._growth.since(base._growth, base.events))


def _sections(part: KernelLearner) -> Sections:
    assert part._map is not None
    assert part._map.sections is not None
    return part._map.sections


def _moved(expert: Expert, places: NDArray[np.int64]) -> Expert:
    """Return an expert whose columns have moved, a copy if any has."""
    if np.array_equal(places, np.arange(len(places))):
        return expert
    copied = copy.deepcopy(expert)
    copied.rearrange(places)
    return copied


def _moves(part: KernelLearner, merged: KernelLearner) -> NDArray[np.int64]:
    """Return where the columns of a part's map stand in the merged learner's, −1 for nowhere.

    Features under another relevance than the merged learner's are other features: it knows nothing of them.
    """
    ours, theirs = _sections(merged), _sections(part)
    columns = {key: column for column, key in enumerate(in_use(ours.keys), 1)}
    moved = {column: columns.get(key, -1) for column, key in enumerate(in_use(theirs.keys), 1)}
    moved[0] = 0
    if not part._classifies:
        moved |= {column: column for column in range(LINEAR, PLAIN)}
    else:
        rows, _ = _places(part, merged)
        for k, row in enumerate(rows[:SHARED]):
            for first in (LINEAR, LINEAR + SHARED):
                moved[first + k] = first + row if row < SHARED else -1
    plain = np.arange(PLAIN)
    if any(column != place for column, place in moved.items()):  # what is not in use has no place
        plain[:] = -1
        plain[list(moved)] = list(moved.values())
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
