"""The linear baseline: what river users would run first, on the same events.

Numbers go through ``StandardScaler``, strings through ``OneHotEncoder``, into logistic regression
(softmax regression from three classes on) or into linear regression with a scaled target, each
with river's default settings.
"""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Number
from typing import Any

from river import compose, linear_model, preprocessing

from streamk.encoding.fields import Event


def linear_inputs() -> Any:
    """Return the inputs of a linear model: numbers standardised, strings one-hot."""
    numbers = compose.SelectType(Number) | preprocessing.StandardScaler()
    texts = compose.SelectType(str) | preprocessing.OneHotEncoder()
    return numbers + texts


def present(x: Event) -> dict[Any, Any]:
    """Return an event as river's linear models take it: no missing fields, booleans as numbers."""
    return {k: int(v) if isinstance(v, bool) else v for k, v in x.items() if v is not None}


class LinearClassifier:
    """``StandardScaler | LogisticRegression``, or softmax regression once there is a third class."""

    def __init__(self) -> None:
        self._labels: list[Any] = []
        self._model: Any = linear_inputs() | linear_model.LogisticRegression()
        self._binary = True

    @property
    def name(self) -> str:
        """The model in river's words."""
        return "LogisticRegression" if self._binary else "SoftmaxRegression"

    def expect(self, labels: int) -> None:
        """Start as softmax regression if more than two labels are to be expected."""
        if labels > 2 and self._binary:
            self._model, self._binary = linear_inputs() | linear_model.SoftmaxRegression(), False

    def answer(self, xs: list[Event], ys: list[Any]) -> Sequence[dict[Any, float]]:
        """Predict each event, then learn it."""
        answers = []
        for x, y in zip(xs, ys, strict=True):
            x = present(x)
            answers.append(self._predict(x))
            if y not in self._labels:
                self._labels.append(y)
                self.expect(len(self._labels))
            self._model.learn_one(x, y == self._labels[0] if self._binary else y)
        return answers

    def _predict(self, x: dict[Any, Any]) -> dict[Any, float]:
        if not self._labels:
            return {}
        found: dict[Any, float] = self._model.predict_proba_one(x)
        if not self._binary:
            return found
        first = {self._labels[0]: found[True]}
        return first if len(self._labels) == 1 else {**first, self._labels[1]: found[False]}


class LinearRegressor:
    """``StandardScaler | LinearRegression`` with river's target scaler."""

    name = "LinearRegression"

    def __init__(self) -> None:
        self._model: Any = linear_inputs() | preprocessing.TargetStandardScaler(
            linear_model.LinearRegression()
        )

    def answer(self, xs: list[Event], ys: list[Any]) -> Sequence[float]:
        """Predict each event, then learn it."""
        answers = []
        for x, y in zip(xs, ys, strict=True):
            x = present(x)
            answers.append(float(self._model.predict_one(x)))
            self._model.learn_one(x, y)
        return answers
