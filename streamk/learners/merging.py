"""Merging: several learners that learned parts of a stream become one.

:func:`merge` checks the models and chooses their weights. Each kind of learner registers how its state is
merged (:func:`merge_into`). The four values of a streaming learner have one rule each: the codec pools
names, scales and labels; the map is the same; experts merge coefficients (first order: the weighted mean;
second order: exactly, by information); the combiner averages its calibration. Outputs are matched by label,
features by name; coefficients that a model does not have are 0.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from functools import singledispatch
from typing import Any, TypeVar

import numpy as np

from streamk.arrays import Array, Integers, Json
from streamk.encoding.codec import Unit
from streamk.encoding.label_history import MEAN, NUMBERS, SHARED
from streamk.encoding.targets import check_weights
from streamk.experts.expert import Columns, Expert, Merge
from streamk.experts.least_squares import LeastSquares
from streamk.experts.tables import Tables
from streamk.features.columns.plain import LINEAR, PLAIN, in_use
from streamk.features.relevance import BLOCKS
from streamk.features.sections import Sections
from streamk.features.structured import slots_of_first
from streamk.learners.learner import Learner
from streamk.learners.refitting import pooled, refit, share_sample
from streamk.learners.streaming import StreamingLearner
from streamk.learners.tails import restarted_since

_Learner = TypeVar("_Learner", bound=Learner)


def merge(
    models: Sequence[_Learner],
    weights: Sequence[float] | None = None,
    base: _Learner | None = None,
) -> _Learner:
    """Return one learner that combines the state of several; they are not changed.

    The learners must have the same parameters and the same seed. If numbers and targets are not scaled
    (``scale_inputs=False``, ``scale_target=False``), the outputs of merged Kaczmarz and doubly stochastic
    learners are the weighted mean of the models' outputs, and a merged open block of least squares is that of
    one learner of all events, up to rounding. Running scales differ between models; they are pooled, and
    these equalities hold as closely as the scales agree. For learners that store a sample of events, the
    samples become a uniform sample of all events, which is solved if there are 1.5 times as many events as
    were solved before. For EigenPro, whose centers must be the same, the coefficients become their mean.

    Parameters
    ----------
    models
        Learners of one class. A model without events has no effect.
    weights
        One number for each model, at least 0 and not all 0; by default the number of events it learned. A
        model of weight 0 is skipped.
    base
        The common ancestor: each model is a copy of it that has learned more events. The state of the base
        then counts once: sums become ``base + Σ (model − base)``, and means are weighted by the events
        learned since. Merged models of one base can be merged again.

    Raises
    ------
    ValueError
        If the models have different classes, parameters or seeds; if events of a model wait for their block;
        if a model was closed and so lost the state that merging needs; if positions of numbers differ where
        directions depend on them; if a model has learned fewer events than ``base``; if both weights and a
        base are passed; or if weights are passed for learners that store samples.

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
    merged = joined(models, weights, base)
    merged._settle()
    return merged


def joined(
    models: Sequence[_Learner], weights: Sequence[float] | None = None, base: _Learner | None = None
) -> _Learner:
    """Return the merged model without the work that is due after merging: it may be merged again."""
    if base is not None:
        return _merged_since(models, weights, base)
    shares, called = _shares(models, weights), [f"model {k}" for k in range(len(models))]
    _check_alike(models, called)
    learned = [k for k, model in enumerate(models) if model._has_begun]
    _check_same([models[k] for k in learned], [called[k] for k in learned])
    chosen = [k for k in learned if shares[k] > 0.0]
    if len(chosen) < 2:
        only = chosen[0] if chosen else shares.index(max(shares))
        return models[only]._from_parts(*models[only]._to_parts())
    total = sum(shares[k] for k in chosen)
    return _absorbed([models[k] for k in chosen], [shares[k] / total for k in chosen], None)


def _merged_since(models: Sequence[_Learner], weights: Sequence[float] | None, base: _Learner) -> _Learner:
    if weights is not None:
        raise ValueError(
            "models that continue from a base are weighted by events; give a base or weights, not both"
        )
    if not isinstance(base, Learner):
        raise ValueError("the base must be a streamk learner that can be merged")
    if not base._has_begun:
        return joined(models)
    called = ["the base", *(f"model {k}" for k in range(len(models)))]
    _check_alike([base, *models], called)
    for k, model in enumerate(models):
        if model.events < base.events:
            raise ValueError(
                f"model {k} has learned {model.events} events and the base {base.events}: it does not "
                "continue from the base"
            )
    _check_same([base, *models], called)
    chosen = [model for model in models if model.events > base.events]
    if len(chosen) < 2:
        only = chosen[0] if chosen else base
        return only._from_parts(*only._to_parts())
    total = sum(model.events - base.events for model in chosen)
    return _absorbed(chosen, [(model.events - base.events) / total for model in chosen], base)


