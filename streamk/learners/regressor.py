"""River's methods of a regressor: numbers in, numbers out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

import numpy as np
from river import base

from streamk.arrays import AnyArray, Array, Column, Frame
from streamk.encoding.batches import Batch
from streamk.encoding.fields import Event
from streamk.encoding.frames import batch
from streamk.encoding.targets import (
    check_target,
    check_targets,
    check_weights,
    targets,
    weight_of,
    without_label,
)
from streamk.learners.explanation import Explanation
from streamk.learners.learner import ColumnNames, Learner


class Regressor(Learner, base.MiniBatchRegressor):
    """A kernel learner whose target is a number, standardised on the fly (:mod:`streamk.encoding.codec`)."""

    classifies = False

    def learn_one(self, x: Event, y: float, w: float = 1.0) -> None:
        """Learn one event.

        Parameters
        ----------
        x
            Field names to numbers, booleans, strings, dates or times; None and NaN are missing values.
        y
            The target, in its units. None if there is none: nothing is learned, but ``Kernel…`` learners
            rely less on the targets before (:mod:`streamk.learners.stale`).
        w
            Sample weight: divides the regulariser, so a heavier event is fitted more closely.
            An event of weight 0 is ignored.

        Raises
        ------
        ValueError
            If a value, the target or the weight cannot be taken; nothing was then learned.
        """
        if y is None:
            self._codec.inputs.check(x)
            self._pass_by(weight_of(w) > 0.0)
            return
        target = check_target(y)
        if (type(w) is not float or w != 1.0) and (w := weight_of(w)) == 0.0:
            self._codec.inputs.check(x)
            return
        self._learn_event(x, target, w, 1)

    def predict_one(self, x: Event) -> float:
        """Return the predicted target in its units; 0.0 before any learning."""
        out = self._predict_event(x)
        return 0.0 if out is None else float(out[0])

    def view_array(self, X: object, names: Sequence[str] | None = None) -> Array:
        """Return numbers ``(n,)``, and leave no trace of the predictions in the learner."""
        rows = batch(X, names)
        with self._leave_no_trace():
            return np.array(_column(self._predict_batch(rows), len(rows)))

    def explain_one(self, x: Event) -> Explanation:
        """Return the prediction of an event as a sum: a base value, and a contribution of every field.

        ``base + sum(contributions.values())`` is what :meth:`predict_one` returns, to rounding. Contributions
        are Shapley values (:mod:`streamk.learners.explanation`), estimated from at most 32 permutations of
        the fields, the same for every event with as many. The learner does not change.

        Parameters
        ----------
        x
            As for :meth:`learn_one`.

        Returns
        -------
        Explanation
            In units of the target.

        Raises
        ------
        ValueError
            If a value cannot be taken.

        Examples
        --------
        >>> import streamk
        >>> events = [{"a": float(i % 7), "b": float(i % 5)} for i in range(400)]
        >>> learner = streamk.KernelRegressor(seed=7)
        >>> learner.learn_many(events, [3.0 * x["a"] for x in events])
        >>> explanation = learner.explain_one({"a": 6.0, "b": 1.0})
        >>> round(explanation.prediction), list(explanation.contributions)
        (18, ['a', 'b'])
        """
        return self._explain(x, 0, 0.0)

    @overload
    def predict_many(self, X: AnyArray, names: Sequence[str] | None = None) -> Array: ...
    @overload
    def predict_many(self, X: Sequence[Event]) -> list[float]: ...
    @overload
    def predict_many(self, X: Frame[Column]) -> Column: ...
    def predict_many(self, X: object, names: Sequence[str] | None = None) -> object:
        """Return the prediction of every row, in the type that goes with ``X``."""
        rows = batch(X, names)
        return rows.series(_column(self._predict_batch(rows), len(rows)))

    @overload
    def predict_learn_many(
        self, X: AnyArray, y: object, w: object = None, *, names: Sequence[str]
    ) -> Array: ...
    @overload
    def predict_learn_many(self, X: Sequence[Event], y: object, w: object = None) -> list[float]: ...
    @overload
    def predict_learn_many(self, X: Frame[Column], y: object, w: object = None) -> Column: ...
    def predict_learn_many(
        self, X: object, y: object, w: object = None, names: Sequence[str] | None = None
    ) -> object:
        """Learn many events, and return the prediction made for each *before* it was learned.

        The prequential pass in one compiled loop: the same predictions and the same model as a loop of
        :meth:`predict_one` and :meth:`learn_one` (to rounding, if blocks of events are learned).
        An event of weight 0, or whose target is None, is predicted only.
        """
        rows, out = self._pass(X, y, w, names, wanted=True)
        return rows.series(_column(out, len(rows)))

    def predict_learn_array(
        self, X: object, y: object, w: object = None, names: Sequence[str] | None = None
    ) -> Array:
        """Learn many events, and return what :meth:`predict_learn_many` does, as an array."""
        rows, out = self._pass(X, y, w, names, wanted=True)
        return out[:, 0] if out.size else np.zeros(len(rows))

    def _pass(
        self, X: object, y: object, w: object, names: ColumnNames, wanted: bool, scales_only: bool = False
    ) -> tuple[Batch, Array]:
        rows = batch(X, names)
        values = targets(y, len(rows))
        weights = check_weights(w, len(rows))
        unlabelled = without_label(values, weights)
        goal = np.array([self._check_targets(values, weights.tolist()), weights], dtype=np.float64)
        goal[0, unlabelled] = np.nan
        self._prepare(rows, goal[1])
        learn = self._observe_batch if scales_only else self._learn_batch
        return rows, learn(rows, goal, 1, wanted)

    def _check_targets(self, values: Sequence[object], weights: Sequence[float]) -> list[float]:
        return check_targets(values, weights)


def _column(out: Array, rows: int) -> list[float]:
    return out[:, 0].tolist() if out.size else [0.0] * rows
