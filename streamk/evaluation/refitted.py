"""Models that are fitted again to all labelled events so far, as those of scikit-learn and LightGBM.

A stream is often left to such a model, which is fitted every night, or after so many labels.
"""

from __future__ import annotations

import copy
import inspect
import math
import pickle
import warnings
from array import array
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any, SupportsFloat

import numpy as np

from streamk.arrays import Array, Json
from streamk.encoding.fields import Event
from streamk.evaluation.adapters import EventChunk, ModelAdapter, Table, present, tabled
from streamk.evaluation.metric import TASKS

EVERY = 1000  # labelled events between two fits
_CODES = 255  # the most categories that histograms of scikit-learn take; codes of more are numbers
_Column = tuple[object, bool]  # a field, and whether its values are categories


class Refitted(ModelAdapter):
    """A model with ``fit`` and ``predict``, fitted from nothing to all events whose labels have come.

    A fit that is due is made before the next prediction. Before the first one, predictions are the share of
    each label, or the mean. Strings are codes of categories, and the model gets the columns that have these,
    as ``categorical_features`` or ``fit(…, categorical_feature=…)`` if it has one. Missing fields are NaN.

    Parameters
    ----------
    model
        A classifier or a regressor with scikit-learn's methods.
    task
        ``"classification"`` or ``"regression"``.
    every
        A fit is due after so many labelled events, or whenever the time of a labelled event is in a later
        period of this length, counted from 1970 in UTC. By default, it is due after 1,000 labelled events,
        and after every chunk where labels come in chunks.

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> model = Refitted(DecisionTreeRegressor(), "regression", every=2)
    >>> for a, y in ((0.0, 1.0), (1.0, 5.0), (2.0, 7.0)):
    ...     print(model.predict({"a": a}))
    ...     model.learn({"a": a}, y)
    0.0
    1.0
    5.0
    """

    batched = True

    def __init__(self, model: Any, task: str, every: int | timedelta | None = None) -> None:
        self.model, self._unfitted = model, copy.deepcopy(model)
        self._classes, self._every = task == TASKS[0], every
        self._count = every if isinstance(every, int) else EVERY
        self._columns: dict[_Column, array[float]] = {}  # the last values of some may be missing
        self._codes: dict[object, dict[str, int]] = {}  # of categories, by field
        self._targets = array("d")  # codes of labels, or numbers
        self._labels: dict[object, int] = {}  # codes
        self._counts: dict[object, int] = {}
        self._mean = 0.0
        self._places: dict[_Column, int] | None = None  # of columns of the model, None before the first fit
        self._new, self._due, self._period = 0, False, -math.inf

    @property
    def size(self) -> int:
        """Bytes of the model, and of the events that it is fitted to."""
        return len(pickle.dumps(self.model)) + sum(8 * len(column) for column in self._columns.values())

    def learn(self, x: Event, y: Any) -> None:
        """Store an event, and find out whether a fit is due.

        Raises
        ------
        ValueError
            If fits are due by time, and the event has none.
        """
        count = len(self._targets)
        for column, value in self._inputs(x, learn=True):
            values = self._columns.setdefault(column, array("d"))
            values.extend([math.nan] * (count - len(values)))
            values.append(value)
        if self._classes:
            self._counts[y] = self._counts.get(y, 0) + 1
            self._targets.append(self._labels.setdefault(y, len(self._labels)))
        else:
            self._mean += (y - self._mean) / (count + 1)
            self._targets.append(y)
        self._new += 1
        self._due |= self._is_due()

    def learn_many(self, xs: EventChunk, ys: Sequence[object]) -> None:
        """Store events whose targets have come together."""
        super().learn_many(xs, ys)
        self._due |= self._every is None

    def _is_due(self) -> bool:
        if not isinstance(self._every, timedelta):
            return self._new >= self._count
        if self.at is None:
            raise ValueError("fits are due by time, and the events have none")
        before, period = self._period, self.at // self._every.total_seconds()
        self._period = max(before, period)
        return before < period and before > -math.inf

    def _inputs(self, x: Event, learn: bool) -> Iterator[tuple[_Column, float]]:
        """Yield the values of an event by column, without those that are missing or not finite."""
        for name, value in present(x).items():
            if isinstance(value, str):
                codes = self._codes.setdefault(name, {}) if learn else self._codes.get(name, {})
                code = codes.setdefault(value, len(codes)) if learn else codes.get(value)
                if code is not None:
                    yield (name, True), code
            elif isinstance(value, SupportsFloat) and math.isfinite(number := float(value)):
                yield (name, False), number

    def _fit(self) -> None:
        self._new, self._due = 0, False
        if self._classes and len(self._labels) < 2:  # classifiers take no single class
            return
        matrix = np.full((len(self._targets), len(self._columns)), np.nan)
        for k, values in enumerate(self._columns.values()):
            matrix[: len(values), k] = values
        targets = np.array(self._targets, dtype=np.int64 if self._classes else np.float64)
        self.model, options = copy.deepcopy(self._unfitted), Json()
        categories = [(k, name) for k, (name, category) in enumerate(self._columns) if category]
        if "categorical_features" in self.model.get_params():
            few = [k for k, name in categories if len(self._codes[name]) <= _CODES]
            self.model.set_params(categorical_features=few or None)
        elif "categorical_feature" in inspect.signature(self.model.fit).parameters:
            options["categorical_feature"] = [k for k, _ in categories] or "auto"
        self.model.fit(matrix, targets, **options)
        self._places = {column: k for k, column in enumerate(self._columns)}

    def predict(self, x: Event) -> object:
        """Return a dict of probabilities, or a number."""
        return self._answers(EventChunk([x]))[0]

    def _answers(self, xs: EventChunk) -> list[object]:
        """Return predictions as dicts of probabilities, or as numbers."""
        predicted = self.predict_many(xs)
        if not isinstance(predicted, Table):
            return list(map(float, predicted))
        return [dict(zip(predicted.labels, row, strict=True)) for row in predicted.rows.tolist()]

    def predict_many(self, xs: EventChunk) -> Table | Array:
        """Predict events, after a fit if one is due."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # columns of arrays have no names
            if self._due:
                self._fit()
            return self._predictions(xs)

    def _predictions(self, xs: EventChunk) -> Table | Array:
        if self._places is None:
            if not self._classes:
                return np.full(len(xs), self._mean)
            shares = np.array(list(self._counts.values())) / max(len(self._targets), 1)
            return Table(list(self._counts), np.tile(shares, (len(xs), 1)))
        matrix = np.full((len(xs), len(self._places)), np.nan)
        for row, x in zip(matrix, xs.events, strict=True):
            for column, value in self._inputs(x, learn=False):
                if (place := self._places.get(column)) is not None:
                    row[place] = value
        if not self._classes:
            return np.asarray(self.model.predict(matrix), dtype=np.float64).reshape(len(matrix))
        labels = list(self._labels)
        if not hasattr(self.model, "predict_proba"):
            return Table(labels, np.eye(len(labels))[np.asarray(self.model.predict(matrix), dtype=np.int64)])
        known = [labels[int(code)] for code in self.model.classes_]
        return Table(known, np.asarray(self.model.predict_proba(matrix), dtype=np.float64))

    def answer_many(self, xs: EventChunk, ys: Sequence[object]) -> Table | Array:
        """Predict and learn events; those between two fits are predicted at once."""
        answers: list[object] = []
        while (start := len(answers)) < len(ys):
            alone = self._places is None or isinstance(self._every, timedelta)
            rows = slice(start, start + (1 if alone else max(1, self._count - self._new)))
            answers += self._answers(xs[rows])
            super().learn_many(xs[rows], ys[rows])
        return tabled(answers)
