"""Contenders of a replay, by their specifications: learners, models of river, model files, baselines.

In a specification, as ``kaczmarz:memory=0`` or ``river.forest.ARFClassifier``, settings follow a colon as
``key=value`` with commas between them; a value may have commas too. Models of river have ``|`` between their
steps, each with its settings. ``refit:sklearn.ensemble.HistGradientBoostingClassifier,every=1000`` is a model
that is fitted again and again.

Learners should beat the baselines, each of which takes constant time for any strings. These and models of
river have no codec, and get events for models without one.
"""

from __future__ import annotations

import importlib
import inspect
import math
import pkgutil
import re
import zlib
from collections import Counter
from collections.abc import Mapping
from datetime import timedelta
from numbers import Number
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
from connectors.replay.logs import period
from streamk.arrays import Json
from streamk.encoding.fields import Event
from streamk.evaluation import Frozen, ModelAdapter, Refitted, RiverAdapter, adapter_of
from streamk.evaluation.adapters import present
from streamk.evaluation.metric import TASKS

REFIT = "refit:"
_EXAMPLE = "refit:sklearn.ensemble.HistGradientBoostingClassifier"
_PACKAGES = {"sklearn": "scikit-learn", "lightgbm": "lightgbm", "xgboost": "xgboost"}
_SETTING = re.compile(r",(?=\s*\w+\s*=)")
NONE, QUICK, FULL = "none", "quick", "full"
CHOICES = (NONE, QUICK, FULL)
LAST, MEAN, MAJORITY = "last value", "running mean", "majority class"
LINEAR, TREE = "linear model", "Hoeffding tree"
_STRINGS = 1024  # names that all strings share
_NUMBERS = 4096  # names of numbers; others share the last one
_BOUND = 5.0  # standard deviations: what lies beyond counts as this
_STEP = 0.5  # of an update, as a share of what would make the error 0
_MEGABYTES = 100.0  # of the tree
_CLASSES = 1000  # of the linear model


def settings_of(text: str) -> tuple[str, dict[str, str]]:
    """Return a name and its settings.

    >>> settings_of("kaczmarz:memory=0,kernel=laplace,gaussian,seed=1")
    ('kaczmarz', {'memory': '0', 'kernel': 'laplace,gaussian', 'seed': '1'})

    Raises
    ------
    ValueError
        If a setting is no ``key=value``.
    """
    if text.startswith(REFIT):
        name, *parts = _SETTING.split(text)
    else:
        name, colon, pairs = text.partition(":")
        parts = _SETTING.split(pairs) if colon else []
    settings = {}
    for part in parts:
        key, equals, value = part.partition("=")
        if not equals or not key.strip():
            raise ValueError(f"contender {text!r}: after the colon come key=value, with commas between them")
        settings[key.strip()] = value
    return name.strip(), settings


def contender(text: str, task: str, seed: int = 0, extra: Mapping[str, object] | None = None) -> object:
    """Return the model of a specification.

    Parameters
    ----------
    text
        See the module.
    task
        ``"classification"`` or ``"regression"``.
    seed
        The value of the model's parameter of this name, if the specification has none.
    extra
        More settings, for a learner of streamk.

    Raises
    ------
    ValueError
        If there is no such model, or it has no such setting.
    """
    if text.startswith("river."):
        return _river(text, task, seed)
    if text.startswith(REFIT):
        return _refitted(text, task, seed)
    name, settings = settings_of(text)
    if model_file(text) is not None:
        return _file(name, settings, task)
    parameters: Json = {**settings, **(extra or {})}
    known = parameter_names(name)
    for key in settings:
        check_parameter(f"--learner {text}", key, name, known)
    parameters.setdefault("seed", seed)
    return build(name, task, parameters)


def model_file(text: str) -> Path | None:
    """Return the model file that a specification names, None if it names something else."""
    if text.startswith(("river.", REFIT)):
        return None
    name, _ = settings_of(text)
    names_file = name.endswith(".streamk") or (name not in LEARNERS and Path(name).is_file())
    return Path(name) if names_file else None


def check_name(text: str, timed: bool = True) -> None:
    """Raise a ValueError if a text names no contender, which is known before anything is read.

    ``timed`` is whether events have times.
    """
    if text.startswith(REFIT):
        if isinstance(_refit(text)[2], timedelta) and not timed:
            raise ValueError(f"{text}: every is a time; name the field of times with --time")
    elif not text.startswith("river."):
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
    return _made(cls, path, settings, {"seed": seed})


