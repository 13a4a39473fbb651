"""Evaluation of a frozen model at the end of a stream, compared with the one that learns."""

from __future__ import annotations

from typing import Any

import numpy as np

from streamk.arrays import AnyArray, Array, Integers
from streamk.evaluation.adapters import Table, tabled
from streamk.evaluation.chunk import EventChunk
from streamk.evaluation.codes import Codes
from streamk.evaluation.contender_metrics import ContenderMetrics


class FrozenTail:
    """A frozen copy of a contender, and the metrics of both from then on.

    It starts with the next window of the curves, so that both have the same windows.

    Parameters
    ----------
    name
        Of the contender.
    learner
        Of streamk; its frozen copy predicts from now on.
    codes
        Of labels, as the contest numbers them.
    task, interval
        As of :class:`~streamk.evaluation.contest.Contest`.

    Attributes
    ----------
    since
        The number of events before scoring started, None until then.
    frozen, live
        The metrics of the copy, and of the contender that continues learning, on the same events.
    error
        Why the copy was not scored further, empty if it was.
    """

    def __init__(self, name: str, learner: Any, codes: Codes, task: str, interval: int) -> None:
        self.name, self._codes, self._interval = name, codes, interval
        self._model, self._classes = learner.frozen(), hasattr(learner, "labels")
        self.frozen, self.live = (ContenderMetrics(task, interval, False, 0.9) for _ in range(2))
        self.since: int | None = None
        self.error = ""
        self.answers: object = None  # of the events that were scored last

    def add(
        self,
        xs: EventChunk,
        targets: AnyArray,
        live: Array,
        last: Integers | None,
        known: Integers | None,
        before: int,
    ) -> None:
        """Score events, before which there were so many; ``live`` are the contender's predictions."""
        skipped, self.answers = 0, None
        if self.since is None:
            skipped = -before % self._interval
            if skipped >= len(targets):
                return
            self.since = before + skipped
        if self.error:
            return
        try:
            answers = self._predict(xs[skipped:])
        except ValueError as error:
            self.error = str(error)
            return
        self.answers = answers
        last, known = (None if each is None else each[skipped:] for each in (last, known))
        self.frozen.add(targets[skipped:], self._codes.arranged(answers, known), last, None, None)
        self.live.add(targets[skipped:], live[skipped:], last, None, None)

    def _predict(self, xs: EventChunk) -> Table | Array:
        model = self._model
        if xs.matrix is None:
            events = list(xs.events)
            return tabled(model.predict_proba_many(events) if self._classes else model.predict_many(events))
        if self._classes:
            return Table(model.labels, model.predict_proba_many(xs.matrix, names=xs.names))
        return np.asarray(model.predict_many(xs.matrix, names=xs.names), dtype=np.float64)
