"""The learners by their names, and their parameters as people write them in settings and commands."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Mapping
from typing import Any

import streamk
from connectors.nearest import meant
from streamk.learners import Learner
from streamk.scores import TASKS

_CLASSES = {
    "kernel": (streamk.KernelClassifier, streamk.KernelRegressor),
    "kaczmarz": (streamk.KaczmarzClassifier, streamk.KaczmarzRegressor),
    "doubly-stochastic": (streamk.DoublyStochasticClassifier, streamk.DoublyStochasticRegressor),
    "matching-pursuit": (streamk.MatchingPursuitClassifier, streamk.MatchingPursuitRegressor),
    "subspace-pursuit": (streamk.SubspacePursuitClassifier, streamk.SubspacePursuitRegressor),
    "kaczmarz-pursuit": (streamk.KaczmarzPursuitClassifier, streamk.KaczmarzPursuitRegressor),
    "ls-svm": (streamk.LSSVMClassifier, streamk.LSSVMRegressor),
    "low-rank": (streamk.LowRankKernelClassifier, streamk.LowRankKernelRegressor),
    "eigenpro": (streamk.EigenProClassifier, streamk.EigenProRegressor),
}
DEFAULT = "kernel"  # nothing to tune
LEARNERS: dict[str, dict[str, Any]] = {
    name: dict(zip(TASKS, classes, strict=True)) for name, classes in _CLASSES.items()
}


def name_of(learner: Learner) -> str:
    """Return the name of a learner's family.

    >>> name_of(streamk.KaczmarzRegressor())
    'kaczmarz'
    """
    return next(name for name, classes in LEARNERS.items() if type(learner) in classes.values())


def learner_classes(name: str) -> dict[str, Any]:
    """Return the classes of a learner by task, refusing a name that is not in ``LEARNERS``."""
    if name not in LEARNERS:
        raise ValueError(f"learner {name!r} is unknown{meant(name, LEARNERS)}; use {' or '.join(LEARNERS)}")
    return LEARNERS[name]


def parameter_names(name: str) -> list[str]:
    """Return the parameters of a learner, whatever the task."""
    classes = learner_classes(name).values()
    return list(dict.fromkeys(key for cls in classes for key in inspect.signature(cls).parameters))


def build(name: str, task: str, parameters: Mapping[str, Any]) -> Learner:
    """Return a new learner: one of ``LEARNERS``, for classification or regression.

    Parameters are values, or texts (:func:`read_parameter`). A list becomes a tuple, and so does a number
    where the learner's default is a tuple.

    Raises
    ------
    ValueError
        If the name, the task or a parameter is not one.

    Examples
    --------
    >>> build("kaczmarz", "regression", {"scales": "2", "kernel": "matern:2.5"}).scales
    (2,)
    """
    if task not in TASKS:
        raise ValueError(f"task {task!r} is unknown; use {' or '.join(TASKS)}")
    cls = learner_classes(name)[task]
    known = inspect.signature(cls).parameters
    if unknown := set(parameters) - set(known):
        odd = min(unknown)
        raise ValueError(f"parameters.{odd} is unknown{meant(odd, known)}; use {', '.join(known)}")
    learner: Learner = cls(**{key: _fitting(value, known[key].default) for key, value in parameters.items()})
    return learner


def _fitting(value: Any, default: Any) -> Any:
    value = read_parameter(value) if isinstance(value, str) else value
    if isinstance(value, list):
        return tuple(value)
    return (value,) if isinstance(default, tuple) and isinstance(value, (int, float)) else value


def read_parameter(text: str) -> Any:
    """Return what a text says: a number, ``true``, ``false``, ``none``, a text, or several with commas.

    >>> [read_parameter(text) for text in ("64", "true", "none", "matern:2.5", "4,2,1", "laplace,gaussian")]
    [64, True, None, 'matern:2.5', (4, 2, 1), ('laplace', 'gaussian')]
    """
    words = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        parts = [part.strip() for part in text.split(",")]
        return tuple(map(read_parameter, filter(None, parts))) if len(parts) > 1 else text
