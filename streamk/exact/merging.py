"""Merging exact learners: the sample of all events, or the mean over the same centers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from streamk.encoding.codec import Codec
from streamk.encoding.rows import moved
from streamk.exact.eigenpro import EigenProLearner
from streamk.exact.expansion import Expansion
from streamk.exact.reservoir import ReservoirLearner
from streamk.features.reservoir import Reservoir, Sample
from streamk.learners.merging import check_features, check_mergeable, merge_into


@check_mergeable.register
def _check_has_events(model: ReservoirLearner, name: str) -> None:
    if model.events and model._reservoir is None:
        raise ValueError(
            f"{name} was closed, and has no events any more; merge models as they were before closed()"
        )


@check_features.register
def _check_seeds(first: ReservoirLearner, models: Sequence[ReservoirLearner], called: Sequence[str]) -> None:
    for model, name in zip(models, called, strict=True):
        if model._drawn_seed != first._drawn_seed:
            raise ValueError(
                f"{name} has seed {model._drawn_seed} and {called[0]} {first._drawn_seed}; "
                "give all models the same seed before they learn"
            )


@merge_into.register
def _merge_reservoirs(
    merged: ReservoirLearner,
    parts: Sequence[ReservoirLearner],
    shares: Sequence[float],
    base: ReservoirLearner | None,
) -> None:
    """Store a uniform sample of all events, and the expansion of the model that has solved the most."""
    everyone = parts if base is None else [base, *parts]
    whole = sum(part.events for part in parts)
    if base is None and not np.allclose(shares, [part.events / whole for part in parts]):
        raise ValueError(
            f"{type(merged).__name__} stores a sample, in which every event counts the same; give no "
            "weights, or fewer models"
        )
    codec = merged._codec
    codec.absorb([part._codec for part in parts], None if base is None else base._codec)
    samples = [_sample_in(part._kept_events.sample(), part._codec, codec) for part in everyone]
    if base is not None:  # the events of the base that a part still holds count once
        first, *later = samples
        samples = [first, *(s.select(np.flatnonzero(~np.isin(s.tickets, first.tickets))) for s in later)]
    merged._reservoir = Reservoir(max(part._kept_events.most for part in parts), parts[0]._drawn_seed)
    merged._reservoir.merge_from(samples, merged.events)
    best = max(everyone, key=lambda part: part._solved)
    merged._solved = best._solved
    if best._expansion is not None:
        merged._expansion = _expansion_in(best._expansion, best._codec, codec)


@check_mergeable.register
def _check_has_centers(model: EigenProLearner, name: str) -> None:
    if model.events and not model._together:
        raise ValueError(
            f"{name} was closed, and has no masses of its centers any more; merge models as they were before "
            "closed()"
        )


@check_features.register
def _check_centers(first: EigenProLearner, models: Sequence[EigenProLearner], called: Sequence[str]) -> None:
    for model, name in zip(models, called, strict=True):
        if not model.has_centers_of(first):
            raise ValueError(
                f"{name} has other centers than {called[0]}, so their coefficients mean different "
                "things; let all continue from one model that has centers"
            )


@merge_into.register
def _merge_coefficients(
    merged: EigenProLearner,
    parts: Sequence[EigenProLearner],
    shares: Sequence[float],
    base: EigenProLearner | None,
) -> None:
    """Take the weighted mean of coefficients over the same centers."""
    codec = merged._codec
    codec.absorb([part._codec for part in parts], None if base is None else base._codec)
    expansions = [_expansion_in(part._current_expansion, part._codec, codec) for part in parts]
    mean = np.zeros((len(expansions[0].centers), max(len(each.bias) for each in expansions)))
    for share, expansion in zip(shares, expansions, strict=True):
        mean[:, : len(expansion.bias)] += share * expansion.coefficients
    merged._take_centers(parts[0], expansions[0], mean)


def _sample_in(sample: Sample, part: Codec, whole: Codec) -> Sample:
    """Return events as another codec, which has all names and labels of theirs, encodes them."""
    slots = np.array([whole.inputs.numbers[name] for name in part.inputs.numbers], dtype=np.int32)
    goal = sample.goal.copy()
    if part.labels is not None:
        goal[0] = np.array(part.label_codes_in(whole), dtype=np.float64)[goal[0].astype(np.intp)]
    return Sample(sample.tickets, moved(sample.rows, slots), goal)


def _expansion_in(expansion: Expansion, part: Codec, whole: Codec) -> Expansion:
    """Return an expansion with its outputs in the order of another codec's labels, 0 for missing ones."""
    if part.labels is None:
        return expansion
    places = part.label_codes_in(whole)[: len(expansion.bias)]
    outputs = max(places, default=-1) + 1
    coefficients, bias = np.zeros((len(expansion.centers), outputs)), np.zeros(outputs)
    coefficients[:, places], bias[places] = expansion.coefficients, expansion.bias
    return expansion._replace(coefficients=coefficients, bias=bias)