def _check_same(models: Sequence[Learner], called: Sequence[str]) -> None:
    if models:
        _check_codecs(models, called)
        check_features(models[0], models, called)


def _absorbed(parts: Sequence[_Learner], shares: Sequence[float], base: _Learner | None) -> _Learner:
    merged = type(parts[0])(**parts[0]._get_params())
    merge_into(merged, parts, shares, base)
    return merged


def _shares(models: Sequence[Learner], weights: Sequence[float] | None) -> list[float]:
    if weights is None:
        return [float(model.events) for model in models]
    checked = check_weights(weights, len(models), "weights").tolist()
    if not any(checked):
        raise ValueError("all weights are 0; at least one model must count")
    return [weight / max(checked) for weight in checked]


@singledispatch
def check_mergeable(model: Learner, name: str) -> None:
    """Raise a ValueError, which calls the model ``name``, if it has lost state that merging needs."""


@singledispatch
def check_features(first: Learner, models: Sequence[object], called: Sequence[str]) -> None:
    """Raise a ValueError, with the names in ``called``, unless the models have the same features."""


@singledispatch
def merge_into(merged: Learner, parts: Sequence[object], shares: Sequence[float], base: object) -> None:
    """Make a learner without events the merge of others.

    ``shares`` are the weights of the parts in means, and sum to 1; ``base`` is their common ancestor, or
    None.
    """
    raise TypeError(f"{type(merged).__name__} cannot be merged")


def _check_alike(models: Sequence[Learner], called: Sequence[str]) -> None:
    """Raise a ValueError, with the names in ``called``, unless parameters are equal and models mergeable."""
    first, name_of_first = models[0], called[0]
    for model, name in zip(models, called, strict=True):
        if type(model) is not type(first):
            raise ValueError(
                f"{name} is a {type(model).__name__} and {name_of_first} a {type(first).__name__}"
            )
        ours, theirs = ({**m._get_params(), "seed": None} for m in (first, model))
        for key in ours:
            if ours[key] != theirs[key]:
                raise ValueError(f"{name} has {key}={theirs[key]!r} and {name_of_first} {key}={ours[key]!r}")
        if model.pending:
            raise ValueError(
                f"{model.pending} events of {name} wait for their block to fill; flush() it first"
            )
        check_mergeable(model, name)


def _check_codecs(models: Sequence[Learner], called: Sequence[str]) -> None:
    """Raise a ValueError, with the names in ``called``, unless label types and frozen scales are equal."""
    first = models[0]._codec
    for model, name in zip(models[1:], called[1:], strict=True):
        known = [codec.labels for codec in (first, model._codec)]
        kinds = [type(labels.values[0]).__name__ for labels in known if labels is not None and labels.values]
        if len(set(kinds)) > 1:
            raise ValueError(f"{name} has labels of type {kinds[1]} and {called[0]} {kinds[0]}")
        scales = [codec.frozen_scales() for codec in (first, model._codec)]
        if odd := [n for n in {**scales[0], **scales[1]} if not np.array_equal(*_rows(scales, n))]:
            what = "its targets" if odd[0] is None else f"{odd[0]!r}"
            raise ValueError(
                f"{name} has other given scales of {what} than {called[0]}, so their coefficients "
                "mean different things; merge models that were given the same scales"
            )


def _rows(scales: Sequence[dict[str | None, Array]], name: str | None) -> list[Any]:
    """Return the scale of a name in each codec."""
    return [by_name.get(name) for by_name in scales]