def _made(cls: type, path: str, settings: Mapping[str, str], defaults: Mapping[str, object]) -> object:
    """Return a model with settings, and with those defaults that its class has parameters for."""
    known = inspect.signature(cls).parameters
    parameters = {key: read_parameter(value) for key, value in settings.items()}
    anything = any(each.kind is each.VAR_KEYWORD for each in known.values())
    if (odd := set(parameters) - set(known)) and not anything:
        key = min(odd)
        meant = nearest(key, known)
        hint = f"did you mean {meant}?" if meant else f"it has {', '.join(known) or 'none'}"
        raise ValueError(f"{path} has no parameter {key!r}; {hint}")
    chosen = {key: value for key, value in defaults.items() if key in known or anything}
    try:
        return cls(**{**chosen, **parameters})
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


def _refit(text: str) -> tuple[type, dict[str, str], int | timedelta | None]:
    """Return the class of a model that is refitted, its settings, and when."""
    name, settings = settings_of(text)
    path = name.removeprefix(REFIT)
    package, module, cls = path.partition(".")[0], *path.rpartition(".")[::2]
    try:
        model = getattr(importlib.import_module(module), cls, None)
    except (ModuleNotFoundError, ValueError) as error:
        if package in _PACKAGES and getattr(error, "name", "") == package:
            what = f"{package} is not installed; pip install {_PACKAGES[package]}"
            raise ValueError(f"{name}: {what}") from None
        model = None
    if not (inspect.isclass(model) and hasattr(model, "fit") and hasattr(model, "predict")):
        raise ValueError(f"{name}: no such model; write its path, as {_EXAMPLE}")
    return model, settings, _every(text, settings.pop("every", None))


def _every(text: str, value: str | None) -> int | timedelta | None:
    """Return the number of events or the time of a setting."""
    if value is None:
        return None
    every = int(value) if re.fullmatch(r"\d{1,9}", value) else period(value)
    if not every:
        raise ValueError(f"{text}: every={value} is no number of events, as 1000, and no time, as 1d or 6h")
    return every


def _refitted(text: str, task: str, seed: int) -> ModelAdapter:
    cls, settings, every = _refit(text)
    silent = {"verbose": -1} if cls.__module__.startswith("lightgbm.") else {}  # on standard output
    model = _made(cls, settings_of(text)[0], settings, {"random_state": seed, **silent})
    tags = getattr(model, "__sklearn_tags__", None)
    if tags is not None and (tags().estimator_type == "classifier") != (task == TASKS[0]):
        raise ValueError(f"{text} is not for {task}")
    return Refitted(model, task, every)


class LastValue(ModelAdapter):
    """Predicts the last target: the no-change model, which is good if successive targets are alike."""

    def __init__(self, task: str) -> None:
        self._classes, self._last = task == TASKS[0], None

    def predict(self, x: Event) -> object:
        """Return the last target."""
        if self._last is None:
            return {} if self._classes else 0.0
        return {self._last: 1.0} if self._classes else self._last

    def learn(self, x: Event, y: Any) -> None:
        """Store a target."""
        self._last = y


class RunningMean(ModelAdapter):
    """Predicts the mean of all targets so far."""

    def __init__(self) -> None:
        self._mean, self._count = 0.0, 0

    def predict(self, x: Event) -> float:
        """Return the mean."""
        return self._mean

    def learn(self, x: Event, y: float) -> None:
        """Store a target."""
        self._count += 1
        self._mean += (y - self._mean) / self._count


class MajorityClass(ModelAdapter):
    """Predicts how frequent each label was so far."""

    def __init__(self) -> None:
        self._counts: Counter[object] = Counter()
        self._count = 0

    def predict(self, x: Event) -> dict[object, float]:
        """Return the share of each label."""
        return {label: count / self._count for label, count in self._counts.items()}

    def learn(self, x: Event, y: object) -> None:
        """Count a label."""
        self._counts[y] += 1
        self._count += 1


class _Inputs:
    """Numbers standardised by their running mean and deviation, strings as one of 1,024 names, one-hot."""

    def __init__(self) -> None:
        self._moments: dict[object, list[float]] = {}  # count, mean, sum of squares

    def read(self, x: Event, learn: bool) -> dict[object, float]:
        """Return inputs by name, none beyond five standard deviations; 1 is one of them."""
        inputs: dict[object, float] = {None: 1.0}
        for name, value in present(x).items():
            if isinstance(value, str):
                place = zlib.crc32(f"{name}={value}".encode(errors="replace")) % _STRINGS
                inputs[place] = inputs.get(place, 0.0) + 1.0
            elif isinstance(value, Number) and value == value:
                scaled = self._scaled(str(name), float(value), learn)  # type: ignore[arg-type]
                if scaled:
                    inputs[str(name)] = scaled
        return inputs

    def _scaled(self, name: str, value: float, learn: bool) -> float:
        moments = self._moments.get(name)
        if moments is None:
            if len(self._moments) >= _NUMBERS:
                name = ""
            moments = self._moments.setdefault(name, [0.0, 0.0, 0.0])
        if learn:
            moments[0] += 1.0
            change = value - moments[1]
            moments[1] += change / moments[0]
            moments[2] += change * (value - moments[1])
        deviation = math.sqrt(moments[2] / moments[0]) if moments[0] > 1.0 else 0.0
        if not deviation or deviation == math.inf:
            return 0.0
        return min(max((value - moments[1]) / deviation, -_BOUND), _BOUND)


