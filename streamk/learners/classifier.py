"""River's methods of a classifier: labels in, labels and probabilities out."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Sequence
from typing import cast, overload

import numpy as np
from river import base

from streamk.arrays import AnyArray, Array, Column, Frame, Table, padded
from streamk.encoding.batches import Batch
from streamk.encoding.fields import Event
from streamk.encoding.frames import batch
from streamk.encoding.labels import Label, Labels
from streamk.encoding.targets import check_weights, targets, weight_of, without_label
from streamk.learners.explanation import Explanation
from streamk.learners.learner import ColumnNames, Learner


class Classifier(Learner, base.MiniBatchClassifier):
    """A kernel learner whose targets are classes; outputs are one per class."""

    classifies = True

    @property
    def _multiclass(self) -> bool:
        return True

    @property
    def _labels(self) -> Labels:
        assert self._codec.labels is not None
        return self._codec.labels

    @property
    def labels(self) -> list[Label]:
        """The classes known so far, in the order of the columns of ``predict_proba_many``."""
        return list(self._labels.values)

    def learn_one(self, x: Event, y: Label, w: float = 1.0) -> None:
        """Learn one event.

        Parameters
        ----------
        x
            Field names to numbers, booleans, strings, dates or times; None and NaN are missing values.
        y
            The class: a boolean, an integer or a string; one type per learner. A float that is a whole number
            is the integer. None if there is no label: nothing is learned, but ``Kernel…`` learners rely less
            on the labels before (:mod:`streamk.learners.stale`).
        w
            Sample weight: divides the regulariser, so a heavier event is fitted more closely.
            An event of weight 0 is ignored. There is no ``class_weight``: weights of classes go here.

        Raises
        ------
        ValueError
            If a value, the label or the weight cannot be taken; nothing was then learned.
        """
        codec, labels = self._codec, self._labels
        if type(w) is not float or w != 1.0:
            w = weight_of(w)
        code = labels.codes.get(y) if type(y) is labels.type else None
        if code is None or w == 0.0:
            if y is None:
                codec.inputs.check(x)
                self._pass_by(w > 0.0)
                return
            label = labels.check(y)
            codec.inputs.check(x)
            if w == 0.0:
                return
            if label not in labels.codes:
                codec.inputs.encode(x, True)
                codec.register([label])
            code = labels.codes[label]
        self._learn_event(x, code, w, len(labels.values))

    def predict_proba_one(self, x: Event) -> dict[Label, float]:  # type: ignore[override]
        """Return the probability of every known class; empty before any label is known.

        While the first block of events waits to be learned, all labels are equally probable.
        """
        out = self._predict_event(x)
        if out is None:
            return {label: 1.0 / len(self._labels) for label in self._labels.values}
        return dict(zip(self._labels.values, out.tolist(), strict=False))

    def predict_one(self, x: Event) -> Label | None:  # type: ignore[override]
        """Return the most probable class, None before any label is known."""
        out = self._predict_event(x)
        if out is None:
            return next(iter(self._labels.values), None)
        probabilities: list[float] = out.tolist()  # faster than ``argmax`` for a few classes
        return self._labels.values[probabilities.index(max(probabilities))]

    def ask_proba_one(self, key: Hashable, x: Event) -> dict[Label, float]:
        """Return what :meth:`predict_proba_one` does, and let the event wait, as :meth:`ask_one` does."""
        self._waiting.check(key)
        answer = self.predict_proba_one(x)
        self._hold(key, x)
        return answer

    def predict_proba_many(self, X: Table, names: Sequence[str] | None = None) -> Table:
        """Return one column of probabilities per known class, in the type that goes with ``X``.

        A frame gives a frame, an array an array ``(n, len(labels))``, a list of dicts a list of dicts.
        """
        rows = batch(X, names)
        return cast(Table, rows.table(self._labels.values, self._predict_labels(rows)))

    def view_array(self, X: object, names: Sequence[str] | None = None) -> Array:
        """Return probabilities ``(n, labels)``, and leave no trace of the predictions in the learner."""
        with self._leave_no_trace():
            return self._predict_labels(batch(X, names))

    def explain_one(self, x: Event, label: Label | None = None) -> Explanation:
        """Return the probability of a class as a sum: a base value, and a contribution of every field.

        ``base + sum(contributions.values())`` is the probability that :meth:`predict_proba_one` returns, to
        rounding. Contributions are Shapley values (:mod:`streamk.learners.explanation`), estimated from at
        most 32 permutations of the fields, the same for every event with as many. The learner does not
        change.

        Parameters
        ----------
        x
            As for :meth:`learn_one`.
        label
            The class; the most probable one by default.

        Returns
        -------
        Explanation
            In probability: 0.1 is ten percentage points.

        Raises
        ------
        ValueError
            If a value cannot be taken, or the learner has no such class.

        Examples
        --------
        >>> import streamk
        >>> events = [{"a": i % 7, "colour": ("red", "blue")[i % 2]} for i in range(400)]
        >>> learner = streamk.KernelClassifier(seed=7)
        >>> learner.learn_many(events, [x["colour"] == "red" for x in events])
        >>> explanation = learner.explain_one({"a": 6, "colour": "red"}, label=True)
        >>> round(explanation.prediction, 1), list(explanation.contributions)
        (1.0, ['colour', 'a'])
        """
        labels = self._labels.values
        if label is None:
            with self._leave_no_trace():
                out = self._predict_event(x)
            code = 0 if out is None else int(out.argmax())
        elif label in labels:
            code = labels.index(label)
        else:
            listed = ", ".join(map(repr, labels)) or "none yet"
            raise ValueError(f"the learner has no class {label!r}; its classes are {listed}")
        explanation = self._explain(x, code, 1.0 / max(len(labels), 1))
        return explanation._replace(label=labels[code] if labels else None)

    @overload
    def predict_many(self, X: AnyArray, names: Sequence[str] | None = None) -> AnyArray: ...
    @overload
    def predict_many(self, X: Sequence[Event]) -> list[Label | None]: ...
    @overload
    def predict_many(self, X: Frame[Column]) -> Column: ...
    def predict_many(self, X: object, names: Sequence[str] | None = None) -> object:
        """Return the most probable class of every row, in the type that goes with ``X``."""
        rows = batch(X, names)
        return rows.series(self._decide(self._predict_labels(rows)))

    def _predict_labels(self, rows: Batch) -> Array:
        """Return one column a label, ``(n, labels)``; 0 for those that no learned event has."""
        out = self._predict_batch(rows)
        if not out.shape[1] and self._labels.values:
            return np.full((len(out), len(self._labels)), 1.0 / len(self._labels))
        # labels of events that wait for their block have no output yet
        return padded(out, (len(out), len(self._labels)))[:, : len(self._labels)]

    @overload
    def predict_learn_many(
        self, X: AnyArray, y: object, w: object = None, *, names: Sequence[str]
    ) -> AnyArray: ...
    @overload
    def predict_learn_many(self, X: Sequence[Event], y: object, w: object = None) -> list[Label | None]: ...
    @overload
    def predict_learn_many(self, X: Frame[Column], y: object, w: object = None) -> Column: ...
    def predict_learn_many(
        self, X: object, y: object, w: object = None, names: Sequence[str] | None = None
    ) -> object:
        """Learn many events, and return the class predicted for each *before* it was learned.

        The prequential pass in one compiled loop: the same predictions and the same model as a loop of
        :meth:`predict_one` and :meth:`learn_one` (to rounding, if blocks of events are learned).
        A row met before any label is known gets None. A row of weight 0, or whose label is None, is predicted
        only.
        """
        rows, out = self._pass(X, y, w, names, wanted=True)
        return rows.series(self._decide(out))

    def predict_proba_learn_many(
        self, X: Table, y: object, w: object = None, names: Sequence[str] | None = None
    ) -> Table:
        """Learn many events, and return the probabilities predicted for each *before* it was learned.

        Classes that were not yet known to a row have probability 0 there. A row of weight 0, or
        whose label is None, is predicted only.
        """
        rows, out = self._pass(X, y, w, names, wanted=True)
        return cast(Table, rows.table(self._labels.values, out[:, : len(self._labels)]))

    def predict_learn_array(
        self, X: object, y: object, w: object = None, names: Sequence[str] | None = None
    ) -> Array:
        """Learn many events, and return what :meth:`predict_proba_learn_many` does, ``(n, labels)``."""
        return self._pass(X, y, w, names, wanted=True)[1][:, : len(self._labels)]

    def _pass(
        self, X: object, y: object, w: object, names: ColumnNames, wanted: bool, scales_only: bool = False
    ) -> tuple[Batch, Array]:
        rows = batch(X, names)
        values, weights = targets(y, len(rows)), check_weights(w, len(rows))
        unlabelled = without_label(values, weights)
        learned = weights > 0.0
        labels = self._check_targets(values, weights.tolist())
        self._prepare(rows, weights)
        before = len(self._labels)
        self._codec.register(list(itertools.compress(labels, learned.tolist())))
        codes = list(map(self._labels.codes.get, labels, itertools.repeat(0)))
        goal = np.array([codes, weights], dtype=np.float64)
        goal[0, unlabelled] = np.nan
        learn = self._observe_batch if scales_only else self._learn_batch
        out = learn(rows, goal, len(self._labels), wanted)
        if wanted:
            self._fill_blank(out, np.where(learned, goal[0] + 1.0, 0.0), before)
        return rows, out

    def _check_targets(self, values: Sequence[object], weights: Sequence[float]) -> list[Label]:
        return self._labels.check_many(values, [weight > 0.0 for weight in weights])

    def _fill_blank(self, out: Array, counts: Array, before: int) -> None:
        """Make the labels known to a row equally probable where nothing had been learned before it.

        ``counts`` are the labels known after each row if it alone counts; ``before``, those before the first.
        """
        blank = np.flatnonzero(out.sum(axis=1) == 0.0)
        known = np.maximum.accumulate(np.concatenate([[before], counts]))
        for row in blank.tolist():
            if known[row] > 0.0:
                labels = max(int(known[row]), self._labels.least)
                out[row, :labels] = 1.0 / labels

    def _decide(self, out: Array) -> list[Label | None]:
        if not out.size or not self._labels.values:
            return [None] * len(out)
        values = self._labels.values
        best = out.argmax(axis=1)
        known = out[np.arange(len(out)), best] > 0.0
        labels: list[Label | None] = list(map(values.__getitem__, best.tolist()))
        for row in np.flatnonzero(~known).tolist():
            labels[row] = None
        return labels
