"""River's linear models in their usual form: peers of the tables.

Numbers go through ``StandardScaler``, strings through ``OneHotEncoder``, into logistic regression
(softmax regression from three classes on) or into linear regression with a scaled target, each
with river's default settings.
"""

from __future__ import annotations

from numbers import Number
from typing import Any

from river import compose, linear_model, preprocessing

from connectors.replay.contenders import present
from streamk.encoding.fields import Event
from streamk.evaluation import ModelAdapter


def linear_inputs() -> Any:
    """Return the inputs of a linear model: numbers standardised, strings one-hot."""
    numbers = compose.SelectType(Number) | preprocessing.StandardScaler()
    texts = compose.SelectType(str) | preprocessing.OneHotEncoder()
    return numbers + texts


class LinearClassifier(ModelAdapter):
    """``StandardScaler | LogisticRegression``, or softmax regression once there is a third class."""

    def __init__(self) -> None:
        self._labels: list[Any] = []
        self.model: Any = linear_inputs() | linear_model.LogisticRegression()
        self._binary = True

    @property
    def name(self) -> str:
        """The river pipeline."""
        return "LogisticRegression" if self._binary else "SoftmaxRegression"

    def expect(self, labels: int) -> None:
        """Start as softmax regression if more than two labels are expected."""
        if labels > 2 and self._binary:
            self.model, self._binary = linear_inputs() | linear_model.SoftmaxRegression(), False

    def predict(self, x: Event) -> dict[Any, float]:
        """Return the probability of every label known so far."""
        if not self._labels:
            return {}
        found: dict[Any, float] = self.model.predict_proba_one(present(x))
        if not self._binary:
            return found
        first = {self._labels[0]: found[True]}
        return first if len(self._labels) == 1 else {**first, self._labels[1]: found[False]}

    def learn(self, x: Event, y: Any) -> None:
        """Learn one event."""
        if y not in self._labels:
            self._labels.append(y)
            self.expect(len(self._labels))
        self.model.learn_one(present(x), y == self._labels[0] if self._binary else y)


class LinearRegressor(ModelAdapter):
    """``StandardScaler | LinearRegression`` with river's target scaler."""

    name = "LinearRegression"

    def __init__(self) -> None:
        self.model: Any = linear_inputs() | preprocessing.TargetStandardScaler(
            linear_model.LinearRegression()
        )

    def predict(self, x: Event) -> float:
        """Return the predicted target."""
        return float(self.model.predict_one(present(x)))

    def learn(self, x: Event, y: float) -> None:
        """Learn one event."""
        self.model.learn_one(present(x), y)
