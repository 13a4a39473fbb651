"""The learners by their names, and their parameters as people write them in settings and commands."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterable, Mapping
from typing import Any

from connectors.events.names import DEFAULT, SEED, TASKS, suggestion
from streamk import exact, learners
from streamk.encoding.labels import Label
from streamk.learners.classifier import Classifier
from streamk.learners.learner import Learner
from streamk.learners.regressor import Regressor

__all__ = [
    "DEFAULT",
    "LEARNERS",
    "Model",
    "build",
    "check_parameter",
    "labels_of",
    "learner_classes",
    "parameter_names",
    "read_parameter",
]

Model = Classifier | Regressor
LEARNERS: dict[str, dict[str, type[Model]]] = {}
for _class in (*learners.LEARNERS.values(), *exact.EXACT.values()):
    if issubclass(_class, Model):
        LEARNERS.setdefault(_class.family, {})[TASKS[not _class.classifies]] = _class


def learner_classes(name: str, where: str = "learner") -> dict[str, type[Model]]:
    """Return the classes of a learner by task, refusing a name that is not in ``LEARNERS``.

    ``where`` is the option or the setting that has the name.
    """
    if name not in LEARNERS:
        raise ValueError(f"{where} {name}: no such learner{suggestion(name, LEARNERS)}")
    return LEARNERS[name]


def parameter_names(name: str) -> list[str]:
    """Return the parameters of a learner that a command names, whatever the task."""
    classes = learner_classes(name, "--learner").values()
    return list(dict.fromkeys(key for cls in classes for key in inspect.signature(cls).parameters))


def build(name: str, task: str, parameters: Mapping[str, object]) -> Model:
    """Return a new learner: one of ``LEARNERS``, for classification or regression, with seed 0 by default.

    Parameters are values, or strings (:func:`read_parameter`). A list becomes a tuple, and so does a number
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
        raise ValueError(f"task {task}: no such task{suggestion(task, TASKS)}")
    cls = learner_classes(name)[task]
    known = inspect.signature(cls).parameters
    for key in parameters:
        check_parameter(f"parameters.{key}", key, cls.__name__, known)
    if "seed" in known:
        parameters = {"seed": SEED, **parameters}
    return cls(**{key: _fitting(value, known[key].default) for key, value in parameters.items()})


def labels_of(learner: Learner) -> list[Label] | None:
    """Return the labels that a classifier holds, None of a regressor."""
    return learner.labels if isinstance(learner, Classifier) else None


def check_parameter(where: str, key: str, learner: str, known: Iterable[str]) -> None:
    """Refuse a parameter that is none of a learner's, with the one that may be meant.

    ``where`` is how people wrote it: an option, a key of the settings.
    """
    if key not in known:
        raise ValueError(f"{where}: {learner} has no such parameter{suggestion(key, known)}")


def _fitting(value: object, default: object) -> object:
    value = read_parameter(value) if isinstance(value, str) else value
    if isinstance(value, list):
        return tuple(value)
    return (value,) if isinstance(default, tuple) and isinstance(value, (int, float)) else value


def read_parameter(text: str) -> Any:
    """Return the value of a string: number, ``true``, ``false``, ``none``, string, or several with commas.

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
