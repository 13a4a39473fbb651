"""Merging learners: several that learned parts of a stream become one that knows what all of them know.

What is common to all is here: which models count, and how much. How the knowledge of one kind is put together
is left to it (:mod:`streamk.learners.absorbing`, :mod:`streamk.exact.joining`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from streamk.encoding.targets import check_weights
from streamk.learners.learner import Learner
from streamk.learners.mergeable import check_alike, check_codecs

_Learner = TypeVar("_Learner", bound=Learner)


def merge(
    models: Sequence[_Learner],
    weights: Sequence[float] | None = None,
    base: _Learner | None = None,
) -> _Learner:
    """Return one learner that knows what several know together.

    If numbers and targets are not scaled (``scale_inputs=False``, ``scale_target=False``), the outputs of
    Kaczmarz and doubly stochastic learners are the weighted mean of the models' outputs, and an open block of
    least squares is that of one learner which saw all events, but for rounding. Running scales differ from
    model to model; they are pooled, and the merged model is as close as the scales are to one another. Of
    learners that keep a sample of events, the samples become a uniform one of all events, which is solved if
    there are half as many again as were solved. Of EigenPro, which must have the same centers, the
    coefficients become their mean. The learners must have the same parameters and the same seed; they are
    left as they are.

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
        them, if a learner was closed that then forgets what merging needs, if positions of numbers differ
        where directions are tied to them, if a model has learned less than ``base``, if there are both
        weights and a base, or weights of samples.

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
    """Return what :func:`merge` does, but for what is then due: the merged model may be merged again."""
    if base is not None:
        return _merged_since(models, weights, base)
    shares, called = _shares(models, weights), [f"model {k}" for k in range(len(models))]
    check_alike(models, called)
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
            "models that have learned on from a base are weighed by the events since; leave out weights"
        )
    if not isinstance(base, Learner):
        raise ValueError("the base must be a streamk learner that can be merged")
    if not base._has_begun:
        return joined(models)
    called = ["the base", *(f"model {k}" for k in range(len(models)))]
    check_alike([base, *models], called)
    for k, model in enumerate(models):
        if model.events < base.events:
            raise ValueError(
                f"model {k} has learned {model.events} events and the base {base.events}: it has not gone on "
                "from the base"
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
        check_codecs(models, called)
        models[0]._check_same(models, called)


def _absorbed(parts: Sequence[_Learner], shares: Sequence[float], base: _Learner | None) -> _Learner:
    merged = type(parts[0])(**parts[0]._get_params())
    merged._absorb(parts, shares, base)
    return merged


def _shares(models: Sequence[Learner], weights: Sequence[float] | None) -> list[float]:
    if weights is None:
        return [float(model.events) for model in models]
    given = check_weights(weights, len(models), "weights").tolist()
    if not any(given):
        raise ValueError("all weights are 0; at least one model must count")
    return [weight / max(given) for weight in given]
