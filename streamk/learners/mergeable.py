"""Which learners can be merged: those of one class and the same parameters, whose codecs mean the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from streamk.encoding.given import given_scales
from streamk.learners.learner import Learner


def check_alike(models: Sequence[Learner], called: Sequence[str]) -> None:
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
        model._check_mergeable(name)


def check_codecs(models: Sequence[Learner], called: Sequence[str]) -> None:
    """Raise a ValueError, which calls models so, unless labels are of one type and given scales the same."""
    first = models[0]._codec
    for model, name in zip(models[1:], called[1:], strict=True):
        known = [codec.labels for codec in (first, model._codec)]
        kinds = [type(labels.values[0]).__name__ for labels in known if labels is not None and labels.values]
        if len(set(kinds)) > 1:
            raise ValueError(f"{name} has labels of type {kinds[1]} and {called[0]} {kinds[0]}")
        given = [given_scales(codec) for codec in (first, model._codec)]
        if odd := [n for n in {**given[0], **given[1]} if not np.array_equal(*_rows(given, n))]:
            what = "its targets" if odd[0] is None else f"{odd[0]!r}"
            raise ValueError(
                f"{name} has other given scales of {what} than {called[0]}, so their coefficients "
                "mean different things; merge models that were given the same scales"
            )


def _rows(given: Sequence[dict[str | None, Any]], name: str | None) -> list[Any]:
    """Return what is given of a name in each."""
    return [found.get(name) for found in given]