class LinearNumbers(ModelAdapter):
    """Linear regression by normalised least mean squares, ``w += μ e x / (1 + |x|²)``, which cannot diverge.

    The target is standardised and clipped to five standard deviations.
    """

    def __init__(self) -> None:
        self._inputs, self._target = _Inputs(), _Inputs()
        self._weights: dict[object, float] = {}

    def predict(self, x: Event) -> float:
        """Return the predicted target."""
        count, mean, squares = self._target._moments.get("y", [0.0, 0.0, 0.0])
        if not count:
            return 0.0
        scaled = _dot(self._weights, self._inputs.read(x, False))
        return mean + min(max(scaled, -_BOUND), _BOUND) * math.sqrt(squares / count)

    def learn(self, x: Event, y: float) -> None:
        """Learn one event."""
        inputs, target = self._inputs.read(x, True), self._target._scaled("y", y, True)
        error = target - _dot(self._weights, inputs)
        _move(self._weights, inputs, _STEP * error / 2.0)


class LinearClasses(ModelAdapter):
    """Softmax regression with normalised steps, a weight for each label and input."""

    def __init__(self) -> None:
        self._inputs = _Inputs()
        self._weights: dict[object, dict[object, float]] = {}

    def predict(self, x: Event) -> dict[object, float]:
        """Return the probability of every label known so far."""
        return self._softmax(self._inputs.read(x, False))

    def _softmax(self, inputs: dict[object, float]) -> dict[object, float]:
        scores = {label: _dot(weights, inputs) for label, weights in self._weights.items()}
        top = max(scores.values(), default=0.0)
        powers = {label: math.exp(score - top) for label, score in scores.items()}
        total = sum(powers.values())
        return {label: power / total for label, power in powers.items()}

    def learn(self, x: Event, y: object) -> None:
        """Learn one event."""
        inputs = self._inputs.read(x, True)
        if y not in self._weights and len(self._weights) < _CLASSES:
            self._weights[y] = {}
        for label, p in self._softmax(inputs).items():
            _move(self._weights[label], inputs, _STEP * ((label == y) - p))


def _dot(weights: dict[object, float], inputs: dict[object, float]) -> float:
    return sum(weights[name] * value for name, value in inputs.items() if name in weights)


def _move(weights: dict[object, float], inputs: dict[object, float], step: float) -> None:
    step /= 1.0 + sum(value * value for value in inputs.values())
    for name, value in inputs.items():
        weights[name] = weights.get(name, 0.0) + step * value


class HoeffdingTree(ModelAdapter):
    """River's Hoeffding tree, for which strings are one of 1,024 names; memory is bounded."""

    def __init__(self, task: str) -> None:
        from river import tree  # takes a second, which commands without this baseline need not wait

        self._classes = task == TASKS[0]
        self.model: Any = (
            tree.HoeffdingTreeClassifier(max_size=_MEGABYTES)
            if self._classes
            # a leaf of means takes strings, too, and cannot diverge
            else tree.HoeffdingTreeRegressor(max_size=_MEGABYTES, leaf_prediction="mean")
        )

    @staticmethod
    def _read(x: Event) -> dict[object, object]:
        inputs: dict[object, object] = {}
        for name, value in present(x).items():
            if isinstance(value, str):
                inputs[name] = f"s{zlib.crc32(value.encode(errors='replace')) % _STRINGS}"
            elif isinstance(value, Number) and value == value:
                inputs[name] = float(value)  # type: ignore[arg-type]
        return inputs

    def predict(self, x: Event) -> object:
        """Return a dict of probabilities, or a number."""
        if self._classes:
            return self.model.predict_proba_one(self._read(x))
        return float(self.model.predict_one(self._read(x)) or 0.0)

    def learn(self, x: Event, y: object) -> None:
        """Learn one event."""
        self.model.learn_one(self._read(x), y)


def baselines(choice: str, task: str) -> dict[str, ModelAdapter]:
    """Return baselines by name: ``"none"``, ``"quick"`` ones, or with ``"full"`` a Hoeffding tree, too.

    Raises
    ------
    ValueError
        If there is no such choice.
    """
    if choice not in CHOICES:
        raise ValueError(f"--baseline {choice}: use {', '.join(CHOICES)}")
    if choice == NONE:
        return {}
    models: dict[str, ModelAdapter] = {LAST: LastValue(task)}
    if task == TASKS[0]:
        models |= {MAJORITY: MajorityClass(), LINEAR: LinearClasses()}
    else:
        models |= {MEAN: RunningMean(), LINEAR: LinearNumbers()}
    return models | ({TREE: HoeffdingTree(task)} if choice == FULL else {})