@merge_into.register
def merge_streaming(
    merged: StreamingLearner,
    parts: Sequence[StreamingLearner],
    shares: Sequence[float],
    base: StreamingLearner | None = None,
) -> None:
    """Make a streaming learner without events the merge of others."""
    first = parts[0]._map
    assert first is not None
    merged._codec.absorb([part._codec for part in parts], None if base is None else base._codec)
    if base is not None and any(restarted_since(part, base) for part in parts):
        base = None
    latest = max(parts, key=lambda part: part._growth.openings)._growth
    merged._growth.count(latest.openings)
    made = merged._make_map(first.seed, first.slots)
    columns = [_places(part, merged) for part in parts]
    _share_memory(merged, parts, shares, columns)
    if made.sections is not None:
        errors = [part._combiner.least_error or 1.0 for part in parts]  # 0 before any event
        votes = [share / error for share, error in zip(shares, errors, strict=True)]
        made.sections.merge_from([_sections(part) for part in parts], columns, votes, base is not None)
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
        how = Merge(shares, columns, None if base is None else _counts(k, parts, merged))
        if type(expert) is Tables and made.sections is not None:
            experts, how = _with_grids_of(made.sections, parts, experts, how)
        expert.merge_from(experts, how)
    if not all(expert.is_open for expert in merged._experts):
        merged._growth.open_again()
    if base is not None and made.sections and any(_has_opened(part, base) for part in parts):
        counts = list(shares)  # combiners skipped experts since, so their information does not add up
    merged._combiner.merge_from([part._combiner for part in parts], shares, counts)
    refits = base is None and _need_refit(parts, merged)
    if refits:
        pool = pooled(merged, parts, shares, columns)
        refit(merged, parts, shares, columns, pool)
        share_sample(merged, pool, shares)
        merged._growth.count(merged._growth.openings_at(merged.events))
    if merged._stale is not None and not refits:
        combiners = [part._stale.combiner for part in parts if part._stale is not None]
        if any(combiner.has_learned for combiner in combiners):
            merged._stale.combiner.merge_from(combiners, shares, counts)
            if base is not None:  # copies have replaced that set since, so those of the parts do not add up
                merged._stale.combiner.follow_weights(merged._combiner)
        merged._stale.forget()


def _with_grids_of(
    sections: Sections, parts: Sequence[StreamingLearner], tables: Sequence[Expert], how: Merge
) -> tuple[list[Expert], Merge]:
    """Return the tables of the parts whose grids have the same fields, and how they merge.

    In other grids, the same cell holds other events. If the parts continue from a base, the last one, its
    table is in those of all, whatever its grids were.
    """
    last = len(parts) - (how.counts is not None)
    alike = [k for k in range(last) if sections.has_grids_of(_sections(parts[k]))]
    counts = None if how.counts is None else [*[1.0] * len(alike), 1.0 - len(alike)]
    whole, used = sum(how.shares[k] for k in alike), [*alike, *range(last, len(parts))]
    shares, columns = [how.shares[k] / whole for k in used], [how.columns[k] for k in used]
    return [tables[k] for k in used], Merge(shares, columns, counts)


def _share_memory(
    merged: StreamingLearner, parts: Sequence[StreamingLearner], shares: Sequence[float], columns: Columns
) -> None:
    """Set the label memory to the weighted mean of the parts' mean label memories.

    Experts have never been trained with an empty label memory: for classes, it stands for an event without a
    class.
    """
    memory = merged._codec.memory
    if not all(len(learner._codec.memory) for learner in (merged, *parts)):
        return
    for part, share, (codes, unit) in zip(parts, shares, columns, strict=True):
        mean = part._codec.memory[MEAN]
        if not merged.classifies:
            memory[:, :NUMBERS] += share * (unit.scale * mean[:NUMBERS] + unit.offset)
            continue
        for k, code in enumerate(codes[:SHARED]):
            if code < SHARED:
                memory[:, [code, SHARED + code]] += share * mean[[k, SHARED + k]]
    np.clip(memory, -merged._codec.reach, merged._codec.reach, out=memory)


def _need_refit(parts: Sequence[StreamingLearner], merged: StreamingLearner) -> bool:
    """Return whether the parts differ in their blocks under relevance, and all have samples of events."""
    if merged._map is None or merged._map.sections is None:
        return False
    ours, theirs = _sections(merged), [_sections(part) for part in parts]
    alike = all(ours.has_block_of(other, block) for other in theirs for block in range(BLOCKS))
    return not alike and all(len(other.sample) for other in theirs)


def _counts(k: int, parts: Sequence[StreamingLearner], merged: StreamingLearner) -> list[float]:
    """Return the counts by which experts number ``k`` are added; the last part is the base of the others.

    The state of the base is part of each model that continues from it, and must count once in total. Experts
    that have restarted since do not contain it, nor do experts whose block under relevance has restarted,
    even with the same relevance.
    """
    assert merged._map is not None
    *models, base = parts
    continues = [m._experts[k].goes_on_from(base._experts[k]) for m in models]
    if merged._map.sections is not None:
        sections, before = merged._map.sections, _sections(base)
        for block in range(BLOCKS):
            if merged._experts[k].within(sections.columns_of_part(1 + block)):
                continues = [
                    same and not _has_restarted(block, m, base) and before.has_block_of(_sections(m), block)
                    for same, m in zip(continues, models, strict=True)
                ]
    return [*[1.0] * len(models), float(any(continues)) - sum(continues)]


def _has_opened(part: StreamingLearner, base: StreamingLearner) -> bool:
    """Return whether a block under relevance has been opened since ``base``."""
    return not all(_sections(base).has_block_of(_sections(part), block) for block in range(BLOCKS))


