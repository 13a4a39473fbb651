"""Which learners can be merged: those of one class, of the same parameters and the same features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from streamk.encoding.given import given_scales
from streamk.experts.expert import Expert
from streamk.experts.least_squares import LeastSquares
from streamk.features.segments import slots_of_first
from streamk.learners.base import KernelLearner


def check_alike(models: Sequence[KernelLearner], called: Sequence[str]) -> None:
    """Raise a ValueError, which calls models so, unless they have the same parameters and can be merged."""
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
        if any(_is_closed(expert) for expert in model._experts):
            raise ValueError(
                f"{name} was closed, and does not know any more how well it knows its coefficients; "
                "merge models as they were before closed()"
            )


def _is_closed(expert: Expert) -> bool:
    """Return whether least squares have coefficients, and no knowledge of how well these are known."""
    return isinstance(expert, LeastSquares) and not len(expert.joined) and bool(expert.coefficients.any())


def check_maps(models: Sequence[KernelLearner], learned: Sequence[int], called: Sequence[str]) -> None:
    """Raise a ValueError, which calls models so, unless those that have learned have the same features."""
    for k in learned[1:]:
        first = learned[0]
        ours, theirs = (_identity(models[m]) for m in (first, k))
        for name, remedy in _REMEDIES.items():
            if ours[name] != theirs[name]:
                raise ValueError(
                    f"{called[k]} has {name} {theirs[name]!r} and {called[first]} {ours[name]!r}: "
                    f"their features differ, so they cannot be merged; {remedy}"
                )
        known = [models[m]._codec.labels for m in (first, k)]
        kinds = [type(labels.values[0]).__name__ for labels in known if labels is not None and labels.values]
        if len(set(kinds)) > 1:
            raise ValueError(f"{called[k]} has labels of type {kinds[1]} and {called[first]} {kinds[0]}")
        given = [given_scales(models[m]._codec) for m in (first, k)]
        if odd := [n for n in {**given[0], **given[1]} if not np.array_equal(*_rows(given, n))]:
            what = "its targets" if odd[0] is None else f"{odd[0]!r}"
            raise ValueError(
                f"{called[k]} has other given scales of {what} than {called[first]}, so their coefficients "
                "mean different things; merge models that were given the same scales"
            )
        if models[k]._codec.inputs.positional:
            names = [list(models[m]._codec.inputs.numbers) for m in (first, k)]
            shared = min(map(len, names))
            if names[0][:shared] != names[1][:shared]:
                raise ValueError(
                    f"{called[k]} met its numbers in another order than {called[first]}, and "
                    f"{ours['directions']} directions are tied to their positions; use directions='keyed'"
                )


def _rows(given: Sequence[dict[str | None, Any]], name: str | None) -> list[Any]:
    """Return what is given of a name in each."""
    return [found.get(name) for found in given]


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
