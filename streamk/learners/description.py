"""The description of a model: its class, its parameters, and what it has learned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

import numpy as np

from streamk.arrays import Array, Json
from streamk.encoding.keys import category_tag
from streamk.encoding.scaling import COUNT, MEAN, SQUARES
from streamk.learners.learner import Learner


def describe(learner: Learner, names: Sequence[str] = ()) -> Json:
    """Return a description of a learner, as values that JSON takes.

    Parameters
    ----------
    learner
        Any.
    names
        Fields of its events, if they are known: a model file has the hashes of names of categories alone.

    Returns
    -------
    dict
        ``class`` and ``task``; ``parameters`` that differ from their defaults, without the
        ``seed``, which is the one that was drawn if it was None;
        ``events`` learned, those ``pending`` until their block is full, and ``features`` of an event.
        ``labels`` in their order, None for numbers; the ``target``'s mean and standard deviation, None for
        classes or if it is not scaled. ``inputs``: the name, mean and standard deviation of every number, or
        its median where normal scores replace it. Strings and booleans are stored by hashes of their names
        and values, so they are not among them. ``fields``: the relevance of every field, highest first, in
        shares of their sum. ``relevance`` of inputs, highest first, and ``experts`` with
        their weights: empty unless the learner is a ``Kernel…`` one.

    Examples
    --------
    >>> import streamk
    >>> description = describe(streamk.KaczmarzClassifier(features=64, seed=7))
    >>> description["class"], description["parameters"], description["events"]
    ('KaczmarzClassifier', {'features': 64}, 0)
    """
    codec = learner._codec
    summary = learner.summary()
    by_tag = {f"#{category_tag(name):016x}": name for name in names}
    relevance: dict[str, list[float]] = summary.get("relevance", {})
    scaled = codec.labels is None and codec.standard
    return {
        "class": type(learner).__name__,
        "task": "classification" if learner.classifies else "regression",
        "seed": learner._to_parts()[0].get("seed") if learner.seed is None else learner.seed,
        "parameters": _changed(learner),
        "events": learner.events,
        "pending": learner.pending,
        "features": learner.feature_count,
        "labels": None if codec.labels is None else list(codec.labels.values),
        "target": _scale(codec.target[0]) if scaled else None,
        "inputs": _inputs(learner),
        "fields": {by_tag.get(name, name): share for name, share in summary.get("fields", {}).items()},
        "relevance": {name: relevance[name] for name in summary.relevance() or relevance},
        "experts": summary.get("experts", []),
    }


def _changed(learner: Learner) -> Json:
    defaults = {field.name: field.default for field in fields(learner)}
    values = learner._parameters()
    parameters = learner._get_params()
    return {name: values[name] for name in values if name != "seed" and parameters[name] != defaults[name]}


def _inputs(learner: Learner) -> list[Json]:
    inputs = learner._codec.inputs
    rows = []
    for name, slot in inputs.numbers.items():
        row: Json = {"name": name, "mean": None, "deviation": None, "median": None}
        if inputs.scaled:
            row |= _scale(inputs.statistics[slot])
        if name in inputs.transforms:
            row |= {"mean": None, "deviation": None}  # those of the scores mean nothing to users
            row["median"] = float(inputs.transforms[name].invert(np.zeros(1))[0])
        rows.append(row)
    return rows


def _scale(statistics: Array) -> dict[str, float | None]:
    count = statistics[COUNT]
    return {
        "mean": float(statistics[MEAN]) if count > 0.0 else None,
        "deviation": float(np.sqrt(statistics[SQUARES] / count)) if count >= 2.0 else None,
    }