def _has_restarted(block: int, part: StreamingLearner, base: StreamingLearner) -> bool:
    """Return whether a block under relevance of a learner has restarted since the base."""
    return any(opening % BLOCKS == block for opening in part._growth.since(base._growth, base.events))


def _sections(part: StreamingLearner) -> Sections:
    assert part._map is not None
    assert part._map.sections is not None
    return part._map.sections


def _moved(expert: Expert, places: Integers) -> Expert:
    """Return an expert with its columns moved to ``places``: itself if none moves, else a copy."""
    if np.array_equal(places, np.arange(len(places))):
        return expert
    copied = copy.deepcopy(expert)
    copied.rearrange(places)
    return copied


def _moves(part: StreamingLearner, merged: StreamingLearner) -> Integers:
    """Return the place of each column of a part's map in the merged learner's map, −1 for none.

    Features under another relevance than the merged learner's are other features, which it does not have.
    """
    ours, theirs = _sections(merged), _sections(part)
    columns = {key: column for column, key in enumerate(in_use(ours.keys), 1)}
    moved = {column: columns.get(key, -1) for column, key in enumerate(in_use(theirs.keys), 1)}
    moved[0] = 0
    if not part.classifies:
        moved |= {column: column for column in range(LINEAR, PLAIN)}
    else:
        rows, _ = _places(part, merged)
        for k, row in enumerate(rows[:SHARED]):
            for first in (LINEAR, LINEAR + SHARED):
                moved[first + k] = first + row if row < SHARED else -1
    plain = np.arange(PLAIN)
    if any(column != place for column, place in moved.items()):  # unused columns have no place
        plain[:] = -1
        plain[list(moved)] = list(moved.values())
    places = np.arange(ours.width)
    for part_of in range(1 + BLOCKS):
        start = ours.columns_of_part(part_of).start
        places[start : start + PLAIN] = np.where(plain < 0, -1, plain + start)
        if part_of and not ours.has_block_of(theirs, part_of - 1):
            places[start + PLAIN : ours.columns_of_part(part_of).stop] = -1
    for family in ours.families:
        within = family.moved(plain)
        places[family.columns] = np.where(within < 0, -1, within + family.first)
    return places


def _places(part: StreamingLearner, merged: StreamingLearner) -> tuple[list[int], Unit]:
    """Return the merged learner's output for each output of a part, and the unit of the part's targets."""
    codec = merged._codec
    return part._codec.label_codes_in(codec)[: part._outputs], part._codec.unit_in(codec)


@check_mergeable.register
def _check_closed(model: StreamingLearner, name: str) -> None:
    """Raise a ValueError if the learner has lost the information matrix of its least squares."""
    if any(_is_closed(expert) for expert in model._experts):
        raise ValueError(
            f"{name} was closed, and has no information matrix of its coefficients any more; "
            "merge models as they were before closed()"
        )


def _is_closed(expert: Expert) -> bool:
    """Return whether least squares have coefficients but no information matrix."""
    return isinstance(expert, LeastSquares) and not len(expert.joined) and bool(expert.coefficients.any())


@check_features.register
def _check_maps(first: StreamingLearner, models: Sequence[StreamingLearner], called: Sequence[str]) -> None:
    """Raise a ValueError unless the models have the same features; all have learned."""
    ours, numbers = _identity(first), list(first._codec.inputs.numbers)
    for model, name in zip(models[1:], called[1:], strict=True):
        theirs = _identity(model)
        for what, remedy in _REMEDIES.items():
            if ours[what] != theirs[what]:
                raise ValueError(
                    f"{name} has {what} {theirs[what]!r} and {called[0]} {ours[what]!r}: "
                    f"their features differ, so they cannot be merged; {remedy}"
                )
        if model._codec.inputs.positional:
            shared = min(len(numbers), len(model._codec.inputs.numbers))
            if numbers[:shared] != list(model._codec.inputs.numbers)[:shared]:
                raise ValueError(
                    f"{name} learned its numbers in another order than {called[0]}, and "
                    f"{ours['directions']} directions depend on their positions; use directions='keyed'"
                )


_REMEDIES = {
    "seed": "give all models the same seed before they learn",
    "directions": "use directions='keyed', which do not depend on the first event",
    "slots": "use directions='keyed', or let the first events have as many numbers",
}


def _identity(model: StreamingLearner) -> Json:
    assert model._map is not None
    slots = model._map.slots
    return {
        "seed": model._map.seed,
        "directions": model._codec.inputs.directions,
        "slots": None if slots is None else slots_of_first(slots),
    }
