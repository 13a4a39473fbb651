"""Baselines of a replay, which learners should beat, and events for models without a codec.

Each baseline takes constant time for any strings. Models without a codec are river's, and the baselines.
"""

from __future__ import annotations

import math
import zlib
from collections import Counter
from datetime import date
from numbers import Number
from typing import Any

from streamk.encoding.calendar_inputs import with_calendar
from streamk.encoding.fields import Event
from streamk.evaluation import ModelAdapter
from streamk.evaluation.metric import TASKS

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


def present(x: Event) -> dict[object, object]:
    """Return an event without missing fields, booleans as numbers, and times as calendar inputs.

    >>> present({"a": None, "b": True, "c": "red"})
    {'b': 1, 'c': 'red'}
    """
    fields: dict[Any, object] = {}
    for name, value in x.items():
        if value is not None:
            fields[name] = int(value) if isinstance(value, bool) else value
    if any(isinstance(value, date) for value in fields.values()):
        return dict(with_calendar(fields, scaled=True))
    return fields
