"""Specifications of contenders: ``kernel``, ``kaczmarz:memory=0``, ``river.forest.ARFClassifier``, a file.

Settings follow a colon as ``key=value`` with commas between them; a value may have commas too. Models of
river have ``|`` between their steps, each with its settings.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import river

import streamk
from connectors.events.learners import (
    LEARNERS,
    build,
    check_parameter,
    learner_classes,
    parameter_names,
    read_parameter,
)
from connectors.events.names import near_file, nearest
from connectors.replay.baselines import present
from streamk.arrays import Json
from streamk.encoding.fields import Event
from streamk.evaluation import Frozen, RiverAdapter, adapter_of
from streamk.evaluation.metric import TASKS

_SETTING = re.compile(r",(?=\s*\w+\s*=)")


def settings_of(text: str) -> tuple[str, dict[str, str]]:
    """Return a name and its settings.

    >>> settings_of("kaczmarz:memory=0,kernel=laplace,gaussian,seed=1")
    ('kaczmarz', {'memory': '0', 'kernel': 'laplace,gaussian', 'seed': '1'})

    Raises
    ------
    ValueError
        If a setting is no ``key=value``.
    """
    name, colon, pairs = text.partition(":")
    settings = {}
    for part in _SETTING.split(pairs) if colon else []:
        key, equals, value = part.partition("=")
        if not equals or not key.strip():
            raise ValueError(f"contender {text!r}: after the colon come key=value, with commas between them")
        settings[key.strip()] = value
    return name.strip(), settings


def contender(
    text: str, task: str, delay: int = 0, seed: int = 0, extra: Mapping[str, object] | None = None
) -> object:
    """Return the model of a specification.

    Parameters
    ----------
    text
        See the module.
    task
        ``"classification"`` or ``"regression"``.
    delay, seed
        Values of the model's parameters of these names, if the specification has none.
    extra
        More settings, for a learner of streamk.

    Raises
    ------
    ValueError
        If there is no such model, or it has no such setting.
    """
    if text.startswith("river."):
        return _river(text, task, seed)
    name, settings = settings_of(text)
    if model_file(text) is not None:
        return _file(name, settings, task)
    parameters: Json = {**settings, **(extra or {})}
    known = parameter_names(name)
    for key in settings:
        check_parameter(f"--learner {text}", key, name, known)
    if delay and "delay" in known:
        parameters.setdefault("delay", delay)
    parameters.setdefault("seed", seed)
    return build(name, task, parameters)


def model_file(text: str) -> Path | None:
    """Return the model file that a specification names, None if it names something else."""
    if text.startswith("river."):
        return None
    name, _ = settings_of(text)
    names_file = name.endswith(".streamk") or (name not in LEARNERS and Path(name).is_file())
    return Path(name) if names_file else None


def check_name(text: str) -> None:
    """Raise a ValueError if a text names no contender, which is known before anything is read."""
    if not text.startswith("river."):
        name, _ = settings_of(text)
        if not name.endswith(".streamk") and not Path(name).is_file():
            learner_classes(name, "--learner")


def _file(path: str, settings: dict[str, str], task: str) -> object:
    learns = settings.pop("learn", "true").lower()
    if settings or learns not in ("true", "false"):
        raise ValueError(f"{path}: a model file takes learn=true or learn=false, and nothing else")
    try:
        model = streamk.load(path)
    except FileNotFoundError:
        raise ValueError(f"{path}: there is no such model file{near_file(path)}") from None
    adapter_of(model, task)
    return model if learns == "true" else Frozen(adapter_of(model.frozen(), task))


class Present(RiverAdapter):
    """A model of river that gets numbers and one-hot strings, without missing fields."""

    def predict(self, x: Event) -> object:
        """Return a dict of probabilities, or a number."""
        return super().predict(present(x))

    def learn(self, x: Event, y: object) -> None:
        """Learn one event."""
        super().learn(present(x), y)


def _river(text: str, task: str, seed: int) -> object:
    from river import compose, preprocessing  # take a second, which other learners need not wait

    steps = [_step(part.strip(), seed) for part in text.split("|")]
    texts = compose.SelectType(str) | preprocessing.OneHotEncoder()
    model: Any = compose.SelectType(int, float)
    model = model + texts
    for step in steps:
        model = model | step
    last = steps[-1]
    wanted = "predict_one"
    if not hasattr(last, wanted):
        raise ValueError(f"{text}: its last step does not predict")
    classifies = hasattr(last, "predict_proba_one")
    if classifies != (task == TASKS[0]):
        raise ValueError(f"{text} is not for {task}")
    return Present(model, task)


def _step(text: str, seed: int) -> object:
    path, settings = settings_of(text)
    module, _, name = path.rpartition(".")
    if not (path == "river" or path.startswith("river.")):
        raise ValueError(f"{path}: begin with river., as river.forest.ARFClassifier")
    try:
        cls = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError):
        raise ValueError(f"{path}: river has no such model{_near_model(module, name)}") from None
    if not inspect.isclass(cls):
        raise ValueError(f"{path}: river has no such model")
    known = inspect.signature(cls).parameters
    parameters = {key: read_parameter(value) for key, value in settings.items()}
    if odd := set(parameters) - set(known):
        key = min(odd)
        meant = nearest(key, known)
        hint = f"did you mean {meant}?" if meant else f"it has {', '.join(known) or 'none'}"
        raise ValueError(f"{path} has no parameter {key!r}; {hint}")
    if "seed" in known:
        parameters.setdefault("seed", seed)
    try:
        return cls(**parameters)
    except Exception as error:
        raise ValueError(f"{path} cannot be made: {error}") from None


def _near_model(module: str, name: str) -> str:
    """Return the end of a sentence about an unknown model of river: the path that may be meant."""
    near = nearest(
        module.removeprefix("river."), (each.name for each in pkgutil.iter_modules(river.__path__))
    )
    if not near:
        return ""
    meant = nearest(name, importlib.import_module(f"river.{near}").__all__)
    return f"; did you mean river.{near}.{meant}?" if meant else ""
